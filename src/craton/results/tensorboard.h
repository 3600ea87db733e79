#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "craton/results/metrics.h"
#include "craton/runtime/file.h"

namespace craton::results {

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78) of `bytes`.
uint32_t crc32c(std::span<const std::byte> bytes);

/// A TensorBoard event file: TFRecord frames (u64 length, masked CRC-32C of it, data, masked
/// CRC-32C of the data) around Event messages (tensorflow/core/util/event.proto), written by hand.
/// Each event is one append; a reader beside the run sees whole events.
class EventFile {
 public:
  using Scalar = std::pair<std::string, double>;

  /// Makes a new file in `folder`. With `last_step` > 0 TensorBoard is told to forget later steps
  /// of earlier files.
  explicit EventFile(const std::filesystem::path& folder, int64_t last_step = 0);

  /// One event with several scalars. `time` is seconds since 1970.
  void scalars(int64_t step, double time, std::span<const Scalar> values);
  /// A PNG under a tag.
  void image(int64_t step, double time, std::string_view tag, int width, int height,
             std::span<const std::byte> png);
  /// What a step's line says, under "loss/train", "loss/validation", "optimizer/...", "speed/...",
  /// "memory/...".
  void step(const StepMetrics& metrics);

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(const std::string& event);
  std::filesystem::path path_;
  runtime::FileDescriptor fd_;
};

}  // namespace craton::results
