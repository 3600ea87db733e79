#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "craton/store/environment.h"

namespace craton::store {

/// What a Lustre mount can do for those who say ahead what they will read and write, by its `lfs`
/// program. Files whose content lies in an archive (HSM, "released") are asked for long before they
/// are read, many at a time; a reader that comes too early waits in the kernel, as without this.
/// A command that fails costs a warning, once. Thread-safe.
class Lustre {
 public:
  /// nullptr where the folder (or what is there of its path) is on no Lustre mount, or there is no
  /// `lfs` in PATH. CRATON_LUSTRE=yes or no goes before what the mount says of itself.
  static std::shared_ptr<Lustre> of(const std::filesystem::path& folder,
                                    const Environment& environment);

  /// Asks for those of these files whose content is not there; a file is looked at once. How many
  /// were asked for.
  size_t restore(std::span<const std::filesystem::path> files);
  /// The same for all files below a folder.
  size_t restore_below(const std::filesystem::path& folder);
  /// Objects of about so many bytes will be written into this folder, which is there: one stripe
  /// for small ones, several for large ones.
  void expect_objects(const std::filesystem::path& folder, uint64_t bytes);

 private:
  explicit Lustre(std::string program) : program_(std::move(program)) {}
  bool run(const std::vector<std::string>& arguments);

  const std::string program_;
  std::mutex mutex_;
  std::unordered_set<std::string> seen_;
  bool warned_ = false;
};

/// How objects of so many bytes are striped: over so many servers.
int64_t stripes_for(uint64_t object_bytes);

}  // namespace craton::store
