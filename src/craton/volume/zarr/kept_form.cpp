#include "craton/volume/zarr/kept_form.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"

namespace craton::volume::zarr {

namespace {

bool is_packed(const std::string& form) { return form.starts_with("lz4"); }

BytesCodec packing(uint32_t element_size) {
  BytesCodec codec;
  codec.id = BytesCodec::Id::kBlosc;
  codec.name = "blosc";
  codec.inner = "lz4";
  codec.level = 1;
  codec.element_size = element_size;
  return codec;
}

}  // namespace

std::string kept_form(const std::string& wanted, const ArrayMetadata& metadata) {
  if (wanted.empty()) return "";
  ArrayMetadata plain = metadata;
  plain.attributes = nlohmann::json::object();
  try {
    const std::string text = (plain.format == 3 ? to_json_v3(plain) : to_json_v2(plain)).dump();
    return fmt::format("{} {:016x}", wanted, XXH3_64bits(text.data(), text.size()));
  } catch (const Error&) {
    return "";  // metadata that can be read and not written: kept as stored
  }
}

void prepare_to_keep(const std::string& form, std::span<const std::byte> elements,
                     uint32_t element_size,
                     const std::function<void(std::span<const std::byte>)>& keep) {
  if (!is_packed(form)) return keep(elements);
  keep(encode_bytes(packing(element_size), elements, element_size));
}

void take_kept(const std::string& form, std::span<const std::byte> kept, std::span<std::byte> out) {
  if (is_packed(form)) {
    if (decode_bytes(packing(1), kept, out) == out.size()) return;
  } else if (kept.size() == out.size()) {
    std::memcpy(out.data(), kept.data(), out.size());
    return;
  }
  fail(ErrorCode::kCorrupt, "{} bytes in a cache are no chunk of {}", kept.size(), out.size());
}

}  // namespace craton::volume::zarr
