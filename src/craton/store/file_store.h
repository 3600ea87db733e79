#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "craton/store/lustre.h"
#include "craton/store/object_store.h"

namespace craton::store {

/// When a written object is on the disk and not only in the page cache.
enum class Durability {
  kEachObject,  ///< before the call returns: checkpoints, leases
  kOnSync,      ///< with `FileStore::sync`, or when the system gets to it: what can be made again
};

/// Objects as files below a folder, which is made on the first write. Keys may not leave the
/// folder: "..", empty and absolute parts are kInvalidArgument. A write goes to a temporary name
/// beside the object and is renamed.
class FileStore final : public ObjectStore {
 public:
  explicit FileStore(std::filesystem::path root, Durability durability = Durability::kEachObject);

  const std::filesystem::path& root() const { return root_; }
  /// Flushes the file system that holds the root.
  void sync();
  /// Removes the temporary files of processes that were killed. Nobody else may be writing.
  void remove_unfinished();
  /// Objects of about so many bytes will be put into this folder: on Lustre it is made and striped
  /// for them (lustre.h).
  void expect_objects(std::string_view folder, uint64_t bytes);

  std::string uri() const override;
  std::optional<Bytes> get(std::string_view key) override;
  std::optional<std::span<const std::byte>> get_into(std::string_view key, Bytes& buffer) override;
  std::optional<Bytes> get_range(std::string_view key, uint64_t offset, uint64_t length) override;
  std::optional<Bytes> get_suffix(std::string_view key, uint64_t length) override;
  std::optional<ObjectInfo> head(std::string_view key) override;
  std::vector<ObjectInfo> list(std::string_view prefix) override;
  std::vector<std::string> list_children(std::string_view folder) override;
  void put(std::string_view key, std::span<const std::byte> bytes) override;
  bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) override;
  std::unique_ptr<Upload> start_upload(std::string_view key) override;
  void remove(std::string_view key) override;

 protected:
  /// One after the other, with read-ahead for the next `parallel`; what lies in an archive of
  /// Lustre is asked for at once.
  void fetch_many(std::span<const ObjectRead> reads, size_t parallel,
                  const ReadSink& sink) override;

 private:
  std::filesystem::path path_of(std::string_view key) const;
  Lustre* lustre();
  std::filesystem::path root_;
  Durability durability_;
  std::once_flag lustre_once_;
  std::shared_ptr<Lustre> lustre_;  ///< null: not on Lustre, or not looked yet
};

}  // namespace craton::store
