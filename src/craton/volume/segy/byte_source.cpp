#include "craton/volume/segy/byte_source.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "craton/base/error.h"

namespace craton::volume::segy {

FileSource::FileSource(const std::filesystem::path& path)
    : name_(path.string()), fd_(runtime::open_for_reading(path)) {
  struct stat info;
  if (::fstat(fd_.get(), &info) != 0) fail_errno(fmt::format("cannot stat {}", name_), errno);
  if (!S_ISREG(info.st_mode)) {
    fail(ErrorCode::kInvalidArgument,
         "{} is no regular file; SEG-Y is read by position, not from a pipe", name_);
  }
  size_ = static_cast<uint64_t>(info.st_size);
  identity_ = fmt::format("{}:{}:{}:{}.{:09}", info.st_dev, info.st_ino, size_, info.st_mtim.tv_sec,
                          info.st_mtim.tv_nsec);
}

void FileSource::read(uint64_t offset, std::span<std::byte> out) const {
  runtime::read_exactly(fd_.get(), out, offset, name_);
}

void MemorySource::read(uint64_t offset, std::span<std::byte> out) const {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
    fail(ErrorCode::kCorrupt, "{} ends at byte {}; {} bytes at {} were expected", name_,
         bytes_.size(), out.size(), offset);
  }
  if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
}

}  // namespace craton::volume::segy
