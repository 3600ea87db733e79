// The first byte picks what the rest is:
//   0, 1  Zarr v3 or v2 metadata up to a zero byte, then the object that every key of the array
//   answers with 2     a shard of 4 x 4 float chunks with its index at the end, 3 the same with the
//   index at the start 4 ..  one frame of a bytes codec
// Anything but an Error is a finding.

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/volume/zarr/array.h"
#include "craton/volume/zarr/codec.h"
#include "craton/volume/zarr/metadata.h"

namespace {

using namespace craton;
using namespace craton::volume::zarr;
using In = std::span<const std::byte>;

/// Answers every key with the same bytes.
class OneObject final : public store::ObjectStore {
 public:
  explicit OneObject(In bytes) : bytes_(bytes.begin(), bytes.end()) {}
  std::string uri() const override { return "fuzz://"; }
  std::optional<store::Bytes> get(std::string_view) override { return bytes_; }
  std::optional<store::Bytes> get_range(std::string_view, uint64_t offset,
                                        uint64_t length) override {
    if (offset > bytes_.size() || length > bytes_.size() - offset)
      fail(ErrorCode::kOutOfRange, "past the end");
    const auto begin = bytes_.begin() + static_cast<ptrdiff_t>(offset);
    return store::Bytes(begin, begin + static_cast<ptrdiff_t>(length));
  }
  std::optional<store::Bytes> get_suffix(std::string_view, uint64_t length) override {
    return store::Bytes(
        bytes_.end() - static_cast<ptrdiff_t>(std::min<uint64_t>(length, bytes_.size())),
        bytes_.end());
  }
  std::optional<store::ObjectInfo> head(std::string_view) override { return std::nullopt; }
  std::vector<store::ObjectInfo> list(std::string_view) override { return {}; }
  void put(std::string_view, In) override {}
  bool put_if_absent(std::string_view, In) override { return false; }
  std::unique_ptr<store::Upload> start_upload(std::string_view) override { return nullptr; }
  void remove(std::string_view) override {}

 private:
  store::Bytes bytes_;
};

/// What a harmless machine has; larger chunks are legal, and refused here only to keep the fuzzer
/// quick.
constexpr size_t kMostBytes = 1 << 20;

void fuzz_array(In input, bool v3) {
  const auto zero = std::find(input.begin(), input.end(), std::byte{0});
  const size_t length = static_cast<size_t>(zero - input.begin());
  const auto document = parse_json(input.first(length), "fuzz");
  ArrayMetadata metadata =
      v3 ? parse_array_v3(document, "fuzz") : parse_array_v2(document, nullptr, "fuzz");
  v3 ? to_json_v3(metadata) : to_json_v2(metadata);
  if (element_count(metadata.object_shape) > static_cast<int64_t>(kMostBytes) / metadata.type.size)
    return;
  const Array array(std::make_shared<OneObject>(input.subspan(std::min(input.size(), length + 1))),
                    "a", std::move(metadata));
  Bytes out(array.chunk_bytes());
  for (const int64_t n : array.grid())
    if (n == 0) return;
  array.read_chunk(std::vector<int64_t>(array.grid().size(), 0), out);
}

void fuzz_shard(In input, bool at_start) {
  static const DataType kFloat{Kind::kFloat, 4};
  static const std::vector<int64_t> kShape{16, 16};
  const auto make = [](const char* location) {
    return parse_codecs_v3(nlohmann::json::array({{{"name", "sharding_indexed"},
                                                   {"configuration",
                                                    {{"chunk_shape", {4, 4}},
                                                     {"codecs", {"bytes", "zstd"}},
                                                     {"index_codecs", {"bytes"}},
                                                     {"index_location", location}}}}}),
                           kShape, kFloat);
  };
  static const CodecChain kEnd = make("end"), kStart = make("start");
  Bytes out(16 * 16 * 4);
  decode_chunk(at_start ? kStart : kEnd, input, kShape, kFloat, Bytes(4), out);
}

void fuzz_frame(In input, unsigned which) {
  static constexpr const char* kCodecs[] = {"blosc",
                                            "zstd",
                                            "gzip",
                                            "numcodecs.zlib",
                                            "numcodecs.lz4",
                                            "numcodecs.bz2",
                                            "numcodecs.shuffle",
                                            "crc32c",
                                            "numcodecs.fletcher32"};
  static const DataType kFloat{Kind::kFloat, 4};
  static const std::vector<int64_t> kShape{8, 16};
  const char* codec = kCodecs[which % std::size(kCodecs)];
  const CodecChain chain = parse_codecs_v3(nlohmann::json::array({"bytes", codec}), kShape, kFloat);
  Bytes out(8 * 16 * 4);
  decode_chunk(chain, input, kShape, kFloat, {}, out);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const In input(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    if (data[0] < 2) {
      fuzz_array(input, data[0] == 0);
    } else if (data[0] < 4) {
      fuzz_shard(input, data[0] == 3);
    } else {
      fuzz_frame(input, data[0] - 4u);
    }
  } catch (const Error&) {
  }
  return 0;
}
