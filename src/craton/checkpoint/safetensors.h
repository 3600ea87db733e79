#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "craton/runtime/file.h"

namespace craton::checkpoint {

/// A tensor of a safetensors file.
struct TensorInfo {
  std::string name;
  std::string dtype;           ///< "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;  ///< empty: a scalar
  uint64_t offset = 0;         ///< of the first byte in the file; set by writer and reader
  uint64_t bytes = 0;          ///< likewise
};

/// Bytes of one element, 0 for an unknown name.
uint64_t dtype_bytes(std::string_view dtype);

/// Product of a shape. Error kCorrupt when an extent is negative or the product leaves 63 bits.
uint64_t element_count(std::span<const int64_t> shape);

/// Writes a safetensors file (github.com/huggingface/safetensors: u64 header length, JSON header,
/// data; little endian, no holes). The header goes first, so all tensors are named in advance;
/// their bytes may come in pieces and in any order. Memory: the header. The file appears under its
/// own name at once; use a staging folder for atomicity. Destroyed without `finish`, it is removed.
class SafetensorsWriter {
 public:
  /// `tensors` need name, dtype and shape. The data is laid out by falling element size, so that
  /// all tensors are aligned.
  SafetensorsWriter(std::filesystem::path path, std::vector<TensorInfo> tensors,
                    const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// `bytes` at byte `offset` of a tensor. Each byte once; Error when it does not fit.
  void write(std::string_view name, uint64_t offset, std::span<const std::byte> bytes);
  /// Checks that every tensor is complete and syncs.
  void finish();
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct Entry {
    TensorInfo info;
    uint64_t written = 0;
  };
  std::filesystem::path path_;
  runtime::FileDescriptor fd_;
  std::unordered_map<std::string, Entry> entries_;
  uint64_t file_bytes_ = 0;
  bool finished_ = false;
};

/// Reads a safetensors file. The constructor reads and checks the header (at most 100 MB; offsets
/// that fit dtype and shape, no holes, no overlap, no name twice); Error kCorrupt says what is
/// wrong. Reading is thread-safe.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(std::filesystem::path path);

  /// In order of their offsets.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }

  /// nullptr when there is none.
  const TensorInfo* find(std::string_view name) const;
  /// Fills `out` from byte `offset` of the tensor; kOutOfRange when it is shorter.
  void read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  runtime::FileDescriptor fd_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string> metadata_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace craton::checkpoint
