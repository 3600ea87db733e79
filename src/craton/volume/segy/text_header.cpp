#include "craton/volume/segy/text_header.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace craton::volume::segy {

namespace {

// EBCDIC to ASCII: code page 037, with the brackets of code page 500 where 037 leaves the place
// free. 0: no printable ASCII.
constexpr std::array<uint8_t, 256> kEbcdicToAscii = {
    0,   0,   0,   0,   0,   0,  0,  0,  0,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,  0,  0,  0,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,  0,  0,  0,  0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
    0,   0,   0,   0,   0,   0,  0,  32, 0,  0,   0,   0,   0,   0,   0,   0,   0,   91,  46,
    60,  40,  43,  124, 38,  0,  0,  0,  0,  0,   0,   0,   0,   0,   33,  36,  42,  41,  59,
    94,  45,  47,  0,   0,   0,  0,  0,  0,  0,   0,   0,   44,  37,  95,  62,  63,  0,   0,
    0,   0,   0,   0,   0,   0,  0,  96, 58, 35,  64,  39,  61,  34,  0,   97,  98,  99,  100,
    101, 102, 103, 104, 105, 0,  0,  0,  0,  0,   0,   0,   106, 107, 108, 109, 110, 111, 112,
    113, 114, 0,   0,   0,   0,  0,  0,  0,  126, 115, 116, 117, 118, 119, 120, 121, 122, 0,
    0,   0,   0,   0,   0,   94, 0,  0,  0,  0,   0,   0,   0,   0,   0,   91,  93,  0,   0,
    0,   0,   123, 65,  66,  67, 68, 69, 70, 71,  72,  73,  0,   0,   0,   0,   0,   0,   125,
    74,  75,  76,  77,  78,  79, 80, 81, 82, 0,   0,   0,   0,   0,   0,   92,  0,   83,  84,
    85,  86,  87,  88,  89,  90, 0,  0,  0,  0,   0,   0,   48,  49,  50,  51,  52,  53,  54,
    55,  56,  57,  0,   0,   0,  0,  0,  0,
};

bool is_word(uint8_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == ' ';
}

bool ends_card(std::byte b, TextEncoding encoding) {
  const auto c = static_cast<uint8_t>(b);
  return c == '\n' || (encoding == TextEncoding::kEbcdic && (c == 0x15 || c == 0x25));
}

}  // namespace

std::string_view to_string(TextEncoding encoding) {
  switch (encoding) {
    case TextEncoding::kEbcdic:
      return "EBCDIC";
    case TextEncoding::kAscii:
      return "ASCII";
    case TextEncoding::kUnreadable:
      return "unreadable";
  }
  return "unreadable";
}

TextEncoding detect_text_encoding(std::span<const std::byte> bytes) {
  size_t ascii = 0, ebcdic = 0, blank = 0;
  for (std::byte b : bytes) {
    const auto c = static_cast<uint8_t>(b);
    blank += c == 0 ? 1 : 0;
    ascii += is_word(c) ? 1 : 0;
    ebcdic += kEbcdicToAscii[c] != 0 && is_word(kEbcdicToAscii[c]) ? 1 : 0;
  }
  const size_t filled = bytes.size() - blank;
  if (filled == 0) return TextEncoding::kEbcdic;
  if (std::max(ascii, ebcdic) * 2 < filled) return TextEncoding::kUnreadable;
  return ascii > ebcdic ? TextEncoding::kAscii : TextEncoding::kEbcdic;
}

std::string decode_text(std::span<const std::byte> bytes, TextEncoding encoding) {
  std::string text;
  text.reserve(bytes.size());
  for (std::byte b : bytes) {
    auto c = static_cast<uint8_t>(b);
    if (c == 0) {
      text += ' ';
      continue;
    }
    if (encoding == TextEncoding::kEbcdic) c = kEbcdicToAscii[c];
    text += c >= 32 && c < 127 ? static_cast<char>(c) : '?';
  }
  return text;
}

std::vector<std::string> text_lines(std::span<const std::byte> raw, TextEncoding encoding) {
  const std::string text = decode_text(raw, encoding);
  std::vector<std::string> lines;
  size_t start = 0;
  while (start < text.size() && lines.size() < 40) {
    size_t length = 0;
    while (length < 80 && start + length < text.size() && !ends_card(raw[start + length], encoding))
      ++length;
    std::string line = text.substr(start, length);
    line.resize(80, ' ');
    lines.push_back(std::move(line));
    start += length;
    if (start < raw.size() && ends_card(raw[start], encoding)) ++start;
  }
  lines.resize(40, std::string(80, ' '));
  return lines;
}

std::vector<std::byte> encode_text(std::span<const std::string> lines) {
  static const std::array<uint8_t, 128> to_ebcdic = [] {
    std::array<uint8_t, 128> table;
    table.fill(0x6f);  // '?'
    for (int code = 255; code >= 0; --code) {
      const uint8_t ascii = kEbcdicToAscii[static_cast<size_t>(code)];
      if (ascii != 0) table[ascii] = static_cast<uint8_t>(code);
    }
    return table;
  }();
  std::vector<std::byte> bytes(3200, std::byte{0x40});
  for (size_t i = 0; i < std::min<size_t>(lines.size(), 40); ++i) {
    for (size_t j = 0; j < std::min<size_t>(lines[i].size(), 80); ++j) {
      const auto c = static_cast<uint8_t>(lines[i][j]);
      bytes[80 * i + j] = static_cast<std::byte>(c < 128 ? to_ebcdic[c] : 0x6f);
    }
  }
  return bytes;
}

}  // namespace craton::volume::segy
