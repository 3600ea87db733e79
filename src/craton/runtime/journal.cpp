#include "craton/runtime/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>

#include "craton/base/error.h"

namespace craton::runtime {

namespace {

// The first character of a line says what it is; the first line is the head.
constexpr char kBoot = '@', kEntry = '+', kSynced = '=';
constexpr std::string_view kHead = "craton journal 1 ";

/// Changes with each start of the machine; empty where the system does not tell.
std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

Journal::Journal(std::filesystem::path path, std::string_view key)
    : path_(std::move(path)), head_(std::string(kHead) + std::string(key)), boot_(boot_id()) {
  open_locked();
  read_entries();
  size_ = entries_.size();
}

void Journal::open_locked() {
  while (true) {
    fd_ = FileDescriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (!fd_.valid()) fail_errno(fmt::format("cannot create {}", path_.string()), errno);
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail_errno(fmt::format("cannot lock {}", path_.string()), errno);
      fail(ErrorCode::kAlreadyExists, "another process is at work on it ({} is locked)",
           path_.string());
    }
    // Its last holder may have removed it since it was opened: then this lock protects nothing.
    struct stat own, named;
    if (::fstat(fd_.get(), &own) == 0 && ::stat(path_.c_str(), &named) == 0 &&
        own.st_ino == named.st_ino && own.st_dev == named.st_dev)
      return;
  }
}

void Journal::read_entries() {
  const std::string text = read_text(path_);
  was_same_ = text.starts_with(head_ + "\n");
  was_other_ = !was_same_ && !text.empty();
  if (!was_same_) return restart();
  std::string last_boot;
  size_t durable = 0, keep = head_.size() + 1;
  std::vector<size_t> ends = {keep};  // of the head, then of each entry
  while (true) {
    const size_t end = text.find('\n', keep);
    if (end == std::string::npos) break;  // nothing more, or a line that was cut off
    const std::string_view line = std::string_view(text).substr(keep, end - keep);
    if (line.starts_with(kBoot)) {
      last_boot = line.substr(1);
    } else if (line.starts_with(kSynced)) {
      std::from_chars(line.data() + 1, line.data() + line.size(), durable);
    } else if (line.starts_with(kEntry)) {
      entries_.emplace_back(line.substr(1));
      ends.push_back(end + 1);
    } else {
      break;  // not ours from here on
    }
    keep = end + 1;
  }
  if (last_boot != boot_) {
    entries_.resize(std::min(durable, entries_.size()));
    keep = ends[entries_.size()];
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(keep)) != 0)
    fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  end_ = keep;
  write_line(kBoot + boot_);
  if (last_boot != boot_) write_line(kSynced + std::to_string(entries_.size()));
}

void Journal::restart() {
  if (::ftruncate(fd_.get(), 0) != 0)
    fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  entries_.clear();
  size_ = 0;
  end_ = 0;
  write_line(head_);
  write_line(kBoot + boot_);
}

void Journal::write_line(std::string_view line) {
  const std::string text = std::string(line) + "\n";
  try {
    write_exactly(fd_.get(), std::as_bytes(std::span(text)), end_, path_.string());
  } catch (...) {
    // A part of a line must not become the start of the next one.
    if (::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0) throw;
    fd_.reset();
    throw;
  }
  end_ += text.size();
}

void Journal::append(std::string_view entry) {
  const std::lock_guard lock(mutex_);
  write_line(kEntry + std::string(entry));
  ++size_;
}

void Journal::mark_synced(size_t entries) {
  const std::lock_guard lock(mutex_);
  write_line(kSynced + std::to_string(entries));
}

size_t Journal::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

void Journal::remove() {
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT)
    fail_errno(fmt::format("cannot remove {}", path_.string()), errno);
}

}  // namespace craton::runtime
