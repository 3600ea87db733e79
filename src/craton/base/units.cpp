#include "craton/base/units.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "craton/base/error.h"

namespace craton {

uint64_t parse_bytes(std::string_view text) {
  const std::string input(text);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) {
    fail(ErrorCode::kInvalidArgument, "'{}' is no number of bytes; expected e.g. 512MiB", input);
  }
  std::string unit;
  for (const char* p = end; p != text.data() + text.size(); ++p) {
    if (!std::isspace(static_cast<unsigned char>(*p))) unit += static_cast<char>(std::tolower(*p));
  }
  static constexpr std::string_view kPrefixes = "kmgtp";
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const size_t power = kPrefixes.find(unit[0]);
    const std::string rest = unit.substr(1);
    if (power == std::string_view::npos || (rest != "" && rest != "b" && rest != "ib")) {
      fail(ErrorCode::kInvalidArgument, "'{}' has an unknown unit; use B, KiB, MiB, GiB, TiB or KB, MB, GB, TB",
           input);
    }
    scale = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  if (value * scale > 9e18) fail(ErrorCode::kInvalidArgument, "'{}' is too many bytes", input);
  return static_cast<uint64_t>(std::llround(value * scale));
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string format_count(double count) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  while (std::abs(count) >= 1000 && unit < 6) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.4g}", count) : fmt::format("{:.3g}{}", count, kUnits[unit]);
}

}  // namespace craton
