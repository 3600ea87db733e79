#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "craton/runtime/file.h"

namespace craton::volume::segy {

/// Random access to the bytes of a file. Thread-safe. Reading past the end is an Error that names
/// the file and offset: a file that is cut while it is read ends with a message (which a memory map
/// could not promise).
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;
  virtual uint64_t size() const = 0;
  virtual void read(uint64_t offset, std::span<std::byte> out) const = 0;
  /// Changes when the content is replaced or written to (one line).
  virtual std::string identity() const { return name(); }
};

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path);
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }
  void read(uint64_t offset, std::span<std::byte> out) const override;
  std::string identity() const override { return identity_; }

 private:
  std::string name_, identity_;
  runtime::FileDescriptor fd_;
  uint64_t size_ = 0;
};

/// Bytes in memory; for tests and fuzzing.
class MemorySource : public ByteSource {
 public:
  MemorySource(std::string name, std::vector<std::byte> bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t offset, std::span<std::byte> out) const override;

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
};

}  // namespace craton::volume::segy
