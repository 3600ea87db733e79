#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "craton/volume/segy/bytes.h"

namespace craton::volume::segy {

/// Data sample format codes 1..16 of SEG-Y rev 0 to 2.1 (binary header bytes 3225-26). 13 and 14
/// are not assigned.
inline constexpr int kIbmFloat = 1, kInt32 = 2, kInt16 = 3, kFixedGain = 4, kIeeeFloat = 5,
                     kIeeeDouble = 6, kInt24 = 7, kInt8 = 8, kInt64 = 9, kUint32 = 10, kUint16 = 11,
                     kUint64 = 12, kUint24 = 15, kUint8 = 16;

/// Bytes of one sample, or 0 for a code that does not exist.
int sample_bytes(int format);
/// "IBM float, 4 bytes".
std::string format_name(int format);

/// The value of an IBM System/360 single: (-1)^s * 0.f * 16^(e-64). Exact for each word whose value
/// a float holds, also for words that are not normalised; rounded to nearest even below the normal
/// range; infinite from 2^128 (word 0x61100000 when normalised).
float ibm_to_float(uint32_t word);

/// The normalised IBM word nearest to `value` (ties to even); exact for each value that came from a
/// normalised word. Infinities and NaN become the largest magnitude, as the format has neither.
uint32_t float_to_ibm(float value);

/// Decodes `out.size()` samples of `format` from `raw` (at least out.size() * sample_bytes(format)
/// bytes). Integers beyond 24 bits and doubles round to the nearest float.
void decode_samples(int format, ByteOrder order, const std::byte* raw, std::span<float> out);

/// The opposite, for export: integers are rounded and clamped to their range. Returns how many
/// samples were clamped.
int64_t encode_samples(int format, ByteOrder order, std::span<const float> samples, std::byte* raw);

/// Format 2 without going through float.
void decode_int32(ByteOrder order, const std::byte* raw, std::span<int32_t> out);

/// Counts the IBM words whose value is beyond the floats (they decode to infinity).
int64_t count_ibm_overflow(ByteOrder order, const std::byte* raw, size_t count);

/// Of the nonzero 32-bit words: how many have 0 in their leading fraction digit (bits 20-23). A
/// normalised IBM float never has; of the words of an IEEE float some 4 to 34 % do. So more than 1
/// % means that data labelled IBM are not.
struct LeadingDigits {
  int64_t nonzero = 0;
  int64_t zero_digit = 0;
  double share() const {
    return nonzero > 0 ? static_cast<double>(zero_digit) / static_cast<double>(nonzero) : 0;
  }
};
void count_leading_digits(ByteOrder order, const std::byte* raw, size_t count,
                          LeadingDigits& digits);

}  // namespace craton::volume::segy
