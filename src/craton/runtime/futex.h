#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace craton::runtime {

/// Blocks while the word holds `expected`, until a wake or the timeout; may also return for no
/// reason. Works between processes, also on a word that is mapped read-only here.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                std::chrono::nanoseconds timeout);

/// Wakes whoever waits on the word, in any process; a read-only mapping will do.
void futex_wake_all(const std::atomic<uint32_t>& word);

/// One step of a short spin; tells the processor that this is a wait.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace craton::runtime
