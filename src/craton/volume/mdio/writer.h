#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "craton/runtime/file.h"
#include "craton/runtime/journal.h"
#include "craton/store/file_store.h"
#include "craton/store/object_store.h"
#include "craton/volume/mdio/sample_statistics.h"
#include "craton/volume/volume.h"
#include "craton/volume/zarr/metadata.h"

namespace craton::volume::mdio {

/// Where a volume that is being written lies until it is finished. On a file system: a folder
/// beside the target, renamed at the end. In an object store: the objects themselves, without the
/// root's metadata, which are put last; removed on failure.
class VolumeTarget {
 public:
  /// `work` stands for all that the store will hold; empty: nothing is kept for a later process.
  VolumeTarget(std::string_view uri, bool replace, const std::string& work = "");
  ~VolumeTarget();
  VolumeTarget(const VolumeTarget&) = delete;
  VolumeTarget& operator=(const VolumeTarget&) = delete;

  store::ObjectStore& store() { return *store_; }
  /// What is finished, for a later process to go on from; nullptr: nothing is kept.
  runtime::Journal* journal() { return journal_.get(); }
  /// Objects of about so many bytes will lie in this folder.
  void expect_objects(const std::string& folder, uint64_t bytes) {
    if (files_) files_->expect_objects(folder, bytes);
  }
  /// Puts all that the journal speaks of on the disk, now and then.
  void sync_now_and_then();
  void put(const std::string& key, std::span<const std::byte> bytes) { store_->put(key, bytes); }
  void put_document(const std::string& key, const nlohmann::json& document);
  /// Puts the documents that make the store a volume, in this order, and shows it.
  void commit(const std::vector<std::pair<std::string, nlohmann::json>>& documents);

 private:
  void stage(const std::string& path, bool replace, const std::string& work);

  std::string uri_;
  std::unique_ptr<runtime::Journal> journal_;  // released last: it is the lock
  std::unique_ptr<runtime::StagedDirectory> staged_;
  std::atomic<int64_t> synced_seconds_{0};
  std::shared_ptr<store::FileStore> files_;
  std::shared_ptr<store::ObjectStore> store_;
  bool committed_ = false;
};

/// kInvalidArgument when `name` cannot be the name of an array; `what` says whose name it is.
void check_name(std::string_view name, const char* what);

class MdioWriter final : public VolumeWriter {
 public:
  MdioWriter(std::string_view uri, const VolumeSpec& spec, const WriteOptions& options);

  void write_chunk(std::span<const int64_t> chunk, std::span<const float> samples,
                   std::span<const uint8_t> live) override;
  void write_chunk_raw(std::span<const int64_t> chunk, std::span<const std::byte> samples,
                       std::span<const uint8_t> live) override;
  void write_trace_headers(std::span<const int64_t> chunk,
                           std::span<const std::byte> headers) override;
  void set_segy_file_header(const SegyFileHeader& header) override;
  void write_array(std::string_view name, const NamedArray& array,
                   std::string_view attributes) override;
  void set_attribute(std::string_view name, std::string_view json) override;
  std::optional<std::string> finished_column(std::span<const int64_t> column) const override;
  void finish_column(std::span<const int64_t> column, std::string_view note) override;
  void finish() override;

 private:
  struct Chunk;  // one chunk's place in the volume
  Chunk locate(std::span<const int64_t> index, std::span<const uint8_t> live);
  void put_samples(const Chunk& chunk, std::span<const std::byte> elements,
                   std::span<const float> values);
  void put_into_shard(const Chunk& chunk, zarr::Bytes encoded);
  void put_shard(const std::vector<int64_t>& shard, std::vector<std::optional<zarr::Bytes>> chunks);
  std::string key_of(const std::string& name, const zarr::ArrayMetadata& metadata,
                     std::span<const int64_t> object) const;

  zarr::ArrayMetadata make_array(std::vector<int64_t> shape, std::vector<int64_t> chunks,
                                 zarr::DataType type, const nlohmann::json& fill,
                                 std::vector<std::string> dimensions) const;
  /// An array that is in memory whole, with its metadata.
  void put_whole(const std::string& name, const zarr::ArrayMetadata& metadata,
                 std::span<const std::byte> elements);
  void put_metadata(const std::string& name, const zarr::ArrayMetadata& metadata);
  void put_node(const std::string& name, const nlohmann::json& v3, const nlohmann::json& zarray,
                const nlohmann::json& zattrs);
  void put_axes();
  void put_positions();
  void put_segy_file_header();
  nlohmann::json root_attributes() const;

  void resume();
  void restore_column(const std::string& entry);
  size_t column_number(std::span<const int64_t> column) const;
  /// The places in live_ of the column's traces.
  std::vector<size_t> traces_of_column(std::span<const int64_t> column) const;

  VolumeSpec spec_;
  std::vector<int64_t> shape_, chunk_shape_, trace_shape_;
  std::vector<std::string> dimensions_;
  zarr::ArrayMetadata samples_, headers_, raw_headers_;
  std::vector<int64_t> grid_;
  VolumeTarget target_;
  SampleStatistics statistics_;
  std::vector<uint8_t> live_;
  std::optional<SegyFileHeader> segy_header_;
  nlohmann::json free_attributes_ = nlohmann::json::object();
  std::map<std::string, nlohmann::json> documents_;  ///< of the nodes below the root, by key

  struct OpenShard {
    std::vector<std::optional<zarr::Bytes>>
        chunks;  ///< encoded; empty bytes for one without a live trace
    int64_t missing = 0;
  };
  struct OpenShardColumn {
    std::vector<std::string> entries;  ///< of its finished columns
    int64_t missing = 0;
  };
  std::mutex mutex_;
  std::map<std::vector<int64_t>, OpenShard> shards_;
  std::map<std::vector<int64_t>, OpenShardColumn> shard_columns_;
  std::map<size_t, std::string>
      finished_columns_;  ///< notes of columns that an earlier process finished
  bool finished_ = false;
};

}  // namespace craton::volume::mdio
