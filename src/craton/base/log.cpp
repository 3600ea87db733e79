#include "craton/base/log.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace craton {
namespace {

LogLevel level_from_environment() {
  const char* text = std::getenv("CRATON_LOG");
  const std::string_view name = text ? text : "";
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

std::atomic<LogLevel> g_level{level_from_environment()};
std::mutex g_mutex;
std::string g_name;

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }

void set_log_name(std::string name) {
  std::lock_guard lock(g_mutex);
  g_name = std::move(name);
}

bool log_enabled(LogLevel level) { return level >= g_level.load(std::memory_order_relaxed); }

void log_line(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm local;
  localtime_r(&now.tv_sec, &local);
  std::lock_guard lock(g_mutex);
  const std::string line =
      fmt::format("{:02}:{:02}:{:02}.{:03} {:7} {}{}{}\n", local.tm_hour, local.tm_min, local.tm_sec,
                  now.tv_nsec / 1000000, kNames[static_cast<int>(level)], g_name, g_name.empty() ? "" : ": ", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace craton
