#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <thread>

namespace craton::bench {

/// Watches the memory of all processes that run in a folder, until it is destroyed. Counted are
/// pages that are no file's: private ones, and shared ones divided by those who map them, so that a
/// sum over processes counts each page once.
class JobMemory {
 public:
  JobMemory(std::filesystem::path folder, std::chrono::milliseconds interval);
  ~JobMemory();

  uint64_t most_of_a_process() const { return of_a_process_; }  ///< bytes, at any time
  uint64_t most_in_all() const { return in_all_; }              ///< bytes, at any time

 private:
  void watch();
  const std::filesystem::path folder_;
  const std::chrono::milliseconds interval_;
  std::atomic<uint64_t> of_a_process_ = 0, in_all_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

/// What one process has, in bytes (Pss_Anon and Pss_Shmem of /proc/PID/smaps_rollup); 0 when it is
/// gone. `process`: its folder in /proc.
uint64_t proportional_bytes(const std::filesystem::path& process);

}  // namespace craton::bench
