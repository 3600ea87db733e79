#include "craton/checkpoint/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "craton/base/error.h"
#include "craton/checkpoint/manifest.h"
#include "craton/runtime/file.h"

namespace craton::checkpoint {
namespace fs = std::filesystem;
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors are little endian; swapping is not written");

constexpr const char* kModel = "model";
constexpr const char* kOptimizer = "optimizer";

void write_group(const fs::path& path, std::span<const ParameterState> states,
                 std::span<const StateKind> kinds) {
  std::vector<TensorInfo> tensors;
  const auto visit = [&](const auto& call) {
    for (const ParameterState& state : states) {
      for (const StateKind kind : kinds) {
        const bool moment = kind != StateKind::kParameter;
        if (moment && !state.trained) continue;
        const auto moments = kind == StateKind::kExpAvg ? state.exp_avg : state.exp_avg_sq;
        call(state, tensor_name(kind, state.name), moment ? "F32" : state.dtype,
             moment ? std::as_bytes(moments) : state.value);
      }
    }
  };
  visit([&](const ParameterState& state, std::string name, const std::string& dtype, auto) {
    tensors.push_back({std::move(name), dtype, state.shape});
  });
  SafetensorsWriter writer(path, std::move(tensors), {{"format", "pt"}});
  visit([&](const ParameterState&, const std::string& name, const std::string&,
            std::span<const std::byte> bytes) { writer.write(name, 0, bytes); });
  writer.finish();
}

/// The index by which other programs find a tensor's file.
std::string index_text(const std::vector<std::unique_ptr<SafetensorsReader>>& files) {
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  uint64_t total = 0;
  for (const auto& file : files) {
    for (const TensorInfo& tensor : file->tensors()) {
      map[tensor.name] = file->path().filename().string();
      total += tensor.bytes;
    }
  }
  nlohmann::ordered_json json;
  json["metadata"]["total_size"] = total;
  json["weight_map"] = std::move(map);
  return json.dump(1) + "\n";
}

void check_parts(const std::vector<std::unique_ptr<SafetensorsReader>>& models,
                 const std::vector<std::unique_ptr<SafetensorsReader>>& optimizers,
                 const Manifest& manifest) {
  const auto locate = [](const auto& files, const std::string& name) {
    const TensorInfo* found = nullptr;
    for (const auto& file : files) {
      const TensorInfo* here = file->find(name);
      if (here != nullptr && found != nullptr)
        fail(ErrorCode::kInternal, "two parts of a checkpoint hold '{}'", name);
      if (here != nullptr) found = here;
    }
    return found;
  };
  size_t expected = 0, tensors = 0;
  const auto check = [&](const auto& files, const std::string& name, const ParameterEntry& entry,
                         const std::string& dtype) {
    const TensorInfo* tensor = locate(files, name);
    if (tensor == nullptr) fail(ErrorCode::kInternal, "no part of the checkpoint holds '{}'", name);
    if (tensor->shape != entry.shape || tensor->dtype != dtype) {
      fail(ErrorCode::kInternal, "the checkpoint's '{}' has another shape or type than the model's",
           name);
    }
    ++expected;
  };
  for (const ParameterEntry& entry : manifest.parameters) {
    check(models, entry.name, entry, entry.dtype);
    if (!entry.trained) continue;
    check(optimizers, tensor_name(StateKind::kExpAvg, entry.name), entry, "F32");
    check(optimizers, tensor_name(StateKind::kExpAvgSq, entry.name), entry, "F32");
  }
  for (const auto* files : {&models, &optimizers}) {
    for (const auto& file : *files) tensors += file->tensors().size();
  }
  if (tensors != expected) {
    fail(ErrorCode::kInternal, "the parts of the checkpoint hold {} tensors, {} were expected",
         tensors, expected);
  }
}

/// A checkpoint whose manifest can be read and whose files have their sizes.
bool is_valid(const fs::path& folder) {
  try {
    const auto [manifest, files] =
        parse_manifest(runtime::read_text(folder / kManifestName), folder / kManifestName);
    return std::all_of(files.begin(), files.end(), [&](const auto& file) {
      std::error_code error;
      return fs::file_size(folder / file.first, error) == file.second && !error;
    });
  } catch (const Error&) {
    return false;
  }
}

/// Removes checkpoints beyond the newest `keep`, damaged ones, and what writers of this or earlier
/// steps left staged.
void prune(const fs::path& root, int64_t step, int64_t keep) {
  auto valid = list_checkpoints(root);
  std::unordered_set<std::string> stay;
  for (size_t i = 0; i < valid.size() && i < static_cast<size_t>(keep); ++i) {
    stay.insert(valid[valid.size() - 1 - i].filename().string());
  }
  stay.insert(checkpoint_name(step));
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename().string();
    const std::string stem = name.substr(0, name.find('.'));
    const int64_t of = step_of(stem);
    if (of < 0) continue;
    const bool leftover = stem != name;
    if (leftover ? of <= step : !stay.contains(name)) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

fs::path staging_folder(const fs::path& root, int64_t step, uint64_t generation) {
  return root / fmt::format("{}.partial-{}", checkpoint_name(step), generation);
}

void write_part(const fs::path& staging, int part, int parts,
                std::span<const ParameterState> states) {
  std::error_code error;
  fs::create_directories(staging, error);
  if (error) fail_errno(fmt::format("cannot create {}", staging.string()), error.value());
  const fs::path model = staging / part_name(kModel, part, parts);
  const fs::path optimizer = staging / part_name(kOptimizer, part, parts);
  static constexpr StateKind kValue[] = {StateKind::kParameter};
  static constexpr StateKind kMoments[] = {StateKind::kExpAvg, StateKind::kExpAvgSq};
  try {
    write_group(model, states, kValue);
    write_group(optimizer, states, kMoments);
  } catch (...) {
    fs::remove(model, error);
    fs::remove(optimizer, error);
    throw;
  }
}

namespace {

/// Writes what makes the staged parts a checkpoint; the manifest is last.
void complete(const fs::path& staging, int parts, const Manifest& manifest,
              std::string_view recipe_yaml) {
  std::vector<std::unique_ptr<SafetensorsReader>> models, optimizers;
  FileList files;
  for (int part = 0; part < parts; ++part) {
    models.push_back(std::make_unique<SafetensorsReader>(staging / part_name(kModel, part, parts)));
    optimizers.push_back(
        std::make_unique<SafetensorsReader>(staging / part_name(kOptimizer, part, parts)));
    for (const auto& path : {models.back()->path(), optimizers.back()->path()}) {
      files.emplace_back(path.filename().string(), fs::file_size(path));
    }
  }
  check_parts(models, optimizers, manifest);
  const auto add_text = [&](const std::string& name, std::string_view text) {
    runtime::write_file_atomically(staging / name, text);
    files.emplace_back(name, text.size());
  };
  add_text("model.safetensors.index.json", index_text(models));
  add_text("optimizer.safetensors.index.json", index_text(optimizers));
  add_text(kRecipeName, recipe_yaml);
  runtime::write_file_atomically(staging / kManifestName, manifest_text(manifest, files));
}

/// The staged parts have become `folder` before.
bool was_committed(const fs::path& folder, const fs::path& staging, const Manifest& manifest) {
  if (fs::exists(staging) || !is_valid(folder)) return false;
  const auto [made, files] =
      parse_manifest(runtime::read_text(folder / kManifestName), folder / kManifestName);
  return made.generation == manifest.generation && made.recipe_digest == manifest.recipe_digest;
}

}  // namespace

fs::path commit(const fs::path& root, const fs::path& staging, int parts, const Manifest& manifest,
                std::string_view recipe_yaml, int64_t keep) {
  const fs::path folder = root / checkpoint_name(manifest.step);
  if (!was_committed(folder, staging, manifest)) {
    complete(staging, parts, manifest, recipe_yaml);
    const fs::path old = folder.string() + fmt::format(".old-{}", ::getpid());
    std::error_code error;
    if (fs::exists(folder)) fs::rename(folder, old, error);
    if (!error) fs::rename(staging, folder, error);
    if (error) fail_errno(fmt::format("cannot create {}", folder.string()), error.value());
    runtime::sync_directory(root);
  }
  runtime::write_file_atomically(root / kLatestName, folder.filename().string() + "\n");
  prune(root, manifest.step, keep);
  return folder;
}

void discard(const fs::path& staging) noexcept {
  std::error_code ignored;
  fs::remove_all(staging, ignored);
}

std::vector<fs::path> list_checkpoints(const fs::path& root) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const int64_t step = step_of(entry.path().filename().string());
    if (step >= 0 && is_valid(entry.path())) found.emplace_back(step, entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> out;
  for (auto& [step, path] : found) out.push_back(std::move(path));
  return out;
}

std::optional<fs::path> newest_checkpoint(const fs::path& root) {
  std::error_code error;
  if (fs::exists(root / kLatestName, error)) {
    try {
      std::string name = runtime::read_text(root / kLatestName);
      while (!name.empty() && name.back() == '\n') name.pop_back();
      if (step_of(name) >= 0 && is_valid(root / name)) return root / name;
    } catch (const Error&) {
      // Unreadable: the folders themselves say what is there.
    }
  }
  auto all = list_checkpoints(root);
  if (all.empty()) return std::nullopt;
  return std::move(all.back());
}

CheckpointReader::CheckpointReader(const fs::path& path) {
  folder_ = path;
  if (!fs::exists(path / kManifestName)) {
    auto newest = newest_checkpoint(path);
    if (!newest) newest = newest_checkpoint(path / "checkpoints");
    if (!newest) {
      fail(ErrorCode::kNotFound,
           "no checkpoint at {}; expected a folder with {}, or one that holds such folders",
           path.string(), kManifestName);
    }
    folder_ = *newest;
  }
  auto [manifest, files] =
      parse_manifest(runtime::read_text(folder_ / kManifestName), folder_ / kManifestName);
  manifest_ = std::move(manifest);
  open_files(files);
  for (size_t i = 0; i < manifest_.parameters.size(); ++i) {
    const ParameterEntry& entry = manifest_.parameters[i];
    parameters_.emplace(entry.name, i);
    for (const StateKind kind : {StateKind::kParameter, StateKind::kExpAvg, StateKind::kExpAvgSq}) {
      const bool moment = kind != StateKind::kParameter;
      if (moment && !entry.trained) continue;
      const TensorInfo& tensor = *place(tensor_name(kind, entry.name)).tensor;
      if (tensor.shape != entry.shape || tensor.dtype != (moment ? "F32" : entry.dtype)) {
        fail(ErrorCode::kCorrupt, "'{}' of {} differs from its manifest", tensor.name,
             folder_.string());
      }
    }
  }
}

void CheckpointReader::open_files(const FileList& files) {
  for (const auto& [name, bytes] : files) {
    std::error_code error;
    const uint64_t found = fs::file_size(folder_ / name, error);
    if (error) fail_errno(fmt::format("cannot read {}", (folder_ / name).string()), error.value());
    if (found != bytes) {
      fail(ErrorCode::kCorrupt, "{} has {} bytes, {} were written; take another checkpoint",
           (folder_ / name).string(), found, bytes);
    }
    if (!name.ends_with(".safetensors")) continue;
    files_.push_back(std::make_unique<SafetensorsReader>(folder_ / name));
    for (const TensorInfo& tensor : files_.back()->tensors()) {
      if (!places_.emplace(tensor.name, Place{files_.back().get(), &tensor}).second) {
        fail(ErrorCode::kCorrupt, "{} holds '{}' twice", folder_.string(), tensor.name);
      }
    }
  }
}

const CheckpointReader::Place& CheckpointReader::place(std::string_view tensor) const {
  const auto found = places_.find(std::string(tensor));
  if (found == places_.end())
    fail(ErrorCode::kNotFound, "{} has no '{}'", folder_.string(), tensor);
  return found->second;
}

std::string CheckpointReader::recipe_yaml() const {
  return runtime::read_text(folder_ / kRecipeName);
}

const ParameterEntry* CheckpointReader::find(std::string_view name) const {
  const auto found = parameters_.find(std::string(name));
  return found == parameters_.end() ? nullptr : &manifest_.parameters[found->second];
}

void CheckpointReader::read(StateKind kind, std::string_view name, int64_t first,
                            std::span<float> out) const {
  const Place& at = place(tensor_name(kind, name));
  if (at.tensor->dtype != "F32") {
    fail(ErrorCode::kUnsupported, "'{}' of {} is {}, expected F32", name, folder_.string(),
         at.tensor->dtype);
  }
  if (first < 0 || static_cast<uint64_t>(first) > at.tensor->bytes / sizeof(float)) {
    fail(ErrorCode::kOutOfRange, "'{}' of {} has no element {}", name, folder_.string(), first);
  }
  at.file->read(*at.tensor, static_cast<uint64_t>(first) * sizeof(float),
                std::as_writable_bytes(out));
}

void CheckpointReader::read_bytes(std::string_view name, uint64_t offset,
                                  std::span<std::byte> out) const {
  const Place& at = place(name);
  at.file->read(*at.tensor, offset, out);
}

}  // namespace craton::checkpoint
