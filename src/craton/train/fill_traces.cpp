#include <algorithm>

#include "craton/base/error.h"
#include "craton/model/mask.h"
#include "craton/train/each_window.h"
#include "craton/train/filled_volume.h"
#include "craton/train/hiding.h"
#include "craton/train/prediction.h"
#include "craton/train/window_source.h"

namespace craton::train {
namespace {

struct Predicted {
  torch::Tensor samples;  // [1, window...], normalised; undefined: there is nothing to go by
  torch::Tensor hidden;   // [1, tokens] bytes
};

/// A walk of windows over a volume along its first axis.
class TraceFiller {
 public:
  TraceFiller(const LoadedModel& model, WindowSource& source, const FillOptions& options)
      : model_(model), source_(source), options_(options), geometry_(geometry()) {
    for (size_t d = 0; d < 3; ++d)
      origins_[d] = window_origins(tiling().volume[d], tiling().window[d], geometry_.stride[d]);
    for (const int64_t row : origins_[0]) total_ += static_cast<int64_t>(windows_at(row).size());
  }

  FillReport run(FilledVolume& output) {
    Blend blend(geometry_, [this](int64_t row, int64_t column) {
      return options_.mask_ratio || !source_.recorded(row, column);
    });
    for (size_t k = 0; k < origins_[0].size(); ++k) {
      predict_row(origins_[0][k], blend);
      const bool last = k + 1 == origins_[0].size();
      output.write_layers_before(last ? tiling().volume[0] : origins_[0][k + 1], blend);
    }
    output.finish();
    FillReport report = output.report();
    report.windows = windows_;
    return report;
  }

 private:
  const Tiling& tiling() const { return source_.tiling(); }

  Blend::Geometry geometry() const {
    Blend::Geometry g{tiling().window, tiling().patch, {}, tiling().volume[1], tiling().volume[2]};
    for (size_t d = 0; d < 3; ++d) g.stride[d] = window_stride(g.window[d], options_.overlap);
    return g;
  }

  /// The windows from this row on in which there is something to predict, and from something.
  std::vector<Three> windows_at(int64_t row) const {
    std::vector<Three> out;
    for (const int64_t column : origins_[1]) {
      const double dead = source_.dead_share({row, column, 0}, tiling().window);
      if (dead == 1 || (dead == 0 && !options_.mask_ratio)) continue;
      for (const int64_t sample : origins_[2]) out.push_back({row, column, sample});
    }
    return out;
  }

  void predict_row(int64_t row, Blend& blend) {
    const std::vector<Three> windows = windows_at(row);
    for_each_window<Predicted>(
        windows.size(), options_.threads, [&](size_t k) { return predict(windows[k]); },
        [&](size_t k, const Predicted& p) {
          if (p.samples.defined()) {
            blend.add({windows[k],
                       {p.samples.data_ptr<float>(), static_cast<size_t>(p.samples.numel())},
                       {p.hidden.data_ptr<uint8_t>(), static_cast<size_t>(p.hidden.numel())}});
            ++windows_;
          }
          if (options_.progress) options_.progress(++done_, total_);
        });
  }

  Predicted predict(const Three& origin) {
    if (options_.cancel != nullptr && *options_.cancel)
      fail(ErrorCode::kCancelled, "interrupted; nothing was written");
    model::Batch batch;
    batch.input = source_.read(origin);
    batch.seed = model_.recipe.seed;
    batch.training = false;
    // Unique in this volume, so that each window has a mask of its own.
    batch.sample_numbers = {(origin[0] * tiling().volume[1] + origin[1]) * tiling().volume[2] +
                            origin[2]};
    Predicted out{batch.input.clone(),
                  torch::zeros({1, model_.model->grid().tokens()}, torch::kUInt8)};
    const std::vector<torch::Tensor> masks = masks_of(origin, batch);
    if (masks.empty()) return {};
    for (const torch::Tensor& mask : masks) take_hidden(batch, mask, out);
    return out;
  }

  /// What to hide of a window, pass by pass: bytes [1, tokens].
  std::vector<torch::Tensor> masks_of(const Three& origin, const model::Batch& batch) const {
    const model::PatchGrid& grid = model_.model->grid();
    const int64_t tokens = grid.tokens(), down = grid.count()[2];
    const Tiling& t = tiling();
    std::vector<double> dead;  // per column of patches
    for (int64_t i = 0; i < t.window[0]; i += t.patch[0]) {
      for (int64_t x = 0; x < t.window[1]; x += t.patch[1])
        dead.push_back(source_.dead_share({origin[0] + i, origin[1] + x, 0}, t.patch));
    }
    const auto as_mask = [&](const std::vector<uint8_t>& columns) {
      const auto bytes = torch::tensor(columns, torch::kUInt8).unsqueeze(1);  // [columns, 1]
      return bytes.expand({bytes.size(0), down}).reshape({1, tokens});
    };
    const double ratio = options_.mask_ratio.value_or(model_.model->settings().mask_ratio);
    const auto most = static_cast<int64_t>(ratio * static_cast<double>(dead.size()));
    std::vector<torch::Tensor> masks;
    for (const auto& pass : hiding_passes(dead, most)) masks.push_back(as_mask(pass));
    if (!options_.mask_ratio) return masks;
    // A test hides what it would in training, and dead traces as ever.
    if (masks.empty()) masks.push_back(torch::zeros({1, tokens}, torch::kUInt8));
    const int64_t masked = model::masked_count(tokens, ratio);
    const auto order = model::mask_orders(batch.seed, batch.sample_numbers, tokens, masked);
    for (torch::Tensor& mask : masks) {
      const torch::Tensor both = mask.clone().scatter_(1, order.slice(1, tokens - masked), 1);
      if (!both.all().item<bool>()) mask = both;
    }
    return masks;
  }

  /// Predicts the hidden patches and takes those over that no pass before has predicted.
  void take_hidden(const model::Batch& batch, const torch::Tensor& mask, Predicted& out) const {
    const model::PatchGrid& grid = model_.model->grid();
    const torch::Tensor all = model_.model->reconstruct(batch, mask.to(torch::kBool)).prediction;
    if (!all.isfinite().all().item<bool>()) {
      fail(ErrorCode::kInvalidArgument,
           "the model of {} predicts values that are not finite; take a checkpoint of a training "
           "that went well",
           model_.checkpoint);
    }
    const torch::Tensor fresh = mask.gt(out.hidden)[0].nonzero().view({1, -1});  // [1, patches]
    model::scatter_patches(model::gather_patches(all, grid, fresh), grid, fresh, out.samples);
    out.hidden = torch::maximum(out.hidden, mask).contiguous();
  }

  const LoadedModel& model_;
  WindowSource& source_;
  const FillOptions& options_;
  const Blend::Geometry geometry_;
  std::array<std::vector<int64_t>, 3> origins_;
  int64_t total_ = 0, done_ = 0, windows_ = 0;
};

}  // namespace

FillReport fill_traces(const LoadedModel& model, std::shared_ptr<const volume::Volume> volume,
                       const FillOptions& options) {
  WindowSource source(std::move(volume), model.recipe.data, model.model->settings().patch,
                      options.threads);
  FilledVolume output(source, model, options);
  return TraceFiller(model, source, options).run(output);
}

}  // namespace craton::train
