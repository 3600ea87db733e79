#include "craton/volume/segy/sample_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "craton/base/check.h"
#include "craton/base/wide_loops.h"

namespace craton::volume::segy {

namespace {

// value = fraction * 2^k with k = 4 * (exponent - 64) - 24, as two multiplications by powers of two
// of half the exponent each. The first is exact; only the second can round. Below k = -200 the
// result is 0 whatever the fraction is.
inline float ibm_value(uint32_t word) {
  const int32_t exponent = static_cast<int32_t>((word >> 24) & 0x7f);
  int32_t k = 4 * (exponent - 64) - 24;
  k = k < -200 ? -200 : k;
  const int32_t half = k >> 1;
  const float first = std::bit_cast<float>((half + 127) << 23);
  const float second = std::bit_cast<float>((k - half + 127) << 23);
  const float magnitude =
      static_cast<float>(static_cast<int32_t>(word & 0xffffff)) * first * second;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (word & 0x80000000u));
}

template <bool kSwap>
inline uint32_t load_word(const std::byte* raw, size_t i) {
  uint32_t word;
  std::memcpy(&word, raw + 4 * i, 4);
  return kSwap ? __builtin_bswap32(word) : word;
}

CRATON_WIDE void decode_ibm_big(const std::byte* raw, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = ibm_value(load_word<true>(raw, i));
}
CRATON_WIDE void decode_ibm_little(const std::byte* raw, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = ibm_value(load_word<false>(raw, i));
}
CRATON_WIDE void swap_words(const std::byte* raw, void* out, size_t count) {
  auto* words = static_cast<uint32_t*>(out);
  for (size_t i = 0; i < count; ++i) words[i] = load_word<true>(raw, i);
}

template <typename T>
void decode_plain(ByteOrder order, const std::byte* raw, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(load<T>(raw + i * sizeof(T), order));
}

uint32_t load24(const std::byte* b, ByteOrder order) {
  const auto at = [&](int i) {
    return static_cast<uint32_t>(b[order == ByteOrder::kBig ? i : 2 - i]);
  };
  return at(0) << 16 | at(1) << 8 | at(2);
}

// Obsolete code 4: byte 1 is 0, byte 2 a gain g, bytes 3-4 a signed integer. The value is the
// integer times 2^-g, as the gain is the power of two that the amplifier applied.
float fixed_gain_value(const std::byte* raw, ByteOrder order) {
  const uint32_t word = load<uint32_t>(raw, order);
  const int gain = static_cast<int>((word >> 16) & 0xff);
  return std::ldexp(static_cast<float>(static_cast<int16_t>(word & 0xffff)), -gain);
}

// Rounds to an integer of the range; counts what does not fit (NaN becomes 0).
template <typename T>
T clamp_round(float value, double low, double high, int64_t& clamped) {
  if (std::isnan(value)) {
    ++clamped;
    return 0;
  }
  const double rounded = std::nearbyint(static_cast<double>(value));
  if (rounded < low || rounded > high) ++clamped;
  if (rounded <= low) return static_cast<T>(low);
  if (rounded >= high) {
    return high >= 0x1p63 ? std::numeric_limits<T>::max() : static_cast<T>(high);
  }
  return static_cast<T>(rounded);
}

template <typename T>
int64_t encode_integers(ByteOrder order, std::span<const float> samples, std::byte* raw) {
  int64_t clamped = 0;
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  const double high = static_cast<double>(std::numeric_limits<T>::max());
  for (size_t i = 0; i < samples.size(); ++i) {
    store<T>(raw + i * sizeof(T), clamp_round<T>(samples[i], low, high, clamped), order);
  }
  return clamped;
}

int64_t encode_24(ByteOrder order, std::span<const float> samples, std::byte* raw, bool is_signed) {
  int64_t clamped = 0;
  const double low = is_signed ? -8388608 : 0, high = is_signed ? 8388607 : 16777215;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto value = static_cast<uint32_t>(clamp_round<int32_t>(samples[i], low, high, clamped));
    for (int b = 0; b < 3; ++b) {
      raw[3 * i + b] =
          static_cast<std::byte>(value >> (order == ByteOrder::kBig ? 16 - 8 * b : 8 * b));
    }
  }
  return clamped;
}

void encode_fixed_gain(ByteOrder order, std::span<const float> samples, std::byte* raw,
                       int64_t& clamped) {
  for (size_t i = 0; i < samples.size(); ++i) {
    float value = samples[i];
    int gain = 0;
    while (gain < 127 && std::abs(value) < 16384 && value != std::nearbyint(value)) {
      value *= 2;
      ++gain;
    }
    const auto fixed = clamp_round<int16_t>(value, -32768, 32767, clamped);
    store<uint32_t>(raw + 4 * i, static_cast<uint32_t>(gain) << 16 | static_cast<uint16_t>(fixed),
                    order);
  }
}

}  // namespace

int sample_bytes(int format) {
  switch (format) {
    case kIbmFloat:
    case kInt32:
    case kFixedGain:
    case kIeeeFloat:
    case kUint32:
      return 4;
    case kInt16:
    case kUint16:
      return 2;
    case kIeeeDouble:
    case kInt64:
    case kUint64:
      return 8;
    case kInt24:
    case kUint24:
      return 3;
    case kInt8:
    case kUint8:
      return 1;
    default:
      return 0;
  }
}

std::string format_name(int format) {
  switch (format) {
    case kIbmFloat:
      return "IBM float, 4 bytes";
    case kInt32:
      return "signed integer, 4 bytes";
    case kInt16:
      return "signed integer, 2 bytes";
    case kFixedGain:
      return "fixed point with gain, 4 bytes (obsolete)";
    case kIeeeFloat:
      return "IEEE float, 4 bytes";
    case kIeeeDouble:
      return "IEEE float, 8 bytes";
    case kInt24:
      return "signed integer, 3 bytes";
    case kInt8:
      return "signed integer, 1 byte";
    case kInt64:
      return "signed integer, 8 bytes";
    case kUint32:
      return "unsigned integer, 4 bytes";
    case kUint16:
      return "unsigned integer, 2 bytes";
    case kUint64:
      return "unsigned integer, 8 bytes";
    case kUint24:
      return "unsigned integer, 3 bytes";
    case kUint8:
      return "unsigned integer, 1 byte";
    default:
      return "unknown";
  }
}

float ibm_to_float(uint32_t word) { return ibm_value(word); }

uint32_t float_to_ibm(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000u;
  if (!std::isfinite(value)) return sign | 0x7fffffffu;
  if (value == 0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(static_cast<double>(value)), &exponent);  // [0.5, 1)
  int hex =
      exponent > 0 ? (exponent + 3) / 4 : -((-exponent) / 4);  // smallest with 16^hex >= 2^exponent
  double scaled = std::nearbyint(std::ldexp(fraction, exponent - 4 * hex + 24));
  if (scaled >= 0x1p24) {
    scaled /= 16;
    ++hex;
  }
  return sign | static_cast<uint32_t>(hex + 64) << 24 | static_cast<uint32_t>(scaled);
}

void decode_samples(int format, ByteOrder order, const std::byte* raw, std::span<float> out) {
  const bool big = order == ByteOrder::kBig;
  switch (format) {
    case kIbmFloat:
      return big ? decode_ibm_big(raw, out.data(), out.size())
                 : decode_ibm_little(raw, out.data(), out.size());
    case kIeeeFloat:
      if (big) return swap_words(raw, out.data(), out.size());
      if (!out.empty()) std::memcpy(out.data(), raw, 4 * out.size());
      return;
    case kInt32:
      return decode_plain<int32_t>(order, raw, out);
    case kInt16:
      return decode_plain<int16_t>(order, raw, out);
    case kIeeeDouble:
      return decode_plain<double>(order, raw, out);
    case kInt8:
      return decode_plain<int8_t>(order, raw, out);
    case kInt64:
      return decode_plain<int64_t>(order, raw, out);
    case kUint32:
      return decode_plain<uint32_t>(order, raw, out);
    case kUint16:
      return decode_plain<uint16_t>(order, raw, out);
    case kUint64:
      return decode_plain<uint64_t>(order, raw, out);
    case kUint8:
      return decode_plain<uint8_t>(order, raw, out);
    case kFixedGain:
      for (size_t i = 0; i < out.size(); ++i) out[i] = fixed_gain_value(raw + 4 * i, order);
      return;
    case kInt24:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(static_cast<int32_t>(load24(raw + 3 * i, order) << 8) >> 8);
      }
      return;
    case kUint24:
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>(load24(raw + 3 * i, order));
      return;
    default:
      CRATON_CHECK(false, "sample format {} reached the decoder", format);
  }
}

int64_t encode_samples(int format, ByteOrder order, std::span<const float> samples,
                       std::byte* raw) {
  int64_t clamped = 0;
  switch (format) {
    case kIbmFloat:
      for (size_t i = 0; i < samples.size(); ++i) {
        clamped += std::isfinite(samples[i]) ? 0 : 1;
        store<uint32_t>(raw + 4 * i, float_to_ibm(samples[i]), order);
      }
      return clamped;
    case kIeeeFloat:
      for (size_t i = 0; i < samples.size(); ++i) {
        store<uint32_t>(raw + 4 * i, std::bit_cast<uint32_t>(samples[i]), order);
      }
      return 0;
    case kIeeeDouble:
      for (size_t i = 0; i < samples.size(); ++i)
        store<double>(raw + 8 * i, static_cast<double>(samples[i]), order);
      return 0;
    case kFixedGain:
      encode_fixed_gain(order, samples, raw, clamped);
      return clamped;
    case kInt32:
      return encode_integers<int32_t>(order, samples, raw);
    case kInt16:
      return encode_integers<int16_t>(order, samples, raw);
    case kInt8:
      return encode_integers<int8_t>(order, samples, raw);
    case kInt64:
      return encode_integers<int64_t>(order, samples, raw);
    case kUint32:
      return encode_integers<uint32_t>(order, samples, raw);
    case kUint16:
      return encode_integers<uint16_t>(order, samples, raw);
    case kUint64:
      return encode_integers<uint64_t>(order, samples, raw);
    case kUint8:
      return encode_integers<uint8_t>(order, samples, raw);
    case kInt24:
      return encode_24(order, samples, raw, true);
    case kUint24:
      return encode_24(order, samples, raw, false);
    default:
      CRATON_CHECK(false, "sample format {} reached the encoder", format);
  }
  return 0;
}

void decode_int32(ByteOrder order, const std::byte* raw, std::span<int32_t> out) {
  if (order == ByteOrder::kBig) return swap_words(raw, out.data(), out.size());
  if (!out.empty()) std::memcpy(out.data(), raw, 4 * out.size());
}

int64_t count_ibm_overflow(ByteOrder order, const std::byte* raw, size_t count) {
  int64_t overflow = 0;
  for (size_t i = 0; i < count; ++i) {
    overflow += std::isinf(ibm_value(load<uint32_t>(raw + 4 * i, order))) ? 1 : 0;
  }
  return overflow;
}

void count_leading_digits(ByteOrder order, const std::byte* raw, size_t count,
                          LeadingDigits& digits) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t word = load<uint32_t>(raw + 4 * i, order);
    if ((word & 0x7fffffffu) == 0) continue;
    ++digits.nonzero;
    digits.zero_digit += (word & 0x00f00000u) == 0 ? 1 : 0;
  }
}

}  // namespace craton::volume::segy
