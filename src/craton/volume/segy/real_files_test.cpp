#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "craton/base/sha256.h"
#include "craton/volume/segy/fixture.h"
#include "craton/volume/segy/survey_report.h"

// Every SEG-Y file of the sample data: options, and either geometry and digest or the message.
// Digests are of the float grid in C order, dead traces 0; they were computed by an independent
// program, from the definition of the formats.

namespace craton::volume::segy {
namespace {

using ::testing::HasSubstr;

struct Expected {
  const char* files;     ///< separated by blanks
  const char* options;   ///< as on the command line
  const char* geometry;  ///< axes; empty: refused
  int64_t live = 0;
  const char* result = "";  ///< digest, or a part of the message
};

constexpr const char* kF3 =
    "inline 111..133 step 1 (23); crossline 875..892 step 1 (18); time 4..300 ms step 4 (75)";
constexpr const char* kF3Digest =
    "1938c7130e01e4119d61d865ee910066ac673845f8c0c5c0c6ea7a302a7dabc6";
constexpr const char* kSmall =
    "inline 1..5 step 1 (5); crossline 20..24 step 1 (5); time 0..196 ms step 4 (50)";
constexpr const char* kSmallDigest =
    "55aeda5f2202e4a045e653edd53b9246ffec7f5e8ec9ca2be6c490beb99e9f03";
constexpr const char* kTiny =
    "inline 1..3 step 1 (3); crossline 20..21 step 1 (2); time 0..3 ms step 1 (4)";
constexpr const char* kTinyDigest =
    "35fe8333ed2fdd1592ca1d542566cf9cf64b2295687e81dd1e0c930ae9eaee9c";
constexpr const char* kOneSampleDigest =
    "df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119";

const Expected kTable[] = {
    {"segyio/f3.sgy", "", kF3, 414, kF3Digest},
    {"segyio/f3-lsb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format1msb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format1lsb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format2lsb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format3msb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format5msb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format6msb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format7lsb.sgy", "", kF3, 414, kF3Digest},
    {"segyio/multiformats/Format8msb.sgy", "", kF3, 414,
     "e0d4444ffc35d5b062a2cde8159ad007151e7653dd5e6ea59a6375b2e180c6de"},
    {"segyio/multiformats/Format10msb.sgy", "", kF3, 414,
     "5a5197af85679e9d242fbd59f827c4cde35b81b9e26763e7e1d5b1eb44a59838"},
    {"segyio/multiformats/Format12lsb.sgy", "", kF3, 414,
     "354eb7ae6afd27da357445b3e37aa190d4f1b7e983dde4a6c1ad6eb497bd09b8"},
    {"segyio/small.sgy", "", kSmall, 25, kSmallDigest},
    {"segyio/small-lsb.sgy", "", kSmall, 25, kSmallDigest},
    {"segyio/acute-small.sgy", "", kSmall, 25, kSmallDigest},
    {"segyio/left-small.sgy", "", kSmall, 25, kSmallDigest},
    {"segyio/text-embed-null.sgy", "", kSmall, 25, kSmallDigest},
    {"segyio/rotated-small-rev2.sgy", "", kSmall, 25, kSmallDigest},
    {"segyio/small.su", "", "", 0, "looks like a Seismic Unix file"},
    {"segyio/small.su", "--su --inline 5 --crossline 21",
     "inline 1..5 step 1 (5); crossline 20..24 step 1 (5); sample 0..49 step 1 (50)", 25,
     kSmallDigest},
    {"segyio/tiny.sgy", "", kTiny, 6, kTinyDigest},
    {"segyio/stanzas-known-count.sgy", "", kTiny, 6, kTinyDigest},
    {"segyio/stanzas-unknown-count.sgy", "", kTiny, 6, kTinyDigest},
    {"segyio/broken.sgy", "", "", 0, "3 whole traces, then 68 bytes from byte 10768"},
    {"segyio/broken.sgy", "--lenient",
     "inline 1..2 step 1 (2); crossline 20..21 step 1 (2); time 0..3 ms step 1 (4)", 3,
     "f540ff73aab2155d3056f7cee6e67301d919bf6767fa3996d7c86d637eea8e72"},
    {"segyio/text.sgy", "", "", 0, "the file holds no traces"},
    {"segyio/multi-text.sgy", "", "cdp 0 (1); time 0 ms (1)", 1, kOneSampleDigest},
    {"segyio/interval-neg-bin-pos-trace.sgy", "", "cdp 0 (1); time 0 ms (1)", 1, kOneSampleDigest},
    {"segyio/interval-pos-bin-neg-trace.sgy", "", "cdp 0 (1); time 0 ms (1)", 1, kOneSampleDigest},
    {"segyio/delay-scalar.sgy", "", "cdp 1883 (1); time 1000..2000 ms step 4 (251)", 1,
     "f7565444699b7d557a12701677dde0a6649281c8a01ea1755a4c13fb6ca132ca"},
    {"segyio/trace-header-extensions.sgy", "", "cdp 20..21 step 1 (2); time 0..3 ms step 1 (4)", 2,
     "635ba3be5ccffd80f8577c8ba213daba02d494326171badea60bef8ed66d36c7"},
    {"segyio/1x1.sgy", "", "cdp 0 (1); offset 0..3 m step 1 (4); time 0..36 ms step 4 (10)", 4,
     "ca9dbfb227aaf1162316021c3b35affceb37e892399609cf416d10a25e30c826"},
    {"segyio/1xN.sgy", "",
     "cdp 0..5 step 1 (6); offset 0..3 m step 1 (4); time 0..36 ms step 4 (10)", 24,
     "a2b197cd88215e6d5af1eb96c842220b6d419fa70076a162ebedb24e6798b085"},
    {"segyio/small-ps.sgy", "",
     "inline 1..4 step 1 (4); crossline 1..3 step 1 (3); offset 1..2 m step 1 (2); time 0..36 ms "
     "step 4 (10)",
     24, "322cb36c8a1ff2e50343a012ae08d625bc9b5d3265c1fefcd9dfc490e7024a2f"},
    {"segyio/small-ps-dec-xl-off-inc-il.sgy", "",
     "inline 1..4 step 1 (4); crossline 1..3 step 1 (3); offset 1..2 m step 1 (2); time 0..36 ms "
     "step 4 (10)",
     24, "c3e993ac9b8a245b4e580560d8728cfaf089bd0bac7b5d1a9f7c60940e0f8c83"},
    {"segyio/shot-gather.sgy", "", "", 0, "inline bytes 189: always 0"},
    {"segyio/shot-gather.sgy", "--geometry traces",
     "trace 1..61 step 1 (61); time 0..24 ms step 1 (25)", 61,
     "01485478ba268ca069de7e77cbd19f131992bb106278c08cd05ab1f304b6bfb5"},
    {"segyio/viking_small.segy", "", "", 0,
     "126 cdp x 120 offset would have 15120 places for 480 traces"},
    {"segyio/viking_small.segy", "--inline 9 --crossline 13",
     "inline 3..6 step 1 (4); crossline 1..120 step 1 (120); time 0..2396 ms step 4 (600)", 480,
     "b94838f190ab5c926d0d466b41103a3e2b77d420999e904cc356f689d1c90c4a"},
    {"segyio/viking_small.segy", "--geometry traces",
     "trace 1..480 step 1 (480); time 0..2396 ms step 4 (600)", 480,
     "b94838f190ab5c926d0d466b41103a3e2b77d420999e904cc356f689d1c90c4a"},
    // Headers full of counters: what reads is right, and the delays that are none are refused
    // first.
    {"segyio/increment.sgy", "", "", 0, "--delay ignore"},
    {"segyio/increment.sgy", "--geometry traces --start 0",
     "trace 1..5 step 1 (5); sample 0..3 step 1 (4)", 5,
     "5b6fb58e61fa475939767d68a446f97f1bff02c0e5935a3ea8bb51e6515783d8"},
    {"segyio/long.sgy", "", "", 0, "--delay ignore"},
    {"segyio/long.sgy", "--geometry traces --start 0",
     "trace 1..3 step 1 (3); time 0..59999 ms step 1 (60000)", 3,
     "49eca618d1321c0c585f285fe413c7c91a2b27c93412baa4eaccc077a310b27e"},
    {"segysak/f3-withdead.sgy", "", kF3, 239,
     "830f8dce878b64b47e50f226d6de7d40c7e7b8a66b2368efc14bfb25a9a256ae"},
    {"segysak/test-geometry.sgy", "",
     "inline 10090..10150 step 1 (61); crossline 2150..2351 step 1 (202); time 0..12 ms step 4 (4)",
     12322, "35d64a2c103b9775bcd0fe4d71b54a2ac037e9d7b12053524fd7cd83e72f9b5d"},
    {"segysak/volve10-migvel-depth-sub3d.sgy", "--domain depth",
     "inline 10087..10155 step 4 (18); crossline 2148..2352 step 4 (52); depth 0..4500 m step 20 "
     "(226)",
     936, "c1aa3138e44afcf138584944145ee7841a79624bc2e7280c0504788d21b7632e"},
    {"segysak/volve10r12-full-z-il10117sub.sgy", "",
     "cdp 1..202 step 1 (202); time 4..4500 ms step 4 (1125)", 202,
     "2b46ba521411197fd42b0501af970b77f3b1b955a24b99acef94697ede60efdf"},
    {"segysak/f3-iline/f3-iline-133.sgy", "",
     "cdp 875..892 step 1 (18); time 4..300 ms step 4 (75)", 18,
     "06a1c720f1efe6216eb981ccacfde4dc5b2a37696fcd08033982b456f983c545"},
    {"segysak/f3-iline/f3-iline-111.sgy segysak/f3-iline/f3-iline-112.sgy "
     "segysak/f3-iline/f3-iline-113.sgy "
     "segysak/f3-iline/f3-iline-114.sgy segysak/f3-iline/f3-iline-115.sgy "
     "segysak/f3-iline/f3-iline-133.sgy",
     "",
     "inline 111..133 irregular (6); crossline 875..892 step 1 (18); time 4..300 ms step 4 (75)",
     108, "b884c99a3486919eda515a33c734a19bf1ff0140d8444f3b179676914e89755d"},
    {"penobscot/penobscot_xl1155.sgy", "",
     "cdp 1000..1600 step 1 (601); time 0..6000 ms step 4 (1501)", 601,
     "896a38c1af0725b449058e8135fda771949884ccd7b4213a5bdd24b43ec3e8c7"},
    {"npra/31_81_PR.SGY", "", "cdp 101..634 step 1 (534); time 0..6000 ms step 4 (1501)", 534,
     "f37bce9650fab9475a90b6c5005ed71d2de3f8352797df2e4c9b111ab93ba055"},
    {"xtgeo/cube_w_deadtraces.segy", "",
     "inline 1021..1050 step 1 (30); crossline 960..1000 step 1 (41); time 1000..1012 ms step 4 "
     "(4)",
     574, "3780c3659a9f5c7de2a6a563b2d70c962941a1f8ac86bad2ae616479a75fb5b8"},
    {"xtgeo/ex1_missing_traces_75x71x26.segy", "",
     "inline 11352..11500 step 2 (75); crossline 2442..2582 step 2 (71); time 0..100 ms step 4 "
     "(26)",
     4938, "4e2fdf3bb4ec0a0ad1db72df333006a2a8fc30bb74f2c9287bf090641a0d1e5f"},
};

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  for (char c : std::string(text) + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  return out;
}

IngestOptions parse_options(std::string_view text) {
  IngestOptions options;
  const auto all = words(text);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& name = all[i];
    const auto value = [&] { return all.at(++i); };
    if (name == "--su") options.read.su = true;
    if (name == "--lenient") options.read.lenient = true;
    if (name == "--inline") options.fields.inline_field = parse_header_field(value());
    if (name == "--crossline") options.fields.crossline_field = parse_header_field(value());
    if (name == "--inline" || name == "--crossline") options.geometry.own_fields = true;
    if (name == "--geometry" && value() == "traces") options.geometry.kind = GeometryKind::kTraces;
    if (name == "--start") options.geometry.start = std::stod(value());
    if (name == "--domain")
      options.geometry.domain = value() == "depth" ? Domain::kDepth : Domain::kTime;
  }
  return options;
}

std::string digest(const Ingested& out) {
  std::vector<float> samples = out.grid->samples;
  samples.insert(samples.end(), out.grid->integers.begin(), out.grid->integers.end());
  Sha256 hash;
  hash.update(std::as_bytes(std::span(samples)));
  return hash.hex_digest();
}

std::string describe_axes(const Geometry& geometry) {
  std::string out;
  for (const Axis& axis : geometry.axes)
    out += (out.empty() ? "" : "; ") + axis.name + " " + describe(axis);
  return out;
}

class RealFile : public ::testing::TestWithParam<Expected> {};

TEST_P(RealFile, HasTheRightValuesOrTheRightMessage) {
  const Expected& expected = GetParam();
  const auto folder = test_data();
  if (folder.empty()) GTEST_SKIP() << "the sample data (shared/data) are not here";
  std::vector<std::filesystem::path> files;
  for (const std::string& name : words(expected.files)) files.push_back(folder / name);
  const IngestOptions options = parse_options(expected.options);
  if (*expected.geometry == '\0') {
    EXPECT_THAT(error_of([&] { ingest_into_memory(open_sources(files, options.read), options); }),
                HasSubstr(expected.result));
    return;
  }
  const Ingested out = ingest_into_memory(open_sources(files, options.read), options);
  EXPECT_EQ(describe_axes(out.report.geometry), expected.geometry);
  EXPECT_EQ(out.report.geometry.live, expected.live);
  EXPECT_EQ(digest(out), expected.result);
}

INSTANTIATE_TEST_SUITE_P(All, RealFile, ::testing::ValuesIn(kTable));

TEST(RealFiles, AllOfTheSampleDataAreInTheTable) {
  const auto folder = test_data();
  if (folder.empty()) GTEST_SKIP() << "the sample data (shared/data) are not here";
  std::string table;
  for (const Expected& row : kTable) table += std::string(row.files) + " ";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string end = entry.path().extension().string();
    if (end != ".sgy" && end != ".segy" && end != ".SGY" && end != ".su") continue;
    const std::string name = std::filesystem::relative(entry.path(), folder).string();
    EXPECT_THAT(table, HasSubstr(name + " "));
  }
}

TEST(RealFiles, TruthOfOtherWritersMatchesExactly) {
  const auto folder = test_data();
  if (folder.empty()) GTEST_SKIP() << "the sample data (shared/data) are not here";
  for (const auto& [truth, file] :
       {std::pair{"mdio_v0/f3_v0.truth.npy", "segyio/f3.sgy"},
        {"mdio_v0/xtgeo_missing_v0.truth.npy", "xtgeo/ex1_missing_traces_75x71x26.segy"},
        {"mdio_v1_layout/f3_zarr3.mdio.truth.npy", "segyio/f3.sgy"},
        {"mdio_v1_layout/f3_withdead_zarr2.mdio.truth.npy", "segysak/f3-withdead.sgy"}}) {
    const auto bytes = runtime::read_file(folder / truth);
    const std::vector<std::filesystem::path> files = {folder / file};
    const Ingested out = ingest_into_memory(open_sources(files, {}));
    const size_t count = out.grid->samples.size();
    ASSERT_GT(bytes.size(), 4 * count);
    std::vector<float> samples(count);
    std::memcpy(samples.data(), bytes.data() + bytes.size() - 4 * count, 4 * count);
    const size_t per_trace = count / out.grid->live.size();
    size_t different = 0;
    for (size_t i = 0; i < count; ++i) {
      // Of dead traces the one layout says 0, the other NaN.
      const bool live = out.grid->live[i / per_trace] != 0;
      const float expected = !live && std::isnan(samples[i]) ? 0.0f : samples[i];
      different +=
          std::bit_cast<uint32_t>(expected) == std::bit_cast<uint32_t>(out.grid->samples[i]) ? 0
                                                                                             : 1;
    }
    EXPECT_EQ(different, 0u) << truth;
  }
}

TEST(RealFiles, TextHeadersAreReadable) {
  const auto folder = test_data();
  if (folder.empty()) GTEST_SKIP() << "the sample data (shared/data) are not here";
  for (const auto& [file, encoding, line] :
       {std::tuple{"penobscot/penobscot_xl1155.sgy", TextEncoding::kAscii,
                   "C02  Survey: 'Penobscot'"},
        {"segyio/delay-scalar.sgy", TextEncoding::kAscii, "C 2"},
        {"segyio/f3.sgy", TextEncoding::kEbcdic, "C 2 This file is a cropped copy of the F3 block"},
        {"segysak/test-geometry.sgy", TextEncoding::kEbcdic, "C 2 Name: ST10010ZDC12"},
        {"xtgeo/cube_w_deadtraces.segy", TextEncoding::kAscii, "C 2  ......"}}) {
    const FileSource source(folder / file);
    const FileFacts facts = inspect(source);
    EXPECT_EQ(facts.text_encoding, encoding) << file;
    std::vector<std::byte> raw(kTextHeaderBytes);
    source.read(0, raw);
    EXPECT_THAT(text_lines(raw, encoding)[1], HasSubstr(line)) << file;
  }
}

TEST(RealFiles, DetectorTellsIbmFromIeee) {
  const auto folder = test_data();
  if (folder.empty()) GTEST_SKIP() << "the sample data (shared/data) are not here";
  for (const Expected& row : kTable) {
    if (*row.geometry == '\0' || std::string_view(row.options) != "") continue;
    const FileSource source(folder / words(row.files)[0]);
    const FileFacts facts = inspect(source);
    const SampleProbe probe = probe_samples(source, facts);
    EXPECT_FALSE(probe.looks_ieee) << row.files;
    EXPECT_FALSE(probe.looks_ibm) << row.files;
    if (facts.format != kIeeeFloat) continue;
    ReadOptions as_ibm;
    as_ibm.format = kIbmFloat;
    EXPECT_TRUE(probe_samples(source, inspect(source, as_ibm)).looks_ieee) << row.files;
  }
}

}  // namespace
}  // namespace craton::volume::segy
