#include "craton/volume/zarr/data_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "craton/base/base64.h"
#include "craton/base/error.h"

namespace craton::volume::zarr {

using nlohmann::json;

namespace {

constexpr uint32_t kMaxElementBytes = 1 << 20;

struct Named {
  std::string_view name;
  Kind kind;
  uint32_t size;
};
constexpr Named kNames[] = {
    {"bool", Kind::kBool, 1},           {"int8", Kind::kInt, 1},      {"int16", Kind::kInt, 2},
    {"int32", Kind::kInt, 4},           {"int64", Kind::kInt, 8},     {"uint8", Kind::kUint, 1},
    {"uint16", Kind::kUint, 2},         {"uint32", Kind::kUint, 4},   {"uint64", Kind::kUint, 8},
    {"float16", Kind::kFloat, 2},       {"float32", Kind::kFloat, 4}, {"float64", Kind::kFloat, 8},
    {"bfloat16", Kind::kBrainFloat, 2},
};

DataType raw_bytes(uint64_t size) {
  if (size == 0 || size > kMaxElementBytes)
    fail(ErrorCode::kUnsupported, "data type of {} bytes per element; 1 to {} are handled", size,
         kMaxElementBytes);
  return {Kind::kRaw, static_cast<uint32_t>(size)};
}

DataType make_struct(std::vector<std::pair<std::string, DataType>> members) {
  DataType type{Kind::kStruct, 0};
  uint64_t offset = 0;
  for (auto& [name, member] : members) {
    const uint32_t size = member.size;
    type.fields.push_back({std::move(name), std::move(member), static_cast<uint32_t>(offset)});
    offset += size;
    if (offset > kMaxElementBytes)
      fail(ErrorCode::kUnsupported, "a struct of more than {} bytes per element", kMaxElementBytes);
  }
  if (members.empty()) fail(ErrorCode::kCorrupt, "a struct data type without fields");
  type.size = static_cast<uint32_t>(offset);
  return type;
}

uint64_t parse_count(std::string_view digits, std::string_view what) {
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
  if (error != std::errc() || end != digits.data() + digits.size())
    fail(ErrorCode::kUnsupported, "unknown data type \"{}\"", what);
  return n;
}

/// Fields as [[name, type], ...] or [{"name":, "data_type":}, ...].
DataType parse_fields(const json& list, DataType (*parse_member)(const json&)) {
  std::vector<std::pair<std::string, DataType>> members;
  for (const json& item : list) {
    const json* name = nullptr;
    const json* member = nullptr;
    if (item.is_array() && item.size() == 2) {
      name = &item[0];
      member = &item[1];
    } else if (item.is_object() && item.contains("name") && item.contains("data_type")) {
      name = &item["name"];
      member = &item["data_type"];
    }
    if (name == nullptr || !name->is_string())
      fail(ErrorCode::kUnsupported, "struct field {}: expected [name, type]",
           item.dump().substr(0, 80));
    members.emplace_back(name->get<std::string>(), parse_member(*member));
  }
  return make_struct(std::move(members));
}

/// Counts the numbers of a type that have a byte order, and those of them that are big-endian.
void count_orders(const DataType& type, size_t& ordered, size_t& big) {
  for (const Field& field : type.fields) count_orders(field.type, ordered, big);
  if (!type.is_number() || type.size == 1) return;
  ++ordered;
  big += type.big_endian;
}

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = (h >> 10) & 31, fraction = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

template <typename From, typename To>
void convert_all(std::span<const std::byte> in, std::span<To> out) {
  const std::byte* source = in.data();
  for (size_t i = 0; i < out.size(); ++i) {
    From value;
    std::memcpy(&value, source + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);
  }
}

template <typename To>
void convert_any(std::span<const std::byte> in, const DataType& type, std::span<To> out) {
  if (in.size() != out.size() * type.size)
    fail(ErrorCode::kInternal, "conversion of {} bytes to {} numbers of {}", in.size(), out.size(),
         type.name());
  switch (type.kind) {
    case Kind::kBool:
      for (size_t i = 0; i < out.size(); ++i) out[i] = in[i] != std::byte{0} ? To(1) : To(0);
      return;
    case Kind::kInt:
      if (type.size == 1) return convert_all<int8_t>(in, out);
      if (type.size == 2) return convert_all<int16_t>(in, out);
      if (type.size == 4) return convert_all<int32_t>(in, out);
      return convert_all<int64_t>(in, out);
    case Kind::kUint:
      if (type.size == 1) return convert_all<uint8_t>(in, out);
      if (type.size == 2) return convert_all<uint16_t>(in, out);
      if (type.size == 4) return convert_all<uint32_t>(in, out);
      return convert_all<uint64_t>(in, out);
    case Kind::kFloat:
      if (type.size == 4) return convert_all<float>(in, out);
      if (type.size == 8) return convert_all<double>(in, out);
      for (size_t i = 0; i < out.size(); ++i) {
        uint16_t half;
        std::memcpy(&half, in.data() + 2 * i, 2);
        out[i] = static_cast<To>(half_to_float(half));
      }
      return;
    case Kind::kBrainFloat:
      for (size_t i = 0; i < out.size(); ++i) {
        uint16_t high;
        std::memcpy(&high, in.data() + 2 * i, 2);
        out[i] = static_cast<To>(std::bit_cast<float>(static_cast<uint32_t>(high) << 16));
      }
      return;
    case Kind::kRaw:
    case Kind::kStruct:
      break;
  }
  fail(ErrorCode::kUnsupported, "elements of type {} are no numbers", type.name());
}

template <typename T>
std::vector<std::byte> bytes_of(T value) {
  std::vector<std::byte> out(sizeof(T));
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

uint16_t float_to_half(double value) {
  // Only for fill values: round to nearest even through the exact double.
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (magnitude >= 65520.0) return sign | 0x7c00;
  if (magnitude < std::ldexp(1.0, -14))
    return sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);  // 0.5 <= fraction < 1
  const auto bits = static_cast<uint32_t>(std::nearbyint(std::ldexp(fraction, 11)));
  return static_cast<uint16_t>(sign + (static_cast<uint32_t>(exponent + 13) << 10) + bits);
}

std::vector<std::byte> float_fill(double value, const DataType& type) {
  if (type.kind == Kind::kBrainFloat)
    return bytes_of(
        static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
  if (type.size == 2) return bytes_of(float_to_half(value));
  if (type.size == 4) return bytes_of(static_cast<float>(value));
  return bytes_of(value);
}

[[noreturn]] void bad_fill(const json& value, const DataType& type) {
  fail(ErrorCode::kCorrupt, "fill_value {} does not fit data type {}", value.dump().substr(0, 60),
       type.name());
}

std::vector<std::byte> float_fill_from_text(const std::string& text, const json& value,
                                            const DataType& type) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "NaN") return float_fill(std::numeric_limits<double>::quiet_NaN(), type);
  if (text == "Infinity") return float_fill(infinity, type);
  if (text == "-Infinity") return float_fill(-infinity, type);
  if (!text.starts_with("0x")) bad_fill(value, type);
  uint64_t bits = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 2 + 2 * type.size)
    bad_fill(value, type);
  std::vector<std::byte> out = bytes_of(bits);
  out.resize(type.size);
  return out;
}

std::vector<std::byte> integer_fill(const json& value, const DataType& type) {
  const uint32_t bits = 8 * type.size;
  std::vector<std::byte> out;
  if (value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0)) {
    const auto n = value.get<uint64_t>();
    const uint64_t limit =
        type.kind == Kind::kInt ? (~0ull >> 1) >> (64 - bits) : ~0ull >> (64 - bits);
    if (n > limit) bad_fill(value, type);
    out = bytes_of(n);
  } else if (value.is_number_integer()) {
    const auto n = value.get<int64_t>();
    if (type.kind != Kind::kInt || n < (std::numeric_limits<int64_t>::min() >> (64 - bits)))
      bad_fill(value, type);
    out = bytes_of(n);
  } else if (value.is_number_float()) {
    const double d = value.get<double>();
    if (d != std::floor(d) || std::fabs(d) > 9e15) bad_fill(value, type);
    return integer_fill(d < 0 ? json(static_cast<int64_t>(d)) : json(static_cast<uint64_t>(d)),
                        type);
  } else {
    bad_fill(value, type);
  }
  out.resize(type.size);
  return out;
}

std::vector<std::byte> raw_fill(const json& value, const DataType& type) {
  std::vector<std::byte> out;
  if (value.is_string()) {
    out = decode_base64(value.get<std::string>());
  } else if (value.is_array() && value.size() == type.size) {
    for (const json& item : value) {
      if (!item.is_number_unsigned() || item.get<uint64_t>() > 255) bad_fill(value, type);
      out.push_back(static_cast<std::byte>(item.get<uint64_t>()));
    }
  } else if (value.is_object() && type.kind == Kind::kStruct) {
    for (const Field& field : type.fields) {
      const auto part =
          parse_fill_value(value.contains(field.name) ? value[field.name] : json(), field.type);
      out.insert(out.end(), part.begin(), part.end());
    }
  } else if (value.is_number() && value.get<double>() == 0) {
    out.resize(type.size);
  }
  if (out.size() != type.size) bad_fill(value, type);
  return out;
}


}  // namespace

bool DataType::operator==(const DataType& other) const {
  return kind == other.kind && size == other.size && fields == other.fields;
}

std::string DataType::name() const {
  for (const Named& named : kNames)
    if (named.kind == kind && named.size == size) return std::string(named.name);
  if (kind != Kind::kStruct) return fmt::format("raw_bytes({})", size);
  std::string out;
  for (const Field& field : fields)
    out += (out.empty() ? "struct{" : ",") + field.name + ":" + field.type.name();
  return out + "}";
}

DataType data_type_from_name(std::string_view name) {
  for (const Named& named : kNames)
    if (named.name == name) return {named.kind, named.size};
  if (name.size() > 1 && name[0] == 'r' && name.find_first_not_of("0123456789", 1) == name.npos) {
    const uint64_t bits = parse_count(name.substr(1), name);
    if (bits % 8 == 0) return raw_bytes(bits / 8);
  }
  fail(ErrorCode::kUnsupported, "data type \"{}\" is not handled", name.substr(0, 60));
}

DataType parse_data_type_v3(const json& value) {
  if (value.is_string()) return data_type_from_name(value.get<std::string>());
  if (value.is_array()) return parse_fields(value, parse_data_type_v3);
  if (!value.is_object() || !value.contains("name") || !value["name"].is_string())
    fail(ErrorCode::kCorrupt, "data_type {}: expected a name", value.dump().substr(0, 80));
  const std::string name = value["name"].get<std::string>();
  const json configuration = value.value("configuration", json::object());
  if ((name == "struct" || name == "structured") && configuration.is_object() &&
      configuration.contains("fields"))
    return parse_fields(configuration["fields"], parse_data_type_v3);
  if ((name == "raw_bytes" || name == "null_terminated_bytes") && configuration.is_object() &&
      configuration.contains("length_bytes") && configuration["length_bytes"].is_number_unsigned())
    return raw_bytes(configuration["length_bytes"].get<uint64_t>());
  if (configuration.is_object() && !configuration.empty())
    fail(ErrorCode::kUnsupported, "data type \"{}\" is not handled", name.substr(0, 60));
  return data_type_from_name(name);
}

DataType parse_data_type_v2(const json& value) {
  if (value.is_array()) {
    DataType type = parse_fields(value, parse_data_type_v2);
    size_t ordered = 0, big = 0;
    count_orders(type, ordered, big);
    if (big != 0 && big != ordered)
      fail(ErrorCode::kUnsupported, "a struct whose fields differ in byte order is not handled");
    type.big_endian = big != 0;
    return type;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text.size() < 3 || std::string_view("<>|=").find(text[0]) == std::string_view::npos)
    fail(ErrorCode::kUnsupported, "dtype {} is not handled", value.dump().substr(0, 80));
  const uint64_t size = parse_count(std::string_view(text).substr(2), text);
  DataType type;
  const char letter = text[1];
  if (letter == 'V' || letter == 'S') return raw_bytes(size);
  const bool power = size == 1 || size == 2 || size == 4 || size == 8;
  if (letter == 'b' && size == 1) {
    type.kind = Kind::kBool;
  } else if (letter == 'i' && power) {
    type.kind = Kind::kInt;
  } else if (letter == 'u' && power) {
    type.kind = Kind::kUint;
  } else if (letter == 'f' && power && size >= 2) {
    type.kind = Kind::kFloat;
  } else {
    fail(ErrorCode::kUnsupported, "dtype \"{}\" is not handled", text.substr(0, 60));
  }
  type.size = static_cast<uint32_t>(size);
  type.big_endian = text[0] == '>' && size > 1;
  return type;
}

json to_json_v3(const DataType& type) {
  if (type.kind == Kind::kRaw)
    return {{"name", "raw_bytes"}, {"configuration", {{"length_bytes", type.size}}}};
  if (type.kind != Kind::kStruct) return type.name();
  json fields = json::array();
  for (const Field& field : type.fields)
    fields.push_back(json::array({field.name, to_json_v3(field.type)}));
  return {{"name", "structured"}, {"configuration", {{"fields", std::move(fields)}}}};
}

json to_json_v2(const DataType& type) {
  if (type.kind == Kind::kStruct) {
    json fields = json::array();
    for (const Field& field : type.fields)
      fields.push_back(json::array({field.name, to_json_v2(field.type)}));
    return fields;
  }
  const char letter = type.kind == Kind::kBool   ? 'b'
                      : type.kind == Kind::kInt  ? 'i'
                      : type.kind == Kind::kUint ? 'u'
                      : type.kind == Kind::kRaw  ? 'V'
                                                 : 'f';
  return fmt::format("{}{}{}", type.size == 1 || type.kind == Kind::kRaw ? '|' : '<', letter,
                     type.size);
}

std::vector<std::byte> parse_fill_value(const json& value, const DataType& type) {
  if (value.is_null()) return std::vector<std::byte>(type.size);
  switch (type.kind) {
    case Kind::kBool:
      if (value.is_boolean()) return {static_cast<std::byte>(value.get<bool>())};
      if (value.is_number_unsigned() && value.get<uint64_t>() <= 1)
        return {static_cast<std::byte>(value.get<uint64_t>())};
      bad_fill(value, type);
    case Kind::kInt:
    case Kind::kUint:
      return integer_fill(value, type);
    case Kind::kFloat:
    case Kind::kBrainFloat:
      if (value.is_number()) return float_fill(value.get<double>(), type);
      if (!value.is_string()) bad_fill(value, type);
      return float_fill_from_text(value.get<std::string>(), value, type);
    case Kind::kRaw:
    case Kind::kStruct:
      return raw_fill(value, type);
  }
  bad_fill(value, type);
}

json fill_value_to_json(std::span<const std::byte> fill, const DataType& type) {
  if (!type.is_number()) return encode_base64(fill);
  if (type.kind == Kind::kBool) return fill[0] != std::byte{0};
  if (type.kind == Kind::kInt || type.kind == Kind::kUint) {
    uint64_t bits = 0;
    std::memcpy(&bits, fill.data(), type.size);
    const uint32_t unused = 64 - 8 * type.size;
    if (type.kind == Kind::kUint) return bits;
    return static_cast<int64_t>(bits << unused) >> unused;
  }
  double value;
  convert(fill, type, std::span<double>(&value, 1));
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

void swap_bytes(std::span<std::byte> elements, const DataType& type) {
  if (type.kind == Kind::kRaw || type.size == 1) return;
  for (size_t at = 0; at + type.size <= elements.size(); at += type.size) {
    if (type.kind == Kind::kStruct) {
      for (const Field& field : type.fields)
        swap_bytes(elements.subspan(at + field.offset, field.type.size), field.type);
    } else {
      std::reverse(elements.data() + at, elements.data() + at + type.size);
    }
  }
}

void convert(std::span<const std::byte> in, const DataType& type, std::span<float> out) {
  convert_any(in, type, out);
}
void convert(std::span<const std::byte> in, const DataType& type, std::span<double> out) {
  convert_any(in, type, out);
}

}  // namespace craton::volume::zarr
