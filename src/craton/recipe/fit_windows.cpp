#include "craton/recipe/fit_windows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace craton::recipe {
namespace {

void check_patch(const Settings& model, const std::vector<int64_t>& window, const std::string& of) {
  const auto patch = model.integers("patch", {});
  if (patch.size() != window.size()) {
    model.reject("patch", fmt::format("must have as many extents as {} [{}], found [{}]", of,
                                      fmt::join(window, ", "), fmt::join(patch, ", ")));
  }
  for (size_t a = 0; a < patch.size(); ++a) {
    if (patch[a] < 1 || window[a] % patch[a] != 0) {
      model.reject("patch", fmt::format("must divide {} [{}] on each axis, found [{}]", of,
                                        fmt::join(window, ", "), fmt::join(patch, ", ")));
    }
  }
}

}  // namespace

void fit_model_to_window(Settings& model, const DataRecipe& data) {
  const std::string kind = model.text("kind", "sfm");
  // Said or not, it is the same job: the digest and a dump of it must agree.
  if (!model.has("kind")) model.override_with("kind=" + kind);
  if (kind != "sfm") return;
  if (!data.tokens.empty())
    model.reject("kind", "sfm learns from volumes, and data.tokens names files of tokens");
  if (!model.has("window")) {
    model.override_with(fmt::format("window=[{}]", fmt::join(data.window, ", ")));
  }
  const auto window = model.integers("window", {});
  if (window != data.window) {
    model.reject(
        "window",
        fmt::format("[{}] differs from data.window [{}]; leave it out, it follows the data",
                    fmt::join(window, ", "), fmt::join(data.window, ", ")));
  }
  if (!model.has("patch")) return;
  check_patch(model, window, "data.window");
  for (size_t n = 0; n < data.volumes.size(); ++n) {
    check_patch(model, data.window_of(n), fmt::format("data.volumes[{}].window", n));
  }
}

void check_tiles(const Settings& settings, const Recipe& r) {
  if (r.data.tile_rows == 0) return;
  const Settings data = settings.section("data");
  if (!r.data.tokens.empty()) data.reject("tile_rows", "is for data.volumes, and there are none");
  if (r.train.micro_batch != 1) {
    data.reject("tile_rows", fmt::format("one window is read at a time, so train.micro_batch must "
                                         "be 1, found {}",
                                         r.train.micro_batch));
  }
  if (!r.model.has("patch")) return;
  const auto patch = r.model.integers("patch", {});
  if (!patch.empty() && r.data.tile_rows % patch[0] != 0) {
    data.reject("tile_rows", fmt::format("must be a multiple of model.patch's first extent ({}), "
                                         "found {}",
                                         patch[0], r.data.tile_rows));
  }
}

void fit_micro_batch_to_windows(const Settings& settings, const Recipe& r) {
  if (r.train.micro_batch == 1) return;
  for (size_t n = 0; n < r.data.volumes.size(); ++n) {
    if (r.data.window_of(n) == r.data.window_of(0)) continue;
    settings.section("train").reject(
        "micro_batch",
        fmt::format("must be 1 where the windows of volumes differ ([{}] and [{}]), found {}",
                    fmt::join(r.data.window_of(0), ", "), fmt::join(r.data.window_of(n), ", "),
                    r.train.micro_batch));
  }
}

}  // namespace craton::recipe
