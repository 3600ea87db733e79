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

/// "s3://b/x" + "y/z" -> "s3://b/x/y/z"; also for plain paths. The options of an s3:// location stay
/// at the end: "s3://b/x?region=r" + "y" -> "s3://b/x/y?region=r".
std::string join_uri(std::string_view uri, std::string_view key);

}  // namespace craton::store
