#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "craton/volume/zarr/data_type.h"

namespace craton::volume::zarr {

/// False when this build lacks libzfp; then both calls below are kUnsupported.
bool zfp_is_available();

/// Decodes a stream with a full header, as numcodecs' zfpy writes it; its type and shape must be
/// those expected (axes of size 1 aside).
void zfp_decode(std::span<const std::byte> in, std::span<const int64_t> shape, const DataType& type,
                std::span<std::byte> out);

/// Fixed accuracy: no sample is off by more than `tolerance`. At most 4 axes longer than 1.
std::vector<std::byte> zfp_encode(std::span<const std::byte> elements,
                                  std::span<const int64_t> shape, const DataType& type,
                                  double tolerance);

}  // namespace craton::volume::zarr
