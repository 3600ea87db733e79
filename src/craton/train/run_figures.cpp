#include "craton/train/run_figures.h"

#include <algorithm>
#include <limits>

#include "craton/base/units.h"
#include "craton/model/sfm.h"
#include "craton/results/figures.h"
#include "craton/train/window_data.h"
#include "craton/volume/plot/view.h"

namespace craton::train {
namespace {

namespace plot = volume::plot;

/// Larger windows are not reconstructed for a picture: one worker would compute them alone.
constexpr int64_t kMostTokensShown = 16384;
constexpr int64_t kWindowsShown = 4;

/// The middle section of a window [1, window...]: [traces, samples].
torch::Tensor middle_section(const torch::Tensor& window) {
  torch::Tensor section = window[0];
  while (section.dim() > 2) section = section[section.size(0) / 2];
  return section.contiguous();
}

std::vector<float> to_vector(const torch::Tensor& values) {
  const torch::Tensor flat = values.contiguous();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

results::Figure reconstruction(model::Sfm& sfm, TrainingData& data, int64_t index) {
  const model::Batch batch = data.validation(index);
  const auto result = sfm.reconstruct(batch, {}, model::Amplitude::kTruth);
  // The mask, sample by sample: hidden patches are set to NaN.
  torch::Tensor masked = batch.input.clone();
  const model::PatchGrid& grid = sfm.grid_of(batch.input);
  const torch::Tensor hidden = result.mask.nonzero().select(1, 1).unsqueeze(0);  // [1, hidden]
  const torch::Tensor blank = torch::full({1, hidden.size(1), grid.patch_samples()},
                                          std::numeric_limits<float>::quiet_NaN());
  model::scatter_patches(blank, grid, hidden, masked);

  const torch::Tensor truth = middle_section(batch.input);
  results::ReconstructionWindow window;
  window.title = fmt::format("Validation window {}", index);
  window.caption = fmt::format(
      "{:.0f} % of the patches are hidden from the model; shown is the window's middle section",
      100.0 * static_cast<double>(hidden.size(1)) / static_cast<double>(grid.tokens()));
  window.traces = truth.size(0);
  window.samples = truth.size(1);
  window.truth = to_vector(truth);
  window.input = to_vector(middle_section(masked));
  window.reconstruction = to_vector(middle_section(result.prediction));
  return results::reconstruction_figure(window);
}

results::Figure windows_over_section(const Trainer& trainer, const volume::Volume& volume) {
  const plot::Section section = plot::read_section(volume, {});
  const auto& window = trainer.recipe().data.window;
  std::vector<std::pair<int64_t, int64_t>> sizes = {
      {window[window.size() - 2], window.back()}, {256, 256}, {512, 512}, {640, 1024}};
  plot::ChartStyle style;
  style.title = section.title;
  style.across = section.across_labels;
  style.down = section.down_labels;
  style.boxes = plot::window_boxes(sizes, section.rows, section.columns).boxes;
  return results::section_figure("How much geology a window covers",
                                 fmt::format("The model's own window is {} traces x {} samples.",
                                             window[window.size() - 2], window.back()),
                                 section.raster(), style);
}

}  // namespace

void save_run_figures(Trainer& trainer, const std::filesystem::path& folder) {
  auto* sfm = dynamic_cast<model::Sfm*>(&trainer.model());
  const auto* windows = dynamic_cast<WindowData*>(&trainer.data());
  if (sfm == nullptr || windows == nullptr) return;
  torch::NoGradGuard guard;
  sfm->eval();
  std::vector<results::Figure> figures = {
      windows_over_section(trainer, windows->sampler().volume(0))};
  const int64_t count = trainer.data().validation_size();
  const bool small = sfm->tokens_per_sample() <= kMostTokensShown;
  const int64_t shown = small ? std::min(kWindowsShown, count) : 0;
  for (int64_t k = 0; k < shown; ++k)
    figures.push_back(reconstruction(*sfm, trainer.data(), k * count / shown));
  results::save_figures(folder, figures);
}

}  // namespace craton::train
