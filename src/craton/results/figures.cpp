#include "craton/results/figures.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/volume/plot/color_scale.h"

namespace craton::results {
namespace {

namespace plot = volume::plot;

constexpr double kPercentile = 98;
/// Panels are drawn with at least so many pixels per side, so that browsers do not blur small
/// windows.
constexpr int64_t kSmallestSide = 240;
constexpr int64_t kLargestSide = 1200;
constexpr const char* kIndexName = "figures.json";

/// [traces][samples] -> rows of time.
std::vector<float> time_down(const std::vector<float>& values, int64_t traces, int64_t samples) {
  std::vector<float> out(values.size());
  for (int64_t trace = 0; trace < traces; ++trace) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      out[static_cast<size_t>(sample * traces + trace)] =
          values[static_cast<size_t>(trace * samples + sample)];
    }
  }
  return out;
}

Panel draw_panel(std::string label, const std::vector<float>& values,
                 const ReconstructionWindow& window, const plot::ColorScale& scale) {
  const auto rows = time_down(values, window.traces, window.samples);
  const int64_t shorter = std::min(window.traces, window.samples);
  const int64_t longer = std::max(window.traces, window.samples);
  const int64_t zoom = std::max<int64_t>(
      1, std::min((kSmallestSide + shorter - 1) / shorter, kLargestSide / longer));
  const plot::Image image =
      plot::render({rows, window.samples, window.traces}, scale,
                   static_cast<int>(std::min(window.traces * zoom, kLargestSide)),
                   static_cast<int>(std::min(window.samples * zoom, kLargestSide)));
  return {std::move(label), plot::encode_png(image)};
}

const char* kind_name(Figure::Kind kind) {
  return kind == Figure::Kind::kSection ? "section" : "reconstruction";
}

}  // namespace

Figure reconstruction_figure(const ReconstructionWindow& w) {
  const auto count = static_cast<size_t>(w.traces * w.samples);
  if (w.traces < 1 || w.samples < 1 || w.input.size() != count ||
      w.reconstruction.size() != count || w.truth.size() != count) {
    fail(ErrorCode::kInvalidArgument,
         "a window of {} traces x {} samples needs {} values; input has {}, reconstruction {}, "
         "truth {}",
         w.traces, w.samples, count, w.input.size(), w.reconstruction.size(), w.truth.size());
  }
  const auto scale = plot::ColorScale::symmetric(w.truth, kPercentile, plot::ColorMap::kSeismic);
  std::vector<float> difference(count);
  std::transform(w.truth.begin(), w.truth.end(), w.reconstruction.begin(), difference.begin(),
                 std::minus<>());
  Figure figure;
  figure.kind = Figure::Kind::kReconstruction;
  figure.title = w.title;
  figure.caption = w.caption;
  figure.panels.push_back(draw_panel("Masked input", w.input, w, scale));
  figure.panels.push_back(draw_panel("Reconstruction", w.reconstruction, w, scale));
  figure.panels.push_back(draw_panel("Truth", w.truth, w, scale));
  figure.panels.push_back(draw_panel("Difference", difference, w, scale));
  return figure;
}

Figure section_figure(std::string title, std::string caption, const plot::Raster& section,
                      const plot::ChartStyle& style) {
  const auto scale =
      plot::ColorScale::symmetric(section.values, kPercentile, plot::ColorMap::kSeismic);
  Figure figure;
  figure.title = std::move(title);
  figure.caption = std::move(caption);
  figure.panels.push_back({"", plot::encode_png(plot::draw_chart(section, scale, style))});
  return figure;
}

void save_figures(const std::filesystem::path& folder, const std::vector<Figure>& figures) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_errno(fmt::format("cannot create {}", folder.string()), error.value());
  nlohmann::ordered_json index = nlohmann::ordered_json::array();
  for (size_t f = 0; f < figures.size(); ++f) {
    nlohmann::ordered_json json = {{"kind", kind_name(figures[f].kind)},
                                   {"title", figures[f].title},
                                   {"caption", figures[f].caption},
                                   {"panels", nlohmann::ordered_json::array()}};
    for (size_t p = 0; p < figures[f].panels.size(); ++p) {
      const std::string file = fmt::format("{}-{:02}-{}.png", kind_name(figures[f].kind), f, p);
      runtime::write_file_atomically(folder / file, figures[f].panels[p].png);
      json["panels"].push_back({{"label", figures[f].panels[p].label}, {"file", file}});
    }
    index.push_back(std::move(json));
  }
  runtime::write_file_atomically(folder / kIndexName, index.dump(1) + "\n");
}

std::vector<Figure> load_figures(const std::filesystem::path& folder) {
  std::vector<Figure> figures;
  if (!std::filesystem::exists(folder / kIndexName)) return figures;
  try {
    for (const auto& json : nlohmann::json::parse(runtime::read_text(folder / kIndexName))) {
      Figure figure;
      figure.kind =
          json.at("kind") == "section" ? Figure::Kind::kSection : Figure::Kind::kReconstruction;
      figure.title = json.at("title").get<std::string>();
      figure.caption = json.at("caption").get<std::string>();
      for (const auto& panel : json.at("panels")) {
        const std::filesystem::path file = panel.at("file").get<std::string>();
        figure.panels.push_back(
            {panel.at("label").get<std::string>(), runtime::read_file(folder / file.filename())});
      }
      figures.push_back(std::move(figure));
    }
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kCorrupt, "{} is damaged: not an index of figures",
         (folder / kIndexName).string());
  }
  return figures;
}

}  // namespace craton::results
