#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "craton/runtime/file.h"

namespace craton::runtime {

/// What a long piece of work has finished, entry by entry in a file, so that the work goes on after
/// its process was killed at any instruction.
///
/// An entry counts once its line is whole. A killed process loses none. A machine that goes down
/// may lose what was not synced, so after a restart of the machine only the entries before the
/// newest `mark_synced` count. One process at a time: the file is locked while the journal lives.
class Journal {
 public:
  /// Opens or makes the file; its folder must exist. `key` (one line) names the work: entries under
  /// another key are dropped. Error kAlreadyExists when another process holds the journal.
  Journal(std::filesystem::path path, std::string_view key);
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// There was a journal, but of other work (or none that can be read).
  const std::filesystem::path& path() const { return path_; }
  bool was_other() const { return was_other_; }
  /// There was a journal of this work.
  bool was_same() const { return was_same_; }
  /// What the earlier run had finished, in its order.
  const std::vector<std::string>& entries() const { return entries_; }

  /// Drops all entries: what they speak of is gone.
  void restart();
  /// Thread-safe. One line: no line ends in it.
  void append(std::string_view entry);
  /// All that the first `entries` entries speak of is on the disk.
  void mark_synced(size_t entries);
  /// Number of entries, with those of earlier runs.
  size_t size() const;
  /// The work is over: removes the file. The lock stays until the journal is destroyed.
  void remove();

 private:
  void open_locked();
  void read_entries();
  void write_line(std::string_view line);

  std::filesystem::path path_;
  std::string head_, boot_;
  FileDescriptor fd_;
  bool was_same_ = false, was_other_ = false;
  std::vector<std::string> entries_;
  mutable std::mutex mutex_;
  size_t size_ = 0;
  uint64_t end_ = 0;  ///< of the whole lines
};

}  // namespace craton::runtime
