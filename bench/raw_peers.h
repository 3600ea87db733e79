#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace craton::bench {

/// The objects of the raw rows: random bytes, in the bucket "bucket" of a server on loopback.
struct RawObjects {
  static constexpr size_t kCount = 8, kBytes = 64 << 20;

  std::string origin;            ///< of the server, "http://127.0.0.1:PORT"
  std::filesystem::path folder;  ///< that it serves as the bucket
  int repeats = 1;               ///< reads of each object in a round

  static std::string key(size_t i) { return "object" + std::to_string(i); }
  uint64_t bytes_of_a_round() const { return kCount * kBytes * static_cast<uint64_t>(repeats); }
};

/// `body(i)` for each object at the same time; throws what one of them throws.
void for_all_at_once(const std::function<void(size_t)>& body);

/// Another program that reads the same objects as often.
struct RawPeer {
  std::string name;
  double reach = 1.5;          ///< of ours over its figures
  std::function<void()> work;  ///< one round; throws when something was not read
  /// So far of a daemon that works for it; its other processes have ended with the round.
  std::function<double()> daemon_seconds = [] { return 0.0; };
};

/// Those that are installed (tools/install-dependencies --peers), each with the settings that were
/// found best for it; one line on stderr for each that is not.
std::vector<RawPeer> raw_peers(const RawObjects& objects);

}  // namespace craton::bench
