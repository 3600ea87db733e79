#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "craton/volume/segy/bytes.h"

namespace craton::volume::segy {

inline constexpr int kTraceHeaderBytes = 240;

enum class FieldType {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kFloat32,
  kFloat64,
  kIbm32
};

int field_bytes(FieldType type);
std::string_view to_string(FieldType type);

/// A value in the trace header: 1-based byte position, as SEG-Y documents count, and type.
/// Positions past 240 lie in trace header extensions.
struct HeaderField {
  int byte = 0;
  FieldType type = FieldType::kInt32;
};

/// "189", "221:int16", "73:float32", "181:ibm32", or a name of `trace_header_layout` such as
/// "inline". Error kInvalidArgument says what is possible.
HeaderField parse_header_field(std::string_view text);

std::string to_string(const HeaderField& field);

/// The field's value; integers up to 53 bits are exact. `header` must reach field.byte - 1 +
/// field_bytes(field.type).
double read_field(std::span<const std::byte> header, const HeaderField& field, ByteOrder order);

/// One row of the standard's table of trace or binary header fields; `byte` counts from the
/// header's own start.
struct LayoutField {
  const char* name;
  int byte;
  FieldType type;
};

/// The fields of the SEG-Y rev 1 trace header, with the names that MDIO stores use; sorted by byte,
/// without overlap.
std::span<const LayoutField> trace_header_layout();
/// Turns each field of the standard's 240 bytes into the other byte order, in place.
void swap_trace_header(std::span<std::byte> header);
/// The fields of the binary file header, rev 2.1; `byte` counts from 1 = file byte 3201.
std::span<const LayoutField> binary_header_layout();

}  // namespace craton::volume::segy
