#include "craton/volume/segy/staged_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/log.h"

namespace craton::volume::segy {

namespace fs = std::filesystem;

fs::path StagedFile::staging_of(const fs::path& path) { return path.string() + ".partial"; }

StagedFile::StagedFile(fs::path path, bool replace, std::string_view work)
    : path_(std::move(path)), staging_(staging_of(path_)) {
  if (fs::is_directory(path_))
    fail(ErrorCode::kAlreadyExists, "{} is a folder; expected the name of a file to write",
         path_.string());
  if (!replace && fs::exists(path_))
    fail(ErrorCode::kAlreadyExists, "{} already exists; use --replace to write over it",
         path_.string());
  const fs::path record = staging_.string() + ".journal";
  if (fs::exists(staging_) && !fs::exists(record))
    fail(ErrorCode::kAlreadyExists,
         "{} is in the way: an unfinished file would be kept there, and this is none; move it",
         staging_.string());
  journal_ = std::make_unique<runtime::Journal>(record, work);
  if (journal_->was_same() && !fs::exists(staging_)) journal_->restart();
  if (journal_->was_other())
    log_warning("{}: what an export of another volume or with other options left is dropped",
                staging_.string());
  const int anew = journal_->entries().empty() ? O_TRUNC : 0;
  fd_ = runtime::FileDescriptor(
      ::open(staging_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | anew, 0644));
  if (fd_.valid()) return;
  const int error = errno;
  if (journal_->size() == 0) journal_->remove();
  fail_errno(fmt::format("cannot create {}", path_.string()), error);
}

StagedFile::~StagedFile() {
  if (committed_ || journal_->size() > 0) return;
  ::unlink(staging_.c_str());
  try {
    journal_->remove();
  } catch (const std::exception& e) {
    log_warning("{}", e.what());
  }
}

void StagedFile::write(std::span<const std::byte> bytes, uint64_t offset) {
  runtime::write_exactly(fd_.get(), bytes, offset, path_.string());
}

void StagedFile::commit() {
  if (::fsync(fd_.get()) != 0) fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  CRATON_FAULT_POINT("export.commit");
  if (::rename(staging_.c_str(), path_.c_str()) != 0)
    fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  committed_ = true;
  journal_->remove();
  runtime::sync_directory(path_.parent_path());
}

}  // namespace craton::volume::segy
