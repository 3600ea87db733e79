#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "craton/app/cli/volume_verbs.h"
#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/plot/view.h"

namespace craton::app {
namespace {

namespace plot = volume::plot;

struct ViewOptions {
  std::string store, out, variable, windows, map, scale;
  std::optional<double> inline_number, crossline, time, depth, cdp, trace, offset, angle;
  bool spectrum = false;
  double clip = 99;
};

std::vector<plot::Place> places_of(const ViewOptions& o) {
  std::vector<plot::Place> places;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) places.emplace_back(name, *value);
  };
  add("inline", o.inline_number);
  add("crossline", o.crossline);
  add("cdp", o.cdp);
  add("trace", o.trace);
  add("offset", o.offset);
  add("angle", o.angle);
  add("time", o.time);
  add("depth", o.depth);
  return places;
}

plot::Image draw_map(const volume::Volume& volume, const ViewOptions& o) {
  const plot::ColorMap map = plot::color_map(o.scale.empty() ? "viridis" : o.scale);
  if (o.map == "amplitude") {
    const plot::Section s = plot::amplitude_map(volume, runtime::available_cores());
    return plot::draw_section(s, plot::ColorScale::ranged(s.values, o.clip, map));
  }
  const plot::Section s = o.map == "live" ? plot::live_map(volume) : plot::fold_map(volume);
  float most = 1;
  for (const float v : s.values) most = std::max(most, v);
  return plot::draw_section(s, {.map = map, .low = 0, .high = most});
}

plot::Image draw_spectrum(const volume::Volume& volume) {
  const plot::Curve curves[] = {plot::spectrum(volume)};
  plot::ChartStyle style;
  style.title = plot::volume_title(volume) + ", mean amplitude spectrum";
  style.across.title = plot::spectrum_axis(volume);
  style.down.title = "dB";
  return plot::draw_curves(curves, style);
}

plot::Image draw_places(const volume::Volume& volume, const ViewOptions& o) {
  const plot::Section s = plot::read_section(volume, places_of(o));
  const auto windows = plot::window_boxes(plot::parse_windows(o.windows), s.rows, s.columns);
  for (const std::string& label : windows.skipped) {
    fmt::print(stderr, "craton: a window of {} is larger than this picture of {} x {}: not drawn\n",
               label, s.columns, s.rows);
  }
  // Amplitudes swing around zero; velocities and the like do not.
  const bool around_zero =
      std::any_of(s.values.begin(), s.values.end(), [](float v) { return v < 0; }) ||
      std::none_of(s.values.begin(), s.values.end(), [](float v) { return v > 0; });
  const plot::ColorMap map = plot::color_map(!o.scale.empty() ? o.scale
                                             : around_zero    ? "seismic"
                                                              : "viridis");
  const plot::ColorScale scale = around_zero ? plot::ColorScale::symmetric(s.values, o.clip, map)
                                             : plot::ColorScale::ranged(s.values, o.clip, map);
  return plot::draw_section(s, scale, windows.boxes);
}

void run_view(const ViewOptions& o) {
  plot::parse_windows(o.windows);
  if (!o.scale.empty()) plot::color_map(o.scale);
  const auto volume = volume::open_volume(o.store, o.variable);
  const plot::Image image = o.spectrum       ? draw_spectrum(*volume)
                            : !o.map.empty() ? draw_map(*volume, o)
                                             : draw_places(*volume, o);
  runtime::write_file_atomically(o.out, plot::encode_png(image));
  fmt::print("{}: {} x {} pixels\n", o.out, image.width(), image.height());
}

}  // namespace

void add_volume_view(CLI::App& volume) {
  auto options = std::make_shared<ViewOptions>();
  CLI::App* view =
      volume.add_subcommand("view", "Draw a section, slice, gather, map or spectrum as PNG");
  view->footer(
      "Examples:\n"
      "  craton volume view f3.mdio --inline 120 -o inline.png --windows 256x256,640x1024\n"
      "  craton volume view f3.mdio --time 900 --scale grey -o slice.png\n"
      "  craton volume view f3.mdio --map amplitude -o map.png");
  auto& o = *options;
  view->add_option("STORE", o.store, "Volume: a path or URI")->required();
  view->add_option("-o,--out", o.out, "PNG file to write")->required();
  view->add_option("--inline", o.inline_number, "Section along this inline (the middle one)");
  view->add_option("--crossline", o.crossline,
                   "Section along this crossline; with --inline a prestack gather");
  view->add_option("--cdp", o.cdp, "Gather of this cdp");
  view->add_option("--trace", o.trace, "Gather of this trace of a line in the file's order");
  view->add_option("--offset", o.offset, "Prestack: this offset");
  view->add_option("--angle", o.angle, "Prestack: this angle");
  view->add_option("--time", o.time, "Slice at this time");
  view->add_option("--depth", o.depth, "Slice at this depth");
  view->add_option("--windows", o.windows,
                   "Context windows to draw over it, TRACESxSAMPLES, by commas");
  auto* map = view->add_option("--map", o.map, "Map instead: live, fold or amplitude")
                  ->check(CLI::IsMember({"live", "fold", "amplitude"}));
  view->add_flag("--spectrum", o.spectrum, "Mean amplitude spectrum instead")->excludes(map);
  view->add_option(
      "--scale", o.scale,
      "Colours: seismic, grey or viridis (seismic; viridis for maps and for values above zero)");
  view->add_option("--clip", o.clip, "Percentile of the amplitudes at which colours end")
      ->check(CLI::Range(50.0, 100.0))
      ->capture_default_str();
  view->add_option("--variable", o.variable, "Another array than the default one");
  view->callback([options] { run_view(*options); });
}

}  // namespace craton::app
