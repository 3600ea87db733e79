#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace craton {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Lines below this level are dropped. Default kInfo; CRATON_LOG=debug|info|warning|error in the environment overrides.
void set_log_level(LogLevel level);

/// Name in front of each line, e.g. "rank 2"; empty by default.
void set_log_name(std::string name);

/// One whole line to stderr in one write, with time and level; never interleaved with other lines of the process.
void log_line(LogLevel level, std::string_view text);
bool log_enabled(LogLevel level);

template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace craton
