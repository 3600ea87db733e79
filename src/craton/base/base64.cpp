#include "craton/base/base64.h"

#include <algorithm>
#include <cstdint>

#include "craton/base/error.h"

namespace craton {
namespace {
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}  // namespace

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < n ? std::to_integer<uint32_t>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kBase64[(word >> (18 - 6 * k)) & 63] : '=';
  }
  return out;
}

std::vector<std::byte> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::vector<std::byte> out;
  out.reserve(text.size() * 3 / 4);
  uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const size_t digit = kBase64.find(c);
    if (digit == kBase64.npos)
      fail(ErrorCode::kCorrupt, "base64 text with the character 0x{:02x}",
           static_cast<unsigned char>(c));
    word = word << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out.push_back(static_cast<std::byte>(word >> bits));
    }
  }
  return out;
}

}  // namespace craton
