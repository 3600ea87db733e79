#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace craton::runtime {

/// An owned file descriptor; closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

/// Opens for reading; Error names the path.
FileDescriptor open_for_reading(const std::filesystem::path& path);

/// Reads exactly buffer.size() bytes at `offset`; Error when the file is shorter.
void read_exactly(int fd, std::span<std::byte> buffer, uint64_t offset, std::string_view name);
/// Writes all bytes at `offset`.
void write_exactly(int fd, std::span<const std::byte> bytes, uint64_t offset,
                   std::string_view name);

std::vector<std::byte> read_file(const std::filesystem::path& path);
std::string read_text(const std::filesystem::path& path);

/// Writes under a temporary name beside `path`, syncs and renames: readers see the old file, the
/// new file, never a part. On failure the temporary file is removed.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Appends `line` and a line end by one write, so that readers see whole lines; makes the file.
void append_line(const std::filesystem::path& path, std::string_view line);

/// Makes a rename or a new entry in `directory` durable.
void sync_directory(const std::filesystem::path& directory);

/// A folder that is built under the name PATH.partial-PID and becomes PATH by one rename in
/// `commit`; removed when it never commits.
class StagedDirectory {
 public:
  /// Error kAlreadyExists when `path` exists and `replace` is false.
  explicit StagedDirectory(std::filesystem::path path, bool replace = false);
  /// As above, but built in `staging`, which may hold content from an earlier process.
  StagedDirectory(std::filesystem::path path, bool replace, std::filesystem::path staging);
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  ~StagedDirectory();
  const std::filesystem::path& staging() const { return staging_; }
  void commit();
  /// From now on the staging folder stays when this never commits.
  void keep() { keep_ = true; }

 private:
  std::filesystem::path path_, staging_;
  bool replace_;
  bool committed_ = false, keep_ = false;
};

/// A fresh folder below the system's temporary folder, removed with its content; for tests and
/// scratch data.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Bytes free for this user on the file system that holds `path` (or its nearest existing parent).
uint64_t free_bytes(const std::filesystem::path& path);

}  // namespace craton::runtime
