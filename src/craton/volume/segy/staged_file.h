#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/journal.h"

namespace craton::volume::segy {

/// A file that is written in pieces, in any order and by any thread, as PATH.partial, and becomes
/// PATH by one rename. Until then it stays, with the record of its pieces, for a later process that
/// does the same work; without a piece recorded it vanishes.
class StagedFile {
 public:
  /// `work` stands for what the file will hold. kAlreadyExists when the path exists and `replace`
  /// is false, or when another process is writing it.
  StagedFile(std::filesystem::path path, bool replace, std::string_view work);
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  ~StagedFile();

  static std::filesystem::path staging_of(const std::filesystem::path& path);
  /// What earlier processes have recorded.
  const std::vector<std::string>& recorded() const { return journal_->entries(); }
  void write(std::span<const std::byte> bytes, uint64_t offset);
  /// A piece is written.
  void record(std::string_view piece) { journal_->append(piece); }
  void commit();

 private:
  std::filesystem::path path_, staging_;
  std::unique_ptr<runtime::Journal> journal_;
  runtime::FileDescriptor fd_;
  bool committed_ = false;
};

}  // namespace craton::volume::segy
