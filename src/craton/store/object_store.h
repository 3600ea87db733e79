#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace craton::store {

using Bytes = std::vector<std::byte>;

struct ObjectInfo {
  std::string key;  ///< relative to the store's root, "/" between parts
  uint64_t size = 0;
  std::string etag;  ///< changes whenever the content does; empty where the store has none
};

/// One read of many (`ObjectStore::read_many`): an object, or a byte range of it.
struct ObjectRead {
  static constexpr uint64_t kWhole = ~0ull;

  std::string key = {};
  uint64_t offset = 0;
  uint64_t length = kWhole;      ///< kWhole with offset 0: all of it
  bool from_end = false;         ///< the last `length` bytes instead (fewer when it is shorter)
  std::string etag = {};         ///< only of this version, else kChanged; empty: of any
  std::string unless_etag = {};  ///< nothing is read while the object has this ETag: kUnchanged
  /// What a cache keeps of it, as `ObjectFound::keep` is given: empty is the bytes as they are;
  /// else a name for what the reader makes of them, such as "decoded".
  std::string form = {};
  bool fresh = false;  ///< from the store itself, not from a cache

  bool is_whole() const { return !from_end && length == kWhole; }
};

/// What became of one read. Views hold until the sink returns.
struct ObjectFound {
  enum class State { kRead, kMissing, kUnchanged, kChanged };
  State state = State::kRead;
  std::span<const std::byte> bytes;
  bool prepared = false;     ///< `bytes` are in the form of the read, not the object's own
  std::string_view etag;     ///< empty where the store has none
  uint64_t object_size = 0;  ///< 0 where it is not known
  /// Set where a cache wants what it was asked to keep: the bytes themselves, once they have been
  /// found to be in order, or the form.
  std::function<void(std::span<const std::byte>)> keep;
};

/// Is told what became of read `index`, on the thread that called.
using ReadSink = std::function<void(size_t index, const ObjectFound& found)>;

struct ReadLimits {
  size_t parallel = 16;        ///< requests in flight
  uint64_t bytes = 64u << 20;  ///< of requests in flight, unless a single one is larger
};

/// An object that is written in parts and appears whole on `finish`. Destroyed without `finish`, it
/// never appears.
class Upload {
 public:
  virtual ~Upload() = default;
  virtual void append(std::span<const std::byte> bytes) = 0;
  virtual void finish() = 0;
};

/// Objects by key and byte range under one root URI. All calls are thread-safe and block until done
/// or failed. A missing object is `nullopt`, never an error and never zeros; everything else that
/// goes wrong is an Error with key, range, attempt and status.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// The root, e.g. "file:///data/f3.mdio"; never contains credentials.
  virtual std::string uri() const = 0;
  /// The root as everybody on this node means it: two stores with the same one hold the same
  /// objects.
  virtual std::string identity() const { return uri(); }

  virtual std::optional<Bytes> get(std::string_view key) = 0;
  /// As `get`, but into `buffer`, which only ever grows: a loop over many objects allocates once.
  /// The view ends with the next use of `buffer`.
  virtual std::optional<std::span<const std::byte>> get_into(std::string_view key, Bytes& buffer);
  /// Exactly `length` bytes from `offset`; kOutOfRange when the object is shorter.
  virtual std::optional<Bytes> get_range(std::string_view key, uint64_t offset,
                                         uint64_t length) = 0;
  /// The last `length` bytes (fewer when the object is shorter).
  virtual std::optional<Bytes> get_suffix(std::string_view key, uint64_t length) = 0;
  virtual std::optional<ObjectInfo> head(std::string_view key) = 0;
  /// Many reads as one plan: neighbouring ranges of an object come in one request (range_plan.h),
  /// requests are in flight together, and the sink sees each read once, in any order but begun in
  /// the order given. While the sink works, the others go on. kOutOfRange when an object ends
  /// before its range; the first failure, or what the sink throws, ends it all.
  virtual void read_many(std::span<const ObjectRead> reads, const ReadLimits& limits,
                         const ReadSink& sink);
  /// What readers should make of chunks for this store to keep: "" (nothing: as stored), "decoded"
  /// or "lz4".
  virtual std::string kept_form() const { return ""; }
  /// All objects whose key starts with `prefix`, sorted by key.
  virtual std::vector<ObjectInfo> list(std::string_view prefix) = 0;
  /// The names directly below `folder` ("" is the root), sorted: objects as "name", folders as
  /// "name/". Unlike `list` this does not walk the chunks of a large volume. The default derives it
  /// from `list`.
  virtual std::vector<std::string> list_children(std::string_view folder);

  /// Replaces the object atomically: readers see the old or the new content.
  virtual void put(std::string_view key, std::span<const std::byte> bytes) = 0;
  /// Creates the object; false when it exists already (compare-and-swap on absence).
  virtual bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Upload> start_upload(std::string_view key) = 0;
  /// Removing what is not there is no error.
  virtual void remove(std::string_view key) = 0;

 protected:
  /// `read_many` after planning: no two of these are worth joining. The default asks one after the
  /// other.
  virtual void fetch_many(std::span<const ObjectRead> reads, size_t parallel, const ReadSink& sink);
};

/// Makes a store from its URI, which keeps its "scheme://".
using StoreFactory = std::function<std::shared_ptr<ObjectStore>(std::string_view uri)>;

/// Adds or replaces what `open_store` does for "scheme://...". The built-in ones stand in
/// open_store.cpp. Thread-safe.
void register_store_scheme(std::string_view scheme, StoreFactory factory);

/// Opens "file:///absolute/path", a plain path (relative or absolute), "memory://name" (shared
/// within the process), "s3://bucket/prefix?options" (s3/location.h) or, to read from,
/// "http(s)://host/folder". kUnsupported for a scheme that this build lacks. The root need not
/// exist yet, and no server is asked before the first call.
std::shared_ptr<ObjectStore> open_store(std::string_view uri);

/// "s3://b/x" + "y/z" -> "s3://b/x/y/z"; also for plain paths. The options of an s3:// location
/// stay at the end: "s3://b/x?region=r" + "y" -> "s3://b/x/y?region=r".
std::string join_uri(std::string_view uri, std::string_view key);

}  // namespace craton::store
