#include "craton/volume/segy/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>

#include "craton/base/philox.h"
#include "craton/runtime/file.h"
#include "craton/volume/segy/fixture.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {
namespace {

using ::testing::HasSubstr;

class RoundTrip : public ::testing::Test {
 protected:
  /// SEG-Y bytes to a store and back; the bytes of the new file.
  std::vector<std::byte> there_and_back(const std::vector<std::byte>& bytes,
                                        const IngestOptions& options, const ExportOptions& back) {
    const auto file = folder_.path() / "in.sgy";
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return there_and_back(std::vector<std::filesystem::path>{file}, options, back);
  }
  std::vector<std::byte> there_and_back(const std::vector<std::byte>& bytes,
                                        const IngestOptions& options) {
    const ExportOptions back;
    return there_and_back(bytes, options, back);
  }
  std::vector<std::byte> there_and_back(const std::vector<std::byte>& bytes) {
    const IngestOptions options;
    return there_and_back(bytes, options);
  }
  std::vector<std::byte> there_and_back(const std::vector<std::filesystem::path>& files) {
    const IngestOptions options;
    const ExportOptions back;
    return there_and_back(files, options, back);
  }
  std::vector<std::byte> there_and_back(const std::vector<std::filesystem::path>& files,
                                        IngestOptions options, ExportOptions back) {
    options.replace = true;
    options.threads = 2;
    ingest(files, store(), options);
    volume_ = open_volume(store());
    back.replace = true;
    back.threads = 2;
    report_ = export_segy(*volume_, out(), back);
    return runtime::read_file(out());
  }
  /// In memory: what is tested here is what comes back, not where it lies.
  static std::string store() { return "memory://segy-round-trip"; }
  std::filesystem::path out() const { return folder_.path() / "out.sgy"; }

  runtime::TemporaryDirectory folder_;
  std::shared_ptr<const Volume> volume_;
  ExportReport report_;
};

/// Where two files differ first; -1 if nowhere.
int64_t first_difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i >= a.size() || i >= b.size() || a[i] != b[i]) return static_cast<int64_t>(i);
  }
  return -1;
}

/// Traces with headers full of noise (but for the numbers), and any words as samples.
Fixture noisy(ByteOrder order, int format) {
  Fixture file(order, format);
  file.samples = 70;
  const Philox random(static_cast<uint64_t>(format), RandomPurpose::kTest);
  file.add_grid(9, 7);
  std::swap(file.traces[3], file.traces[40]);
  for (size_t t = 0; t < file.traces.size(); ++t) {
    for (size_t b = 216; b < 240; ++b)
      file.traces[t][b] = static_cast<std::byte>(random.bits(t * 100 + b));
    for (size_t b = 240; b < file.traces[t].size(); ++b) {
      file.traces[t][b] = static_cast<std::byte>(random.bits(100'000 + t * 1000 + b));
    }
  }
  for (size_t i = 0; i < 100; ++i) file.text[2000 + i] = static_cast<std::byte>(i * 3);
  return file;
}

TEST_F(RoundTrip, AnyBitsInTheLosslessFormatsComeBack) {
  for (int format : {kIbmFloat, kInt32, kInt16, kIeeeFloat, kInt8}) {
    for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
      IngestOptions options;
      options.read.format = format;
      options.chunk_shape = {4, 3, 32};
      const auto bytes = noisy(order, format).bytes();
      EXPECT_EQ(first_difference(there_and_back(bytes, options), bytes), -1) << format;
      EXPECT_EQ(report_.clamped, 0) << format;
    }
  }
}

TEST_F(RoundTrip, HolesOrderExtensionsAndTrailerComeBack) {
  Fixture file;
  file.extra_headers = 1;
  const Philox random(12, RandomPurpose::kTest);
  for (uint64_t i = 0; i < 60; ++i) {
    const auto place = static_cast<int32_t>((i * 37) % 80);
    file.add_trace(place / 8, place % 8);
  }
  file.in_binary<uint8_t>(3501, 2)
      .in_binary<uint8_t>(3502, 1)
      .in_binary<uint16_t>(3507, 1)
      .in_binary<int32_t>(3529, 1);
  file.in_binary<int16_t>(3505, 1);
  file.extended = encode_text(std::vector<std::string>{"((SEG: EndText))"});
  file.trailer = encode_text(std::vector<std::string>{"((SEG: Trailer))"});
  file.in_trace<int16_t>(5, 29, 2).raw_samples(5, std::vector<uint32_t>(8, 0));
  const auto bytes = file.bytes();
  EXPECT_EQ(first_difference(there_and_back(bytes), bytes), -1);
  EXPECT_EQ(report_.traces, 60);
}

TEST_F(RoundTrip, SeismicUnixComesBackAsSuch) {
  Fixture file(ByteOrder::kLittle, kIeeeFloat);
  file.add_grid(4, 3);
  std::vector<std::byte> bytes;
  for (const auto& trace : file.traces) bytes.insert(bytes.end(), trace.begin(), trace.end());
  IngestOptions options;
  options.read.su = true;
  EXPECT_EQ(first_difference(there_and_back(bytes, options), bytes), -1);
}

TEST_F(RoundTrip, GathersAndShiftedTracesComeBack) {
  Fixture gathers;
  for (int32_t i = 0; i < 24; ++i) gathers.add_trace(i / 12, i / 4 % 3, 100 * (i % 4));
  EXPECT_EQ(first_difference(there_and_back(gathers.bytes()), gathers.bytes()), -1);
  Fixture shifted;
  shifted.add_grid(3, 3).in_trace<int16_t>(4, 109, 8).in_trace<int16_t>(7, 109, -12);
  IngestOptions options;
  options.geometry.delay = DelayPolicy::kShift;
  EXPECT_EQ(first_difference(there_and_back(shifted.bytes(), options), shifted.bytes()), -1);
}

TEST_F(RoundTrip, RealFilesComeBack) {
  const auto folder = test_data();
  if (folder.empty()) GTEST_SKIP() << "the sample data (shared/data) are not here";
  for (const char* name : {"segyio/f3.sgy",
                           "segyio/f3-lsb.sgy",
                           "segyio/multiformats/Format1msb.sgy",
                           "segyio/multiformats/Format3msb.sgy",
                           "segyio/multiformats/Format1lsb.sgy",
                           "segyio/multiformats/Format2lsb.sgy",
                           "segyio/multiformats/Format5msb.sgy",
                           "segyio/multiformats/Format8msb.sgy",
                           "segyio/rotated-small-rev2.sgy",
                           "segyio/trace-header-extensions.sgy",
                           "segyio/stanzas-unknown-count.sgy",
                           "segyio/small-ps-dec-xl-off-inc-il.sgy",
                           "segysak/f3-withdead.sgy",
                           "segysak/volve10r12-full-z-il10117sub.sgy",
                           "penobscot/penobscot_xl1155.sgy",
                           "npra/31_81_PR.SGY",
                           "xtgeo/cube_w_deadtraces.segy",
                           "xtgeo/ex1_missing_traces_75x71x26.segy",
                           "segyio/small.sgy",
                           "segyio/small-lsb.sgy",
                           "segyio/acute-small.sgy",
                           "segyio/left-small.sgy",
                           "segyio/text-embed-null.sgy",
                           "segyio/multi-text.sgy",
                           "segyio/stanzas-known-count.sgy",
                           "segyio/tiny.sgy",
                           "segyio/1x1.sgy",
                           "segyio/1xN.sgy",
                           "segyio/small-ps.sgy",
                           "segyio/delay-scalar.sgy",
                           "segyio/interval-neg-bin-pos-trace.sgy",
                           "segyio/interval-pos-bin-neg-trace.sgy",
                           "segysak/test-geometry.sgy",
                           "segysak/volve10-migvel-depth-sub3d.sgy",
                           "segysak/f3-iline/f3-iline-133.sgy"}) {
    EXPECT_EQ(first_difference(there_and_back(std::vector<std::filesystem::path>{folder / name}),
                               runtime::read_file(folder / name)),
              -1)
        << name;
  }
}

TEST_F(RoundTrip, VolumesOfOtherOriginGetHeadersMade) {
  VolumeSpec spec;
  spec.name = "PostStack3DTime";
  spec.axes = {{"inline", "", {10, 12, 14}},
               {"crossline", "", {5, 6}},
               {"time", "ms", {100, 104, 108, 112}}};
  spec.chunk_shape = {3, 2, 4};
  spec.cdp_x = {1.5, 2.5, 3.5, 4.5, 5.5, 6.5};
  spec.cdp_y = {10, 20, 30, 40, 50, 60};
  std::vector<float> samples(24);
  for (size_t i = 0; i < 24; ++i) samples[i] = static_cast<float>(i) * 0.37f;
  auto writer = create_volume(store(), spec, true);
  writer->write_chunk(std::vector<int64_t>{0, 0, 0}, samples,
                      std::vector<uint8_t>{1, 1, 1, 0, 1, 1});
  writer->finish();
  export_segy(*open_volume(store()), out(), {});
  const std::vector<std::filesystem::path> files = {out()};
  const Ingested back = ingest_into_memory(open_sources(files, {}));
  EXPECT_EQ(back.report.geometry.axes[0].coordinates, spec.axes[0].coordinates);
  EXPECT_EQ(back.report.geometry.axes[1].coordinates, spec.axes[1].coordinates);
  EXPECT_EQ(back.report.geometry.axes[2].coordinates, spec.axes[2].coordinates);
  EXPECT_EQ(back.grid->live, (std::vector<uint8_t>{1, 1, 1, 0, 1, 1}));
  EXPECT_EQ(back.grid->spec.cdp_x[4], 5.5);
  EXPECT_EQ(back.at({2, 1, 3}), samples[23]);
  EXPECT_TRUE(back.report.remarks.empty());
}

TEST_F(RoundTrip, HeadersOfAnotherVolumeAndAnotherFormat) {
  Fixture file;
  file.add_grid(3, 4);
  file.traces.erase(file.traces.begin() + 5);  // a hole, filled below
  there_and_back(file.bytes());
  const std::string filled = "memory://segy-round-trip-filled";
  VolumeSpec spec;
  spec.axes = volume_->info().axes;
  spec.chunk_shape = {3, 4, 8};
  auto writer = create_volume(filled, spec, true);
  std::vector<float> samples(96, 2.5f);
  writer->write_chunk(std::vector<int64_t>{0, 0, 0}, samples);
  writer->finish();
  ExportOptions options;
  options.replace = true;
  options.headers_from = volume_.get();
  options.format = kIeeeFloat;
  const ExportReport report = export_segy(*open_volume(filled), out(), options);
  EXPECT_EQ(report.traces, 12);
  EXPECT_EQ(report.made_headers, 1);
  const std::vector<std::filesystem::path> files = {out()};
  const Ingested back = ingest_into_memory(open_sources(files, {}));
  EXPECT_EQ(back.report.files[0].format, kIeeeFloat);
  EXPECT_EQ(back.report.geometry.live, 12);
  EXPECT_EQ(back.at({1, 1, 4}), 2.5f);
}

TEST_F(RoundTrip, ExistingFileIsKeptUnlessToldOtherwise) {
  Fixture file;
  file.add_grid(2, 2);
  there_and_back(file.bytes());
  EXPECT_THAT(error_of([&] { export_segy(*volume_, out(), {}); }), HasSubstr("already exists"));
  std::atomic<bool> cancel{true};
  ExportOptions options;
  options.replace = true;
  options.cancel = &cancel;
  EXPECT_THAT(error_of([&] { export_segy(*volume_, out(), options); }), HasSubstr("interrupted"));
  EXPECT_EQ(runtime::read_file(out()), file.bytes());
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    entries += entry.exists() ? 1 : 0;
  EXPECT_EQ(entries, 2u);  // in.sgy, out.sgy
}

TEST_F(RoundTrip, AllZeroVolumeHasStatisticsWithoutDivision) {
  Fixture file;
  file.add_grid(2, 2);
  for (size_t t = 0; t < 4; ++t) file.raw_samples(t, std::vector<uint32_t>(8, 0));
  there_and_back(file.bytes());
  EXPECT_EQ(volume_->info().statistics.count, 0);
  EXPECT_EQ(volume_->info().statistics.standard_deviation(), 0);
  EXPECT_EQ(volume_->info().statistics.mean(), 0);
}

TEST_F(RoundTrip, RandomAccessIsSequentialAccess) {
  Fixture file;
  file.samples = 50;
  file.add_grid(11, 9);
  IngestOptions options;
  options.chunk_shape = {4, 4, 16};
  there_and_back(file.bytes(), options);
  const Philox random(13, RandomPurpose::kTest);
  for (uint64_t i = 0; i < 200; ++i) {
    const auto il = static_cast<int64_t>(random.below(3 * i, 11)),
               xl = static_cast<int64_t>(random.below(3 * i + 1, 9));
    const auto s = static_cast<int64_t>(random.below(3 * i + 2, 50));
    float value = 0;
    volume_->read(std::vector<int64_t>{il, xl, s}, std::vector<int64_t>{1, 1, 1},
                  std::span(&value, 1));
    EXPECT_EQ(value,
              Fixture::value(static_cast<int32_t>(1 + il), static_cast<int32_t>(10 + xl), s));
  }
}

TEST_F(RoundTrip, FilesOfDifferentByteOrderKeepReadableHeaders) {
  Fixture one, two(ByteOrder::kLittle);
  for (int32_t x = 0; x < 3; ++x) {
    one.add_trace(1, x).in_trace<int32_t>(static_cast<size_t>(x), 73, 100 + x);
    two.add_trace(2, x).in_trace<int32_t>(static_cast<size_t>(x), 73, 200 + x);
  }
  const auto a = folder_.path() / "a.sgy", b = folder_.path() / "b.sgy";
  runtime::write_file_atomically(a, one.bytes());
  runtime::write_file_atomically(b, two.bytes());
  there_and_back(std::vector<std::filesystem::path>{a, b});
  const std::vector<std::filesystem::path> files = {out()};
  const Ingested back = ingest_into_memory(open_sources(files, {}));
  EXPECT_EQ(back.report.geometry.live, 6);
  EXPECT_EQ(back.at({1, 2, 7}), Fixture::value(2, 2, 7));
  EXPECT_EQ(
      load_at<int32_t>(std::span(back.grid->headers).subspan(5 * 240, 240), 73, ByteOrder::kBig),
      202);
}

}  // namespace
}  // namespace craton::volume::segy
