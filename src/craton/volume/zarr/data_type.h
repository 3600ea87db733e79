#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace craton::volume::zarr {

enum class Kind { kBool, kInt, kUint, kFloat, kBrainFloat, kRaw, kStruct };

struct Field;

/// The type of one array element. In memory elements are always little-endian and packed.
struct DataType {
  Kind kind = Kind::kFloat;
  uint32_t size = 4;          ///< bytes per element
  bool big_endian = false;    ///< as stored (Zarr v2 dtype ">f4"); v3 says it in the bytes codec
  std::vector<Field> fields;  ///< of kStruct

  bool operator==(const DataType&) const;
  bool is_number() const { return kind <= Kind::kBrainFloat; }
  /// "float32", "int16", "bool", "raw_bytes(240)", "struct{inline:int32,...}"
  std::string name() const;
};

struct Field {
  std::string name;
  DataType type;
  uint32_t offset = 0;  ///< bytes from the start of the element
  bool operator==(const Field&) const = default;
};

/// "float32" and the like, as Zarr v3 spells them. kUnsupported names what is not known.
DataType data_type_from_name(std::string_view name);
/// The `data_type` of a v3 array: a name, or an object for raw bytes and (three spellings of)
/// structs.
DataType parse_data_type_v3(const nlohmann::json& value);
/// The `dtype` of a v2 array: "<f4", "|b1", "|V240" or a list of fields.
DataType parse_data_type_v2(const nlohmann::json& value);
nlohmann::json to_json_v3(const DataType& type);
nlohmann::json to_json_v2(const DataType& type);

/// One element's bytes for a JSON fill value (number, bool, "NaN", "-Infinity", "0x7fc00000",
/// base64, list of bytes, null = zeros).
std::vector<std::byte> parse_fill_value(const nlohmann::json& value, const DataType& type);
/// The reverse; for v2 structs and raw bytes base64.
nlohmann::json fill_value_to_json(std::span<const std::byte> fill, const DataType& type);

/// Swaps every element (every field of a struct) between little and big endian.
void swap_bytes(std::span<std::byte> elements, const DataType& type);

/// Converts numbers to float or double; `in.size() == out.size() * type.size`.
void convert(std::span<const std::byte> in, const DataType& type, std::span<float> out);
void convert(std::span<const std::byte> in, const DataType& type, std::span<double> out);

}  // namespace craton::volume::zarr
