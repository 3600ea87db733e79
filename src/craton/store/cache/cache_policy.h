#pragma once

#include <memory>
#include <string_view>

#include "craton/store/object_store.h"

namespace craton::store {

class CachePeers;
class NodeCache;

/// What is kept of the chunks of a volume.
enum class CacheForm {
  kStored,   ///< the bytes of the store: least space, decoded by each reader
  kDecoded,  ///< elements: read without decoding
  kLz4,      ///< elements, shuffled and packed by LZ4: between the two
};

/// A cache, and how it is to be used. Without a cache: none.
struct CachePolicy {
  std::shared_ptr<NodeCache> cache;
  CacheForm form = CacheForm::kStored;
  std::shared_ptr<CachePeers> peers = nullptr;  ///< caches of other nodes; null: none
};

/// `open_store`, through the policy's cache where it has one.
std::shared_ptr<ObjectStore> open_store(std::string_view uri, const CachePolicy& policy);

}  // namespace craton::store
