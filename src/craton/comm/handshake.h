#pragma once

#include <cstdint>

namespace craton::comm {

/// Opens every connection, in both directions. Both sides name the incarnation that they are and
/// the one that they mean to reach, so that an address that has passed to another process is
/// noticed. Over a local socket the segment's descriptor travels with it.
struct Hello {
  uint64_t magic;
  uint32_t version;
  uint32_t kind;  // HelloKind
  uint64_t from, to;
  uint64_t log_head;  // shared memory: where the sender's log for this peer begins
  uint64_t reserved;
};
static_assert(sizeof(Hello) == 48);

enum class HelloKind : uint32_t {
  kHello = 1,
  kWelcome = 2,  ///< the connection stands
  kStale = 3,    ///< `to` is not who listens here
  kYield = 4,    ///< both sides called each other; the call of the other side goes on
  kAlready = 5,  ///< a connection stands, as far as this side knows; try again shortly
};
inline constexpr uint64_t kHelloMagic = 0x4d4d4f434e415243;
inline constexpr uint32_t kHelloVersion = 1;

}  // namespace craton::comm
