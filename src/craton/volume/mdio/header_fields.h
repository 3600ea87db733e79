#pragma once

#include <cstddef>
#include <span>

#include "craton/volume/zarr/data_type.h"

namespace craton::volume::mdio {

/// The standard header; extensions may follow it.
constexpr size_t kTraceHeaderBytes = 240;

/// The standard trace header (SEG-Y rev 1) as the struct that MDIO calls `headers`: packed
/// integers. A mantissa with its exponent is two fields.
const zarr::DataType& header_struct();

/// Cuts the fields out of raw headers of `header_bytes` each, into little-endian structs.
void fill_header_structs(std::span<const std::byte> raw, size_t header_bytes, bool little_endian,
                         std::span<std::byte> out);

}  // namespace craton::volume::mdio
