#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace craton {

/// The alphabet of RFC 4648 section 4, padded with '='.
std::string encode_base64(std::span<const std::byte> bytes);

/// The reverse; padding may be left out. kCorrupt when `text` is no base64.
std::vector<std::byte> decode_base64(std::string_view text);

}  // namespace craton
