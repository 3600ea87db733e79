#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "craton/checkpoint/checkpoint.h"

namespace craton::checkpoint {

inline constexpr const char* kManifestName = "checkpoint.json";
inline constexpr const char* kRecipeName = "recipe.yaml";
inline constexpr const char* kLatestName = "latest";
inline constexpr int kFormatVersion = 1;

/// Names of files with their sizes.
using FileList = std::vector<std::pair<std::string, uint64_t>>;

std::string manifest_text(const Manifest& manifest, const FileList& files);

/// Reads a manifest of untrusted origin. kCorrupt, or kUnsupported for a newer format, names
/// `path`. File names have no folder in them.
std::pair<Manifest, FileList> parse_manifest(std::string_view text,
                                             const std::filesystem::path& path);

/// "model-00001-of-00004.safetensors"; parts count from 1 in names.
std::string part_name(std::string_view group, int part, int parts);

/// "exp_avg.NAME"; the parameter's own name for kParameter.
std::string tensor_name(StateKind kind, std::string_view parameter);

/// "step-00000100".
std::string checkpoint_name(int64_t step);
/// Its step, or -1 for another name.
int64_t step_of(std::string_view checkpoint_name);

}  // namespace craton::checkpoint
