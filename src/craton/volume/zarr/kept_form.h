#pragma once

#include <functional>
#include <span>
#include <string>

#include "craton/volume/zarr/metadata.h"

namespace craton::volume::zarr {

/// What a cache keeps of an array's chunks (store::ObjectRead::form), by what the store asks for
/// (store::ObjectStore::kept_form): "" is the bytes as stored; "decoded" the elements; "lz4" the
/// elements, shuffled and packed by LZ4. The metadata's digest is part of it, since they decide
/// what the same bytes decode to.
std::string kept_form(const std::string& wanted, const ArrayMetadata& metadata);

/// Hands the chunk in this form to `keep`.
void prepare_to_keep(const std::string& form, std::span<const std::byte> elements,
                     uint32_t element_size,
                     const std::function<void(std::span<const std::byte>)>& keep);

/// The way back; kCorrupt when `kept` is no chunk of out.size() bytes.
void take_kept(const std::string& form, std::span<const std::byte> kept, std::span<std::byte> out);

}  // namespace craton::volume::zarr
