#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "craton/store/cache/node_cache.h"

namespace craton::store {

struct CachePeersOptions {
  std::vector<std::string> urls;  ///< "http://10.0.0.2:7071": the same list on all nodes
  std::string token;              ///< of their servers; empty where they need none
};

struct CachePeersCounters {
  uint64_t fetched = 0;  ///< entries that came from a peer
  uint64_t copied = 0;   ///< second copies that a peer has taken
  uint64_t dropped = 0;  ///< second copies that were not sent: too many at a time, or no peer
};

/// The caches of other nodes (cache_server.h). Each entry has an order of the nodes by its name,
/// the same everywhere: the first one that is not this node gets the second copy, and the first two
/// are asked for what this node lacks. So an entry is found wherever it was fetched first, and the
/// loss of one node loses nothing.
///
/// A peer is an offer, never a need: it is waited for a second or so, one that fails is left alone
/// for half a minute, and what it gives is checked like what lies on this node's disk. This node's
/// own server may stand in the list; it is recognised and left out. Thread-safe; nothing throws
/// once it is made.
class CachePeers {
 public:
  /// kInvalidArgument for what is no URL.
  CachePeers(std::shared_ptr<NodeCache> cache, const CachePeersOptions& options);
  /// Second copies that wait to be sent are given up.
  ~CachePeers();
  CachePeers(const CachePeers&) = delete;
  CachePeers& operator=(const CachePeers&) = delete;

  /// Puts those of these entries (NodeCache::name_of) into the node's cache that a peer has. Many
  /// at a time.
  void fetch(const std::vector<std::string>& names);
  /// Gives a second copy of an entry of the node's cache to a peer, in the background.
  void copy(const std::string& name);
  /// Waits until all copies are sent or given up.
  void wait_for_copies();

  CachePeersCounters counters() const;

 private:
  class Peer;
  /// Peers in the order of this name, without this node and without those that are left alone.
  std::vector<Peer*> order_of(std::string_view name);
  void send_copies();

  std::shared_ptr<NodeCache> cache_;
  std::vector<std::unique_ptr<Peer>> peers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  bool sending_ = false, stop_ = false;
  CachePeersCounters counters_;
  std::thread thread_;
};

}  // namespace craton::store
