#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "craton/checkpoint/safetensors.h"

namespace craton::checkpoint {

/// The parts of training state that a parameter has.
enum class StateKind { kParameter, kExpAvg, kExpAvgSq };

/// A parameter or buffer of the model, in the model's order.
struct ParameterEntry {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
  bool trained = true;  ///< has optimizer state (always F32); false: frozen, or a buffer
};

/// What a checkpoint is. Everything that goes on after a restart is here or in the tensors.
struct Manifest {
  int64_t step = 0;
  int64_t updates = 0;  ///< optimizer updates so far: steps without those skipped as non-finite
  int64_t samples_seen = 0;
  uint64_t generation = 0;
  std::string recipe_digest;
  std::string state_sha256;                  ///< empty when it was not computed
  std::map<std::string, std::string> notes;  ///< e.g. "craton": "0.1.0"
  std::vector<ParameterEntry> parameters;
};

/// A parameter or buffer to save. The spans must stay as they are until the call returns.
struct ParameterState {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
  std::span<const std::byte> value;
  bool trained = true;  ///< false: no moments
  std::span<const float> exp_avg, exp_avg_sq;
};

/// The folder in which the parts of one checkpoint are gathered; `generation` keeps late writers of
/// an older one apart.
std::filesystem::path staging_folder(const std::filesystem::path& root, int64_t step,
                                     uint64_t generation);

/// Writes part `part` of `parts` into the staging folder (made when missing): whole tensors, all
/// parameters over all parts exactly once. A part may be empty. Processes of one host or of a
/// shared file system write their parts at once. Syncs. On error the part's files are removed.
void write_part(const std::filesystem::path& staging, int part, int parts,
                std::span<const ParameterState> states);

/// Makes the staged parts the checkpoint root/step-N: checks that they hold exactly the manifest's
/// parameters, writes index, recipe and manifest, renames, points `latest` to it, then removes all
/// but the `keep` newest checkpoints and what older writers left staged. Readers see a whole
/// checkpoint or none. An older checkpoint of the same step is replaced. Returns its folder. May be
/// asked for again by someone who does not know that it was done.
std::filesystem::path commit(const std::filesystem::path& root,
                             const std::filesystem::path& staging, int parts,
                             const Manifest& manifest, std::string_view recipe_yaml, int64_t keep);

/// Removes a staging folder that will not be committed.
void discard(const std::filesystem::path& staging) noexcept;

/// Checkpoints of `root` whose manifest and files are there, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& root);

/// Where `latest` points, or the newest valid one when it points to none; nothing when there is no
/// checkpoint.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& root);

/// Reads a checkpoint by tensor or range, whatever number of parts wrote it. Thread-safe after
/// construction.
class CheckpointReader {
 public:
  /// `path`: a checkpoint, a folder of checkpoints, or a run's folder (the newest one is taken).
  /// Checks manifest, sizes and headers; Error kNotFound or kCorrupt says what is wrong.
  explicit CheckpointReader(const std::filesystem::path& path);

  const std::filesystem::path& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  /// The recipe of the job that wrote it, as YAML.
  std::string recipe_yaml() const;

  /// nullptr when there is no such parameter.
  const ParameterEntry* find(std::string_view name) const;
  /// Fills `out` from element `first` of a parameter's state. kNotFound for an unknown name,
  /// kOutOfRange past the end.
  void read(StateKind kind, std::string_view name, int64_t first, std::span<float> out) const;
  /// The bytes of a parameter or buffer of any type from byte `offset`.
  void read_bytes(std::string_view name, uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Place {
    const SafetensorsReader* file = nullptr;
    const TensorInfo* tensor = nullptr;
  };
  void open_files(const std::vector<std::pair<std::string, uint64_t>>& files);
  const Place& place(std::string_view tensor) const;
  std::filesystem::path folder_;
  Manifest manifest_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::unordered_map<std::string, Place> places_;
  std::unordered_map<std::string, size_t> parameters_;
};

}  // namespace craton::checkpoint
