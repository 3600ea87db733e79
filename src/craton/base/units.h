#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace craton {

/// "512", "64MiB", "1.5 GB", "2g" (binary when the suffix is one letter or ends in iB) to bytes; throws kInvalidArgument.
uint64_t parse_bytes(std::string_view text);

/// 1536 -> "1.5 KiB".
std::string format_bytes(double bytes);

/// 0.00213 -> "2.1 ms", 75 -> "1m15s", 7260 -> "2h01m".
std::string format_seconds(double seconds);

/// 1234567 -> "1.23 M"; for rates and counts.
std::string format_count(double count);

}  // namespace craton
