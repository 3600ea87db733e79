#include "craton/runtime/memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

namespace craton::runtime {
namespace {

/// A "Name:   123 kB" line of a /proc file, in bytes; 0 when it is not there.
uint64_t proc_field(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0)
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

uint64_t number_in(const char* path, uint64_t fallback) {
  std::ifstream file(path);
  uint64_t value;
  return file >> value ? value : fallback;
}

}  // namespace

uint64_t resident_memory() { return proc_field("/proc/self/status", "VmRSS"); }

uint64_t peak_resident_memory() { return proc_field("/proc/self/status", "VmHWM"); }

uint64_t available_memory() {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  uint64_t available = proc_field("/proc/meminfo", "MemAvailable");
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max", kNone);
  if (limit != kNone) {
    const uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
    available = std::min(available, limit > used ? limit - used : 0);
  }
  return available;
}

}  // namespace craton::runtime
