#include "craton/app/cli/prepare_volumes.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "craton/base/error.h"
#include "craton/store/lustre.h"
#include "craton/volume/segy/ingest.h"

namespace craton::app {
namespace {
namespace fs = std::filesystem;

bool is_segy(const std::string& uri) {
  std::string extension = fs::path(uri).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension == ".sgy" || extension == ".segy";
}

fs::path local_path(const std::string& uri) {
  constexpr std::string_view kScheme = "file://";
  return uri.starts_with(kScheme) ? uri.substr(kScheme.size()) : uri;
}

/// Has what lies in an archive brought back, all at once, before workers wait for it file by file.
void restore_from_archive(const std::string& uri) {
  if (uri.find("://") != uri.npos && !uri.starts_with("file://")) return;
  const fs::path path = local_path(uri);
  const auto lustre = store::Lustre::of(path, store::process_environment());
  const size_t asked = lustre ? lustre->restore_below(path) : 0;
  if (asked > 0)
    fmt::print("{} files of {} lie in an archive; they have been asked for\n", asked,
               path.string());
}

}  // namespace

std::vector<std::string> prepare_volumes(const recipe::Recipe& recipe) {
  std::vector<std::string> overrides;
  for (size_t k = 0; k < recipe.data.volumes.size(); ++k) {
    if (!is_segy(recipe.data.volumes[k].uri)) {
      restore_from_archive(recipe.data.volumes[k].uri);
      continue;
    }
    const fs::path file = local_path(recipe.data.volumes[k].uri);
    if (!fs::exists(file))
      fail(ErrorCode::kNotFound, "there is no SEG-Y file {} (data.volumes.{}.uri)", file.string(),
           k);
    const fs::path target = fs::absolute("volumes") / (file.stem().string() + ".mdio");
    if (!fs::exists(target) || fs::last_write_time(target) < fs::last_write_time(file)) {
      fmt::print("making {} from {}\n", fs::proximate(target).string(), file.string());
      std::fflush(stdout);
      volume::segy::IngestOptions options;
      options.replace = true;
      const std::vector<fs::path> files = {file};
      volume::segy::ingest(files, target.string(), options);
    }
    overrides.push_back(fmt::format("data.volumes.{}.uri={}", k, target.string()));
  }
  return overrides;
}

}  // namespace craton::app
