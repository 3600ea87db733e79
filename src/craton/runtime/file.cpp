#include "craton/runtime/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "craton/base/error.h"

namespace craton::runtime {
namespace fs = std::filesystem;

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int FileDescriptor::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FileDescriptor open_for_reading(const fs::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) fail_errno(fmt::format("cannot open {}", path.string()), errno);
  struct stat info;
  if (::fstat(fd.get(), &info) == 0 && S_ISDIR(info.st_mode)) {
    fail(ErrorCode::kInvalidArgument, "{} is a folder, expected a file", path.string());
  }
  return fd;
}

void read_exactly(int fd, std::span<std::byte> buffer, uint64_t offset, std::string_view name) {
  while (!buffer.empty()) {
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(fmt::format("cannot read {} at offset {}", name, offset), errno);
    if (n == 0)
      fail(ErrorCode::kCorrupt, "{} ends at byte {}; {} more bytes were expected", name, offset,
           buffer.size());
    buffer = buffer.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void write_exactly(int fd, std::span<const std::byte> bytes, uint64_t offset,
                   std::string_view name) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno(fmt::format("cannot write {}", name), errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

std::vector<std::byte> read_file(const fs::path& path) {
  const FileDescriptor fd = open_for_reading(path);
  struct stat info;
  if (::fstat(fd.get(), &info) != 0)
    fail_errno(fmt::format("cannot stat {}", path.string()), errno);
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  read_exactly(fd.get(), bytes, 0, path.string());
  return bytes;
}

std::string read_text(const fs::path& path) {
  const auto bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void sync_directory(const fs::path& directory) {
  const fs::path target = directory.empty() ? fs::path(".") : directory;
  FileDescriptor fd(::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0)
    fail_errno(fmt::format("cannot sync folder {}", target.string()), errno);
}

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  const fs::path temporary = path.string() + ".tmp-" + std::to_string(::getpid());
  try {
    FileDescriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd.valid()) fail_errno(fmt::format("cannot create {}", path.string()), errno);
    write_exactly(fd.get(), bytes, 0, path.string());
    if (::fsync(fd.get()) != 0) fail_errno(fmt::format("cannot write {}", path.string()), errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0)
      fail_errno(fmt::format("cannot write {}", path.string()), errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_directory(path.parent_path());
}

void write_file_atomically(const fs::path& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text)));
}

void append_line(const fs::path& path, std::string_view line) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  const std::string text = std::string(line) + "\n";
  if (!fd.valid() ||
      ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    fail_errno(fmt::format("cannot write {}", path.string()), errno);
  }
}

namespace {

fs::path without_slash(fs::path path) {
  while (path.has_relative_path() && path.filename().empty()) path = path.parent_path();
  return path;
}

/// The path, of a process that had the same number long ago.
fs::path removed(fs::path path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
  return path;
}

}  // namespace

StagedDirectory::StagedDirectory(fs::path path, bool replace)
    : StagedDirectory(
          path, replace,
          removed(without_slash(path).string() + ".partial-" + std::to_string(::getpid()))) {}

StagedDirectory::StagedDirectory(fs::path path, bool replace, fs::path staging)
    : path_(without_slash(std::move(path))), staging_(std::move(staging)), replace_(replace) {
  if (fs::exists(path_) && !replace_)
    fail(ErrorCode::kAlreadyExists, "{} already exists", path_.string());
  std::error_code error;
  fs::create_directories(staging_, error);
  if (error) fail_errno(fmt::format("cannot create {}", path_.string()), error.value());
}

StagedDirectory::~StagedDirectory() {
  std::error_code ignored;
  if (!committed_ && !keep_) fs::remove_all(staging_, ignored);
}

void StagedDirectory::commit() {
  sync_directory(staging_);
  if (replace_ && fs::exists(path_)) {
    // rename() does not replace a folder with content: move the old one aside first.
    const fs::path old = path_.string() + ".old-" + std::to_string(::getpid());
    fs::rename(path_, old);
    fs::rename(staging_, path_);
    committed_ = true;
    fs::remove_all(old);
  } else {
    if (::rename(staging_.c_str(), path_.c_str()) != 0)
      fail_errno(fmt::format("cannot create {}", path_.string()), errno);
    committed_ = true;
  }
  sync_directory(path_.parent_path());
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "craton-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) fail_errno("cannot create a temporary folder", errno);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

uint64_t free_bytes(const fs::path& path) {
  fs::path existing = fs::absolute(path);
  while (!fs::exists(existing) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs info;
  if (::statvfs(existing.c_str(), &info) != 0)
    fail_errno(fmt::format("cannot stat {}", existing.string()), errno);
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace craton::runtime
