#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace craton::volume::segy {

enum class ByteOrder { kBig, kLittle };

/// The T (integer or floating point) whose bytes start at `bytes`; no alignment needed.
template <typename T>
T load(const std::byte* bytes, ByteOrder order) {
  using Word = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
  Word word;
  std::memcpy(&word, bytes, sizeof(T));
  static_assert(std::endian::native == std::endian::little,
                "the loops here assume a little-endian host");
  if (order == ByteOrder::kBig) {
    if constexpr (sizeof(T) == 2) word = __builtin_bswap16(word);
    if constexpr (sizeof(T) == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof(T) == 8) word = __builtin_bswap64(word);
  }
  return std::bit_cast<T>(word);
}

template <typename T>
void store(std::byte* bytes, T value, ByteOrder order) {
  std::byte raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = raw[order == ByteOrder::kBig ? sizeof(T) - 1 - i : i];
  }
}

/// The T at the 1-based byte position that SEG-Y documents use; `bytes` must reach that far.
template <typename T>
T load_at(std::span<const std::byte> bytes, int position, ByteOrder order) {
  return load<T>(bytes.data() + (position - 1), order);
}

}  // namespace craton::volume::segy
