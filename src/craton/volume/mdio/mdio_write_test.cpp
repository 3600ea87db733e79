#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/object_store.h"
#include "craton/volume/volume.h"

namespace craton::volume {
namespace {

namespace fs = std::filesystem;

Axis make_axis(const std::string& name, int64_t size, double first, double step,
               const std::string& unit = "") {
  Axis axis{name, unit};
  for (int64_t i = 0; i < size; ++i)
    axis.coordinates.push_back(first + step * static_cast<double>(i));
  return axis;
}

/// A new place in memory: most tests need no file system, and syncing one takes its time.
std::string fresh_uri() {
  static int counter = 0;
  return "memory://mdio-writer-" + std::to_string(++counter);
}

VolumeSpec make_spec(std::vector<int64_t> chunks = {8, 16, 32}) {
  VolumeSpec spec;
  spec.name = "PostStack3DTime";
  spec.axes = {make_axis("inline", 20, 100, 2), make_axis("crossline", 33, 500, 1),
               make_axis("time", 75, 4, 4, "ms")};
  spec.chunk_shape = std::move(chunks);
  for (int64_t t = 0; t < 20 * 33; ++t) {
    spec.cdp_x.push_back(6e5 + 12.5 * static_cast<double>(t));
    spec.cdp_y.push_back(6e6 - static_cast<double>(t));
  }
  return spec;
}

/// A value for every sample that no other sample has.
float value_at(std::span<const int64_t> shape, std::span<const int64_t> at) {
  int64_t n = 0;
  for (size_t i = 0; i < shape.size(); ++i) n = n * shape[i] + at[i];
  return static_cast<float>(n % 7 == 0 ? 0 : n - 1000) * 0.5f;
}

bool dead_at(int64_t trace) { return trace % 5 == 2; }

/// Calls body(at) for every index of `shape`.
void for_each(std::span<const int64_t> shape,
              const std::function<void(std::span<const int64_t>)>& body) {
  std::vector<int64_t> at(shape.size(), 0);
  while (true) {
    body(at);
    size_t axis = shape.size();
    while (axis > 0 && ++at[axis - 1] == shape[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

int64_t trace_of(std::span<const int64_t> shape, std::span<const int64_t> at) {
  int64_t n = 0;
  for (size_t i = 0; i + 1 < shape.size(); ++i) n = n * shape[i] + at[i];
  return n;
}

std::vector<int64_t> shape_of(const VolumeSpec& spec) {
  std::vector<int64_t> shape;
  for (const Axis& axis : spec.axes) shape.push_back(axis.size());
  return shape;
}

/// Writes every chunk, several at a time.
void write_all(VolumeWriter& writer, const VolumeSpec& spec, bool with_dead) {
  const auto shape = shape_of(spec);
  const auto chunk = spec.chunk_shape;
  std::vector<int64_t> grid;
  std::vector<std::vector<int64_t>> chunks;
  for (size_t i = 0; i < shape.size(); ++i) grid.push_back((shape[i] + chunk[i] - 1) / chunk[i]);
  for_each(grid, [&](auto at) { chunks.emplace_back(at.begin(), at.end()); });
  runtime::parallel_for(chunks.size(), 3, [&](size_t i) {
    std::vector<float> samples;
    std::vector<uint8_t> live;
    for_each(chunk, [&](auto inner) {
      std::vector<int64_t> at(shape.size());
      bool inside = true;
      for (size_t a = 0; a < at.size(); ++a) {
        at[a] = chunks[i][a] * chunk[a] + inner[a];
        inside = inside && at[a] < shape[a];
      }
      samples.push_back(inside ? value_at(shape, at) : 12345.0f);
      if (inner.back() == 0) live.push_back(!(with_dead && dead_at(trace_of(shape, at))));
    });
    writer.write_chunk(chunks[i], samples,
                       with_dead ? std::span<const uint8_t>(live) : std::span<const uint8_t>());
  });
}

void expect_volume(const Volume& volume, const VolumeSpec& spec, bool with_dead,
                   double tolerance = 0) {
  const auto shape = shape_of(spec);
  ASSERT_EQ(volume.info().shape(), shape);
  for (size_t i = 0; i < spec.axes.size(); ++i) {
    EXPECT_EQ(volume.info().axes[i].name, spec.axes[i].name);
    EXPECT_EQ(volume.info().axes[i].unit, spec.axes[i].unit);
    EXPECT_EQ(volume.info().axes[i].coordinates, spec.axes[i].coordinates);
  }
  std::vector<float> all(
      std::accumulate(shape.begin(), shape.end(), size_t{1},
                      [](size_t a, int64_t b) { return a * static_cast<size_t>(b); }));
  volume.read(std::vector<int64_t>(shape.size(), 0), shape, all);
  size_t i = 0, wrong = 0;
  int64_t count = 0;
  double sum = 0;
  for_each(shape, [&](auto at) {
    const bool dead = with_dead && dead_at(trace_of(shape, at));
    const float expected = dead ? 0.0f : value_at(shape, at);
    wrong += !(std::fabs(all[i++] - expected) <= tolerance);
    count += expected != 0;
    sum += static_cast<double>(expected);
  });
  EXPECT_EQ(wrong, 0u);
  int64_t dead_traces = 0;
  for (size_t t = 0; t < volume.live().size(); ++t) {
    EXPECT_EQ(volume.live()[t], !(with_dead && dead_at(static_cast<int64_t>(t)))) << t;
    dead_traces += !volume.live()[t];
  }
  EXPECT_EQ(dead_traces > 0, with_dead);
  const Statistics& statistics = volume.info().statistics;
  EXPECT_EQ(statistics.count, count);
  EXPECT_NEAR(statistics.sum, sum, 1e-6 * std::fabs(sum));
  EXPECT_EQ(std::accumulate(statistics.histogram_counts.begin(), statistics.histogram_counts.end(),
                            int64_t{0}),
            count);
}

TEST(MdioWriter, WritesWhatItReads3D) {
  runtime::TemporaryDirectory folder;
  const std::string uri = (folder.path() / "a.mdio").string();
  const VolumeSpec spec = make_spec();
  auto writer = create_volume(uri, spec);
  write_all(*writer, spec, true);
  writer->set_attribute("processing", R"(["migrated"])");
  EXPECT_FALSE(fs::exists(uri));
  writer->finish();
  writer.reset();
  const auto volume = open_volume(uri);
  EXPECT_EQ(volume->info().format, "MDIO v1 (Zarr v3)");
  EXPECT_EQ(volume->info().name, "PostStack3DTime");
  EXPECT_EQ(volume->info().chunk_shape, spec.chunk_shape);
  EXPECT_EQ(volume->info().codec, "blosc zstd");
  EXPECT_NE(volume->info().attributes.find("migrated"), std::string::npos);
  expect_volume(*volume, spec, true);
  EXPECT_EQ(volume->read_array("cdp_x")->numbers(), spec.cdp_x);
  EXPECT_EQ(volume->read_array("cdp_y")->numbers(), spec.cdp_y);
  EXPECT_FALSE(volume->read_array("nothing").has_value());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(MdioWriter, WritesAndReads2DAndPrestack) {
  for (const bool prestack : {false, true}) {
    VolumeSpec spec;
    spec.axes = {make_axis("cdp", 60, 1001, 1)};
    if (prestack) spec.axes.push_back(make_axis("offset", 7, 100, 250, "m"));
    spec.axes.push_back(make_axis("time", 50, 0, 0.5, "ms"));
    spec.chunk_shape = prestack ? std::vector<int64_t>{16, 3, 50} : std::vector<int64_t>{16, 32};
    spec.cdp_x.assign(60, 7.5);
    spec.cdp_y.assign(60, -1.0);
    const std::string uri = fresh_uri();
    auto writer = create_volume(uri, spec);
    write_all(*writer, spec, true);
    writer->finish();
    expect_volume(*open_volume(uri), spec, true);
    EXPECT_EQ(open_volume(uri)->read_array("cdp_x")->shape, std::vector<int64_t>{60});
  }
}

TEST(MdioWriter, EveryFormatOptionReadsBack) {
  struct Case {
    const char* what;
    std::function<void(VolumeSpec&)> change;
    double tolerance = 0;
  };
  const Case cases[] = {
      {"lz4", [](VolumeSpec& s) { s.compressor = "lz4"; }},
      {"none", [](VolumeSpec& s) { s.compressor = "none"; }},
      {"v2", [](VolumeSpec& s) { s.zarr_format = 2; }},
      {"shards",
       [](VolumeSpec& s) {
         s.shard_shape = {16, 32, 64};
       }},
      {"one shard",
       [](VolumeSpec& s) {
         s.shard_shape = {24, 48, 96};
       }},
      {"float64", [](VolumeSpec& s) { s.sample_type = "float64"; }},
      {"zfp", [](VolumeSpec& s) { s.zfp_tolerance = 0.01; }, 0.01},
      {"zfp v2",
       [](VolumeSpec& s) {
         s.zfp_tolerance = 0.01;
         s.zarr_format = 2;
       },
       0.01},
      {"zfp shards",
       [](VolumeSpec& s) {
         s.zfp_tolerance = 0.01;
         s.shard_shape = {16, 16, 32};
       },
       0.01},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    VolumeSpec spec = make_spec();
    c.change(spec);
    const std::string uri = fresh_uri();
    auto writer = create_volume(uri, spec);
    write_all(*writer, spec, true);
    writer->finish();
    expect_volume(*open_volume(uri), spec, true, c.tolerance);
  }
}

TEST(MdioWriter, MemoryStoreShowsNothingBeforeFinish) {
  const VolumeSpec spec = make_spec();
  {
    auto writer = create_volume("memory://half-written", spec);
    write_all(*writer, spec, false);
    EXPECT_THROW(open_volume("memory://half-written"), Error);
  }
  EXPECT_TRUE(store::open_store("memory://half-written")->list("").empty());
  auto writer = create_volume("memory://half-written", spec);
  write_all(*writer, spec, false);
  writer->finish();
  expect_volume(*open_volume("memory://half-written"), spec, false);
  EXPECT_THROW(create_volume("memory://half-written", spec), Error);
  auto again = create_volume("memory://half-written", spec, true);
  write_all(*again, spec, true);
  again->finish();
  expect_volume(*open_volume("memory://half-written"), spec, true);
}

TEST(MdioWriter, AnUnfinishedVolumeLeavesNothing) {
  runtime::TemporaryDirectory folder;
  const VolumeSpec spec = make_spec();
  write_all(*create_volume((folder.path() / "a.mdio").string(), spec), spec, false);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(MdioWriter, ReplacesOnlyWhenAsked) {
  runtime::TemporaryDirectory folder;
  const std::string uri = (folder.path() / "a.mdio").string();
  const VolumeSpec spec = make_spec();
  create_volume(uri, spec)->finish();
  try {
    create_volume(uri, spec);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kAlreadyExists);
  }
  auto writer = create_volume(uri, spec, true);
  write_all(*writer, spec, false);
  writer->finish();
  expect_volume(*open_volume(uri), spec, false);
}

TEST(MdioWriter, ChunksReadAloneAndPadded) {
  const std::string uri = fresh_uri();
  const VolumeSpec spec = make_spec();
  auto writer = create_volume(uri, spec);
  write_all(*writer, spec, true);
  writer->finish();
  const auto volume = open_volume(uri);
  const auto shape = shape_of(spec);
  std::vector<float> chunk(8 * 16 * 32);
  for_each(std::vector<int64_t>{3, 3, 3}, [&](auto index) {
    volume->read_chunk(index, chunk);
    size_t i = 0, wrong = 0;
    for_each(spec.chunk_shape, [&](auto inner) {
      std::vector<int64_t> at(3);
      bool inside = true;
      for (size_t a = 0; a < 3; ++a) {
        at[a] = index[a] * spec.chunk_shape[a] + inner[a];
        inside = inside && at[a] < shape[a];
      }
      const float expected = inside && !dead_at(trace_of(shape, at)) ? value_at(shape, at) : 0.0f;
      wrong += chunk[i++] != expected;
    });
    EXPECT_EQ(wrong, 0u);
  });
  EXPECT_THROW(volume->read_chunk(std::vector<int64_t>{3, 0, 0}, chunk), Error);
}

TEST(MdioWriter, IntegersAreExact) {
  const std::string uri = fresh_uri();
  VolumeSpec spec;
  spec.axes = {make_axis("cdp", 3, 1, 1), make_axis("time", 4, 0, 4, "ms")};
  spec.sample_type = "int32";
  const int32_t samples[] = {0, -2147483647 - 1, 2147483647, 16777217, 9, 9, 9, 9, 1, 2,
                             3, 16777219};
  const uint8_t live[] = {1, 0, 1};
  auto writer = create_volume(uri, spec);
  writer->write_chunk_raw(std::vector<int64_t>{0, 0}, std::as_bytes(std::span(samples)), live);
  writer->finish();
  const auto volume = open_volume(uri);
  EXPECT_EQ(volume->info().sample_type, "int32");
  int32_t back[12];
  volume->read_raw(std::vector<int64_t>{0, 0}, std::vector<int64_t>{3, 4},
                   std::as_writable_bytes(std::span(back)));
  for (int i = 0; i < 12; ++i) EXPECT_EQ(back[i], i / 4 == 1 ? 0 : samples[i]) << i;
}

TEST(MdioWriter, KeepsTraceAndFileHeaders) {
  for (const int format : {3, 2}) {
    const std::string uri = fresh_uri();
    VolumeSpec spec;
    spec.zarr_format = format;
    spec.axes = {make_axis("inline", 3, 1, 1), make_axis("crossline", 5, 1, 1),
                 make_axis("time", 4, 0, 4, "ms")};
    spec.chunk_shape = {2, 4, 4};
    spec.trace_header_bytes = 240;
    auto writer = create_volume(uri, spec);
    write_all(*writer, spec, false);
    std::vector<std::byte> all(3 * 5 * 240);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 7 + i / 240);
    for_each(std::vector<int64_t>{2, 2}, [&](auto chunk) {
      std::vector<std::byte> part(2 * 4 * 240);
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 4; ++j) {
          const int64_t il = chunk[0] * 2 + i, xl = chunk[1] * 4 + j;
          if (il < 3 && xl < 5)
            std::copy_n(all.begin() + (il * 5 + xl) * 240, 240, part.begin() + (i * 4 + j) * 240);
        }
      writer->write_trace_headers(chunk, part);
    });
    SegyFileHeader header;
    header.text = "C 1 line one\nC 2 line two";
    header.binary = R"({"sample_interval":4000})";
    header.raw_binary.assign(400, std::byte{7});
    header.raw_text.assign(3200, std::byte{0x40});
    header.raw_extended.assign(6400, std::byte{1});
    header.more = R"({"format":1})";
    writer->set_segy_file_header(header);
    writer->write_array("ibm_words", {"uint32", {3}, std::vector<std::byte>(12, std::byte{5})},
                        R"({"why":"unnormalised"})");
    EXPECT_THROW(writer->write_array("inline", {"uint8", {1}, {std::byte{1}}}), Error);
    writer->finish();
    const auto volume = open_volume(uri);
    ASSERT_EQ(volume->trace_header_bytes(), 240u);
    std::vector<std::byte> back(all.size());
    volume->read_trace_headers(std::vector<int64_t>{0, 0}, std::vector<int64_t>{3, 5}, back);
    EXPECT_EQ(back, all);
    const auto kept = volume->segy_file_header();
    ASSERT_TRUE(kept.has_value());
    EXPECT_EQ(kept->text, header.text);
    EXPECT_EQ(kept->binary, header.binary);
    EXPECT_EQ(kept->raw_binary, header.raw_binary);
    EXPECT_EQ(kept->raw_text, header.raw_text);
    EXPECT_EQ(kept->raw_extended, header.raw_extended);
    EXPECT_EQ(kept->more, header.more);
    EXPECT_EQ(volume->read_array("ibm_words")->numbers(), std::vector<double>(3, 0x05050505));
    const auto headers = volume->read_array("headers");
    ASSERT_TRUE(headers.has_value());
    // The first field is bytes 1-4 of the trace header, big-endian in the file.
    const auto first = static_cast<uint32_t>(all[0]) << 24 | static_cast<uint32_t>(all[1]) << 16 |
                       static_cast<uint32_t>(all[2]) << 8 | static_cast<uint32_t>(all[3]);
    uint32_t found;
    std::memcpy(&found, headers->bytes.data(), 4);
    EXPECT_EQ(found, first);
  }
}

TEST(MdioWriter, AllZeroVolumesHaveStatisticsWithoutDivision) {
  for (const int format : {3, 2}) {
    VolumeSpec spec = make_spec();
    spec.zarr_format = format;
    const std::string uri = fresh_uri();
    auto writer = create_volume(uri, spec);
    const std::vector<float> zeros(8 * 16 * 32);
    for_each(std::vector<int64_t>{3, 3, 3}, [&](auto at) { writer->write_chunk(at, zeros); });
    writer->finish();
    const auto volume = open_volume(uri);
    const Statistics& s = volume->info().statistics;
    EXPECT_EQ(s.count, 0);
    EXPECT_EQ(s.mean(), 0);
    EXPECT_EQ(s.standard_deviation(), 0);
    EXPECT_EQ(s.min, 0);
    EXPECT_EQ(s.max, 0);
    EXPECT_TRUE(s.histogram_counts.empty());
    std::vector<float> block(4, 1.0f);
    volume->read(std::vector<int64_t>{0, 0, 0}, std::vector<int64_t>{1, 1, 4}, block);
    EXPECT_EQ(block, std::vector<float>(4, 0.0f));
  }
}

TEST(MdioWriter, RefusesWhatCannotBeMeant) {
  runtime::TemporaryDirectory folder;
  const auto code = [&](const std::function<void(VolumeSpec&)>& change) {
    VolumeSpec spec = make_spec();
    change(spec);
    try {
      create_volume((folder.path() / "x.mdio").string(), spec)->finish();
    } catch (const Error& e) {
      EXPECT_FALSE(std::string(e.what()).empty());
      return e.code();
    }
    return ErrorCode::kInternal;
  };
  EXPECT_EQ(code([](VolumeSpec& s) { s.axes.resize(1); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.axes[1].name = "inline"; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.axes[1].name = "../up"; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.axes[1].coordinates.clear(); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.chunk_shape = {8, 8}; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.chunk_shape = {8, 0, 8}; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.compressor = "rar"; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.sample_type = "bool"; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.sample_type = "float128"; }), ErrorCode::kUnsupported);
  EXPECT_EQ(code([](VolumeSpec& s) { s.shard_shape = {12, 16, 32}; }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code([](VolumeSpec& s) { s.cdp_x.pop_back(); }), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(MdioWriter, TwoWritersWithAnyOrderGiveTheSameStatistics) {
  const VolumeSpec spec = make_spec();
  std::string first;
  for (int round = 0; round < 3; ++round) {
    const std::string uri = "memory://order" + std::to_string(round);
    auto writer = create_volume(uri, spec);
    write_all(*writer, spec, true);
    writer->finish();
    const Statistics s = open_volume(uri)->info().statistics;
    const std::string text = fmt::format("{} {:a} {:a} {}", s.count, s.sum, s.sum_squares,
                                         fmt::join(s.histogram_counts, ","));
    if (round == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

TEST(OpenVolume, SaysWhatIsNotThere) {
  runtime::TemporaryDirectory folder;
  const auto message = [](const std::string& uri, const std::string& variable = "") {
    try {
      open_volume(uri, variable);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message((folder.path() / "none").string()).find("there is no volume at"),
            std::string::npos);
  EXPECT_NE(message(folder.path().string()).find("zarr.json"), std::string::npos);
  std::ofstream(folder.path() / "x.sgy") << "text";
  EXPECT_NE(message((folder.path() / "x.sgy").string()).find("craton volume ingest"),
            std::string::npos);
  const std::string uri = (folder.path() / "a.mdio").string();
  create_volume(uri, make_spec())->finish();
  EXPECT_NE(message(uri, "velocity").find("cdp_x"), std::string::npos) << message(uri, "velocity");
}

TEST(MdioWrite, OnLustreTheSamplesAreStripedForTheirShards) {
  const runtime::TemporaryDirectory folder;
  const std::string asked = (folder.path() / "asked").string(), path = std::getenv("PATH");
  runtime::write_file_atomically(folder.path() / "lfs",
                                 "#!/bin/sh\necho \"$@\" >> " + asked + "\n");
  fs::permissions(folder.path() / "lfs", fs::perms::owner_all);
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  ::setenv("CRATON_LUSTRE", "yes", 1);
  VolumeSpec spec = make_spec();
  create_volume((folder.path() / "chunks").string(), spec);
  spec.axes[2] = make_axis("time", 8192, 0, 4, "ms");
  spec.chunk_shape = {16, 32, 1024};
  spec.shard_shape = {64, 64, 8192};
  create_volume((folder.path() / "shards").string(), spec);
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("CRATON_LUSTRE");
  std::ifstream lines(asked);
  std::string chunks, shards;
  std::getline(lines, chunks);
  std::getline(lines, shards);
  EXPECT_TRUE(chunks.starts_with("setstripe -c 1 ") && chunks.ends_with("/amplitude")) << chunks;
  EXPECT_TRUE(shards.starts_with("setstripe -c 4 -S 4M ") && shards.ends_with("/amplitude"))
      << shards;
}

}  // namespace
}  // namespace craton::volume
