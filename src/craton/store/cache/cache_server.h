#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "craton/store/cache/node_cache.h"

namespace craton::store {

struct CacheServerOptions {
  std::string host = "127.0.0.1";  ///< numeric address; "" for all interfaces
  uint16_t port = 0;               ///< 0: picked
  std::string token;               ///< that requests must bring; needed beyond 127.0.0.1
  size_t connections = 64;         ///< at a time; more are closed at once
};

/// Gives entries of a node's cache to other nodes, and takes copies of theirs, by HTTP:
///   GET /v1/id        the cache's id
///   GET /v1/NAME      an entry's image; 404 when it is not there
///   PUT /v1/NAME      keeps an image; 204, 400 when it is not in order, 507 when there is no room
/// with "?token=..." behind where there is one. What comes in is checked like what is found on
/// disk. Every wait has an end; a request is at most an eighth of the cache.
class CacheServer {
 public:
  /// kInvalidArgument without a token on an address that others can reach; kIo when the port is
  /// taken.
  CacheServer(std::shared_ptr<NodeCache> cache, const CacheServerOptions& options);
  /// Ends its connections.
  ~CacheServer();
  CacheServer(const CacheServer&) = delete;
  CacheServer& operator=(const CacheServer&) = delete;

  uint16_t port() const;
  struct Counters {
    uint64_t given = 0, missing = 0, taken = 0, refused = 0;
  };
  Counters counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace craton::store
