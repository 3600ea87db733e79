#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>

namespace craton::volume {

struct CopyOptions {
  bool replace = false;  ///< what is at the target gives way
  size_t parallel = 8;   ///< objects at a time
  /// Told of the bytes that are there, with those of an earlier run.
  std::function<void(uint64_t done, uint64_t total)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct CopyResult {
  uint64_t objects = 0, bytes = 0;
  uint64_t objects_before = 0;  ///< that an earlier run had copied
};

/// Copies a volume object by object, as it is stored, between any two stores of which the first can
/// be listed. The copy becomes a volume at the end, when all of it is there: on a file system by a
/// rename, in an object store by its root documents, which come last. What a run that was cut off
/// has copied stays out of sight, and the next run from the same objects goes on from there.
/// kNotFound when there is no volume at `from`; kAlreadyExists when there is something at `to`.
CopyResult copy_volume(std::string_view from, std::string_view to, const CopyOptions& options);

}  // namespace craton::volume
