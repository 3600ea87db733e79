#include "job_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace craton::bench {

namespace fs = std::filesystem;

uint64_t proportional_bytes(const fs::path& process) {
  std::ifstream file(process / "smaps_rollup");
  std::string word;
  uint64_t bytes = 0, value = 0;
  while (file >> word) {
    if ((word == "Pss_Anon:" || word == "Pss_Shmem:") && file >> value) bytes += value << 10;
  }
  return bytes;
}

JobMemory::JobMemory(fs::path folder, std::chrono::milliseconds interval)
    : folder_(fs::canonical(folder)), interval_(interval), thread_([this] { watch(); }) {}

JobMemory::~JobMemory() {
  over_ = true;
  thread_.join();
}

void JobMemory::watch() {
  while (!over_) {
    uint64_t all = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::error_code gone;
      if (fs::read_symlink(entry.path() / "cwd", gone) != folder_ || gone) continue;
      const uint64_t now = proportional_bytes(entry.path());
      all += now;
      of_a_process_ = std::max(of_a_process_.load(), now);
    }
    in_all_ = std::max(in_all_.load(), all);
    std::this_thread::sleep_for(interval_);
  }
}

}  // namespace craton::bench
