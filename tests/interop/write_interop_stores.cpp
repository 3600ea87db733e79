// Writes the same small survey as MDIO stores of every kind that Craton writes, below the folder
// named on the command line, and `expected.json`, which the independent readers compare with.
// Dead traces are null there. All samples are multiples of 1/4; stores of integers hold 4 times as
// much.

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/volume/volume.h"
#include "craton/volume/zarr/zfp.h"

namespace {

using namespace craton;
using nlohmann::json;

constexpr int64_t kInlines = 9, kCrosslines = 11, kSamples = 21;

volume::Axis axis(const char* name, int64_t size, double first, double step,
                  const char* unit = "") {
  volume::Axis out{name, unit};
  for (int64_t i = 0; i < size; ++i)
    out.coordinates.push_back(first + step * static_cast<double>(i));
  return out;
}

float value_at(int64_t i, int64_t j, int64_t k) {
  return static_cast<float>(i * 1000 + j * 30 + k) * 0.25f - 3.0f;
}
bool is_dead(int64_t i, int64_t j) { return (i + j) % 4 == 1; }

volume::VolumeSpec make_spec() {
  volume::VolumeSpec spec;
  spec.name = "PostStack3DTime";
  spec.axes = {axis("inline", kInlines, 101, 2), axis("crossline", kCrosslines, 300, 1),
               axis("time", kSamples, 4, 4, "ms")};
  spec.chunk_shape = {4, 5, 8};
  spec.trace_header_bytes = 240;
  for (int64_t i = 0; i < kInlines; ++i)
    for (int64_t j = 0; j < kCrosslines; ++j) {
      spec.cdp_x.push_back(600000.5 + 12.5 * static_cast<double>(i));
      spec.cdp_y.push_back(6000000.0 + 25.0 * static_cast<double>(j));
    }
  return spec;
}

void write_store(const std::string& path, const volume::VolumeSpec& spec) {
  auto writer = volume::create_volume(path, spec, true);
  for (int64_t a = 0; a < 3; ++a)
    for (int64_t b = 0; b < 3; ++b) {
      std::vector<std::byte> headers(20 * 240);
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 5; ++j) {
          const int64_t numbers[] = {101 + 2 * (a * 4 + i),
                                     300 + b * 5 + j};  // inline at 189, crossline at 193
          for (int n = 0; n < 2; ++n)
            for (int byte = 0; byte < 4; ++byte)
              headers[static_cast<size_t>((i * 5 + j) * 240 + 188 + 4 * n + byte)] =
                  static_cast<std::byte>(numbers[n] >> (24 - 8 * byte));
        }
      writer->write_trace_headers(std::vector<int64_t>{a, b}, headers);
      for (int64_t c = 0; c < 3; ++c) {
        std::vector<float> samples;
        std::vector<uint8_t> live;
        for (int64_t i = a * 4; i < a * 4 + 4; ++i)
          for (int64_t j = b * 5; j < b * 5 + 5; ++j) {
            live.push_back(!is_dead(i, j));
            for (int64_t k = c * 8; k < c * 8 + 8; ++k)
              samples.push_back(value_at(i, j, k) *
                                (spec.sample_type.starts_with("float") ? 1.0f : 4.0f));
          }
        writer->write_chunk(std::vector<int64_t>{a, b, c}, samples, live);
      }
    }
  volume::SegyFileHeader header;
  header.text = "C 1 interoperability";
  header.binary = R"({"sample_interval":4000})";
  header.raw_binary.assign(400, std::byte{1});
  writer->set_segy_file_header(header);
  writer->finish();
}

json expected() {
  json out{{"shape", {kInlines, kCrosslines, kSamples}},
           {"inline0", 101},
           {"time1", 8},
           {"cdp_x0", 600000.5},
           {"name", "PostStack3DTime"}};
  json values = json::array(), mask = json::array();
  int64_t count = 0;
  for (int64_t i = 0; i < kInlines; ++i)
    for (int64_t j = 0; j < kCrosslines; ++j) {
      mask.push_back(!is_dead(i, j));
      for (int64_t k = 0; k < kSamples; ++k) {
        values.push_back(is_dead(i, j) ? json() : json(value_at(i, j, k)));
        count += !is_dead(i, j) && value_at(i, j, k) != 0;
      }
    }
  out["values"] = std::move(values);
  out["mask"] = std::move(mask);
  out["count"] = count;
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_interop_stores FOLDER\n");
    return 2;
  }
  try {
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder);
    using Change = std::function<void(volume::VolumeSpec&)>;
    const std::pair<const char*, Change> stores[] = {
        {"v3", [](auto&) {}},
        {"v3_lz4", [](auto& spec) { spec.compressor = "lz4"; }},
        {"v3_none", [](auto& spec) { spec.compressor = "none"; }},
        {"v3_sharded",
         [](auto& spec) {
           spec.shard_shape = {8, 10, 16};
         }},
        {"v3_int16", [](auto& spec) { spec.sample_type = "int16"; }},
        {"v2", [](auto& spec) { spec.zarr_format = 2; }},
        {"v2_lz4",
         [](auto& spec) {
           spec.zarr_format = 2;
           spec.compressor = "lz4";
         }},
        {"v2_int16",
         [](auto& spec) {
           spec.zarr_format = 2;
           spec.sample_type = "int16";
         }},
        {"v2_float64",
         [](auto& spec) {
           spec.zarr_format = 2;
           spec.sample_type = "float64";
         }},
    };
    for (const auto& [name, change] : stores) {
      volume::VolumeSpec spec = make_spec();
      change(spec);
      write_store((folder / name).string() + ".mdio", spec);
    }
    if (volume::zarr::zfp_is_available()) {
      volume::VolumeSpec spec = make_spec();
      spec.zarr_format = 2;
      spec.zfp_tolerance = 0.125;
      write_store((folder / "v2_zfp.mdio").string(), spec);
    }
    runtime::write_file_atomically(folder / "expected.json", expected().dump());
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
