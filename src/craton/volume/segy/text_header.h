#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace craton::volume::segy {

enum class TextEncoding { kEbcdic, kAscii, kUnreadable };

std::string_view to_string(TextEncoding encoding);

/// Which of the two alphabets the bytes are, by their letters, digits and blanks; kUnreadable when
/// they fit neither. Never fails.
TextEncoding detect_text_encoding(std::span<const std::byte> bytes);

/// Always as many characters as bytes: printable ASCII, with '?' for a byte that the alphabet lacks
/// and ' ' for NUL. The text header's raw bytes are kept besides, so nothing is lost here.
std::string decode_text(std::span<const std::byte> bytes, TextEncoding encoding);

/// 40 lines of 80 from a text header of 3200 bytes. Cards that end in a line feed (81 columns, as
/// some writers make them) are put straight.
std::vector<std::string> text_lines(std::span<const std::byte> raw, TextEncoding encoding);

/// 3200 EBCDIC bytes from up to 40 lines of up to 80 ASCII characters.
std::vector<std::byte> encode_text(std::span<const std::string> lines);

}  // namespace craton::volume::segy
