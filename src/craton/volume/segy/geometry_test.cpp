#include "craton/volume/segy/geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "craton/base/philox.h"
#include "craton/volume/segy/fixture.h"
#include "craton/volume/segy/survey_report.h"

namespace craton::volume::segy {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names(const Ingested& out) {
  std::vector<std::string> all;
  for (const Axis& axis : out.report.geometry.axes) all.push_back(axis.name);
  return all;
}

IngestOptions with_chunks(std::vector<int64_t> chunks) {
  IngestOptions options;
  options.chunk_shape = std::move(chunks);
  return options;
}

/// Every sample of a made grid at its place.
void expect_grid(const Ingested& out, const std::vector<int32_t>& inlines,
                 const std::vector<int32_t>& crosslines, int64_t samples) {
  for (size_t i = 0; i < inlines.size(); ++i) {
    for (size_t x = 0; x < crosslines.size(); ++x) {
      for (int64_t s = 0; s < samples; ++s) {
        ASSERT_EQ(out.at({static_cast<int64_t>(i), static_cast<int64_t>(x), s}),
                  Fixture::value(inlines[i], crosslines[x], s))
            << i << " " << x << " " << s;
      }
    }
  }
}

// --- where traces go ---

TEST(Grid, HolesAreDeadAndEverythingElseInPlace) {
  Fixture file;
  for (int32_t i = 1; i <= 4; ++i) {
    for (int32_t x = 10; x <= 15; ++x) {
      if ((i + x) % 3 != 0) file.add_trace(i, x);
    }
  }
  const Ingested out = ingest_into_memory({file.source()}, with_chunks({2, 4, 3}));
  EXPECT_EQ(out.report.geometry.live, 16);
  for (int32_t i = 1; i <= 4; ++i) {
    for (int32_t x = 10; x <= 15; ++x) {
      const bool live = (i + x) % 3 != 0;
      EXPECT_EQ(out.grid->live[static_cast<size_t>((i - 1) * 6 + x - 10)], live ? 1 : 0);
      EXPECT_EQ(out.at({i - 1, x - 10, 5}), live ? Fixture::value(i, x, 5) : 0);
    }
  }
}

TEST(Grid, AnyOrderInTheFileGivesTheSameVolume) {
  std::vector<std::pair<int32_t, int32_t>> places;
  for (int32_t i = 1; i <= 5; ++i) {
    for (int32_t x = 10; x <= 16; ++x) places.emplace_back(i, x);
  }
  const Philox random(7, RandomPurpose::kTest);
  for (uint64_t round = 0; round < 4; ++round) {
    if (round == 1) std::reverse(places.begin(), places.end());
    if (round >= 2) {
      for (size_t i = places.size(); i > 1; --i)
        std::swap(places[i - 1], places[random.below(100 * round + i, i)]);
    }
    Fixture file;
    for (const auto& [i, x] : places) file.add_trace(i, x);
    const Ingested out = ingest_into_memory({file.source()}, with_chunks({2, 3, 5}));
    expect_grid(out, {1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15, 16}, 8);
  }
}

TEST(Grid, CrosslineSortedFileWithOwnBytesIsNotTransposed) {
  Fixture file;
  for (int32_t x = 10; x <= 14; ++x) {
    for (int32_t i = 1; i <= 3; ++i) {
      file.add_trace(i, x);
      file.in_trace<int32_t>(file.traces.size() - 1, 221, i)
          .in_trace<int32_t>(file.traces.size() - 1, 225, x);
      file.in_trace<int32_t>(file.traces.size() - 1, 189, 0)
          .in_trace<int32_t>(file.traces.size() - 1, 193, 0);
    }
  }
  IngestOptions options;
  options.fields.inline_field = parse_header_field("221");
  options.fields.crossline_field = parse_header_field("225");
  options.geometry.own_fields = true;
  const Ingested out = ingest_into_memory({file.source()}, options);
  EXPECT_EQ(out.grid->shape(), (std::vector<int64_t>{3, 5, 8}));
  expect_grid(out, {1, 2, 3}, {10, 11, 12, 13, 14}, 8);
}

TEST(Grid, IrregularStepsKeepTheirNumbers) {
  Fixture file;
  for (int32_t i : {3, 5, 11}) {
    for (int32_t x : {100, 104, 106, 120}) file.add_trace(i, x);
  }
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.report.geometry.axes[0].coordinates, (std::vector<double>{3, 5, 11}));
  EXPECT_EQ(out.report.geometry.axes[1].coordinates, (std::vector<double>{100, 104, 106, 120}));
  expect_grid(out, {3, 5, 11}, {100, 104, 106, 120}, 8);
}

TEST(Grid, NegativeNumbersSurvive) {
  Fixture file;
  for (int32_t i : {-3, -1, 1}) {
    for (int32_t x : {-200, -199}) file.add_trace(i, x);
  }
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.report.geometry.axes[0].coordinates, (std::vector<double>{-3, -1, 1}));
  EXPECT_EQ(out.report.geometry.axes[1].coordinates, (std::vector<double>{-200, -199}));
}

struct FieldCase {
  const char* field;
  std::function<void(Fixture&, size_t, int32_t)> write;
};
class AnyField : public ::testing::TestWithParam<int> {};
TEST_P(AnyField, ByteAndTypeNumberTheInlines) {
  const std::vector<FieldCase> cases = {
      {"1:int8",
       [](Fixture& f, size_t t, int32_t v) { f.in_trace<int8_t>(t, 1, static_cast<int8_t>(v)); }},
      {"221:int16", [](Fixture& f, size_t t,
                       int32_t v) { f.in_trace<int16_t>(t, 221, static_cast<int16_t>(v)); }},
      {"239:uint16", [](Fixture& f, size_t t,
                        int32_t v) { f.in_trace<uint16_t>(t, 239, static_cast<uint16_t>(v)); }},
      {"237", [](Fixture& f, size_t t, int32_t v) { f.in_trace<int32_t>(t, 237, v); }},
      {"233:int64", [](Fixture& f, size_t t, int32_t v) { f.in_trace<int64_t>(t, 233, v); }},
      {"73:float32",
       [](Fixture& f, size_t t, int32_t v) { f.in_trace<float>(t, 73, static_cast<float>(v)); }},
      {"81:float64", [](Fixture& f, size_t t, int32_t v) { f.in_trace<double>(t, 81, v); }},
      {"181:ibm32",
       [](Fixture& f, size_t t, int32_t v) {
         f.in_trace<uint32_t>(t, 181, float_to_ibm(static_cast<float>(v)));
       }},
      {"energy_source_point_num",
       [](Fixture& f, size_t t, int32_t v) { f.in_trace<int32_t>(t, 17, v); }},
  };
  const FieldCase& c = cases[static_cast<size_t>(GetParam())];
  for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
    Fixture file(order);
    for (int32_t i = 0; i < 12; ++i) {
      file.add_trace(i / 4 + 1, i % 4);
      file.in_trace<int32_t>(static_cast<size_t>(i), 189, 0);
      c.write(file, static_cast<size_t>(i), i / 4 + 1);
    }
    IngestOptions options;
    options.fields.inline_field = parse_header_field(c.field);
    options.geometry.own_fields = true;
    const Ingested out = ingest_into_memory({file.source()}, options);
    EXPECT_EQ(out.report.geometry.axes[0].coordinates, (std::vector<double>{1, 2, 3})) << c.field;
    expect_grid(out, {1, 2, 3}, {0, 1, 2, 3}, 8);
  }
}
INSTANTIATE_TEST_SUITE_P(Fields, AnyField, ::testing::Range(0, 9));

TEST(Grid, FieldsThatCannotBeAreErrorsOfTheUser) {
  EXPECT_THAT(error_of([] { parse_header_field("inlinee"); }),
              HasSubstr("expected a byte position"));
  EXPECT_THAT(error_of([] { parse_header_field("189:int17"); }), HasSubstr("unknown type"));
  EXPECT_THAT(error_of([] { parse_header_field("0"); }), HasSubstr("out of range"));
  Fixture file;
  file.add_grid(2, 2);
  IngestOptions options;
  options.fields.inline_field = {238, FieldType::kInt32};
  EXPECT_THAT(error_of([&] { ingest_into_memory({file.source()}, options); }),
              HasSubstr("past the trace header"));
}

TEST(Grid, ManyThreadsAndSlabsGiveTheSameVolume) {
  Fixture file;
  file.samples = 300;
  file.add_grid(20, 18);
  for (size_t threads : {1, 4}) {
    for (uint64_t memory : {uint64_t{1}, uint64_t{64} << 20}) {
      IngestOptions options = with_chunks({7, 5, 16});
      options.threads = threads;
      options.memory_bytes = memory;
      const Ingested out = ingest_into_memory({file.source()}, options);
      std::vector<int32_t> inlines, crosslines;
      for (int32_t i = 0; i < 20; ++i) inlines.push_back(1 + i);
      for (int32_t x = 0; x < 18; ++x) crosslines.push_back(10 + x);
      expect_grid(out, inlines, crosslines, 300);
      EXPECT_TRUE(out.grid->finished);
    }
  }
}

TEST(Grid, AbsurdOneIsRefusedBeforeItIsAllocated) {
  Fixture file;
  for (int32_t i = 0; i < 200; ++i) file.add_trace(i * 1000 + (i == 7 ? 1 : 0), (i / 2) * 777);
  file.in_trace<int32_t>(3, 189, 0);
  const std::string error = error_of([&] { ingest_into_memory({file.source()}); });
  EXPECT_THAT(error, HasSubstr("places for 200 traces"));
  EXPECT_THAT(error, HasSubstr("--max-sparsity"));
}

TEST(Grid, HeadersFullOfNoiseNeverCrashOrAllocateMuch) {
  const Philox random(8, RandomPurpose::kTest);
  for (uint64_t round = 0; round < 50; ++round) {
    Fixture file(round % 2 ? ByteOrder::kBig : ByteOrder::kLittle);
    file.add_grid(6, 6);
    for (size_t t = 0; t < file.traces.size(); ++t) {
      for (size_t b = 0; b < 240; ++b) {
        if (random.uniform(round * 100000 + t * 240 + b) < 0.3f) {
          file.traces[t][b] = static_cast<std::byte>(random.bits(round * 77 + t * 1000 + b));
        }
      }
    }
    IngestOptions options;
    if (round % 3 == 0) options.fields.inline_field = {189, FieldType::kFloat32};
    if (round % 5 == 0) options.geometry.delay = DelayPolicy::kShift;
    const std::string error = error_of([&] { ingest_into_memory({file.source()}, options); });
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

// --- lines and gathers ---

TEST(Line, IsNumberedByWhateverVaries) {
  Fixture by_cdp;
  for (int32_t i = 0; i < 9; ++i) by_cdp.add_trace(0, 0);
  const Ingested cdp = ingest_into_memory({by_cdp.source()});
  EXPECT_EQ(names(cdp), (std::vector<std::string>{"cdp", "time"}));
  EXPECT_EQ(cdp.report.geometry.axes[0].coordinates.back(), 9);
  EXPECT_EQ(cdp.grid->spec.name, "PostStack2DTime");

  Fixture by_inline;
  for (int32_t i = 0; i < 9; ++i) by_inline.add_trace(100 + 2 * i, 1155);
  const Ingested line = ingest_into_memory({by_inline.source()});
  EXPECT_EQ(line.report.geometry.axes[0].coordinates[1], 102);
  EXPECT_TRUE(line.remarks("all traces lie on crossline 1155"));

  IngestOptions as_3d;
  as_3d.geometry.kind = GeometryKind::k3d;
  EXPECT_EQ(ingest_into_memory({by_inline.source()}, as_3d).grid->shape(),
            (std::vector<int64_t>{9, 1, 8}));
}

TEST(Line, AcrossTheSurveyIsNoGrid) {
  Fixture file;
  for (int32_t i = 0; i < 30; ++i) file.add_trace(500 + i, 900 - 2 * i);
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.grid->shape(), (std::vector<int64_t>{30, 8}));
  EXPECT_TRUE(out.remarks("never repeat"));
}

TEST(Line, WithoutAnyNumbersNeedsTheOption) {
  Fixture file;
  for (int32_t i = 0; i < 12; ++i) file.add_trace(0, 0);
  file.in_all<int32_t>(21, 0);
  const std::string error = error_of([&] { ingest_into_memory({file.source()}); });
  EXPECT_THAT(error, HasSubstr("inline bytes 189: always 0"));
  EXPECT_THAT(error, HasSubstr("--geometry traces"));
  IngestOptions options;
  options.geometry.kind = GeometryKind::kTraces;
  EXPECT_EQ(ingest_into_memory({file.source()}, options).grid->shape(),
            (std::vector<int64_t>{12, 8}));
}

TEST(Report, NamesTheBytesThatWouldMakeAGrid) {
  Fixture file;
  for (int32_t i = 0; i < 12; ++i) {
    file.add_trace(0, 0)
        .in_trace<int32_t>(static_cast<size_t>(i), 9, 50 + i / 4)
        .in_trace<int32_t>(static_cast<size_t>(i), 13, 1 + i % 4);
  }
  file.in_all<int32_t>(21, 0);
  const std::vector<SourceFile> files = {file.source()};
  const SurveyReport report = survey(files, {}, {}, 2);
  ASSERT_FALSE(report.fitting.empty());
  EXPECT_EQ(report.fitting[0].first.byte, 9);
  EXPECT_EQ(report.fitting[0].second.byte, 13);
  bool found = false;
  for (const CandidateField& c : report.candidates) {
    if (c.field.byte != 9) continue;
    found = true;
    EXPECT_EQ(c.min, 50);
    EXPECT_EQ(c.max, 52);
    EXPECT_EQ(c.distinct, 3);
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(to_text(report), HasSubstr("--inline 9 --crossline 13"));
  EXPECT_THAT(to_json(report), HasSubstr("\"geometry\": null"));
}

TEST(Gathers, OffsetsBecomeAnAxisAnyOrder) {
  Fixture file;
  for (int32_t offset : {300, 100, 200}) {
    for (int32_t x : {12, 10, 11}) {
      for (int32_t i : {2, 1}) file.add_trace(i, x, offset);
    }
  }
  const Ingested out = ingest_into_memory({file.source()}, with_chunks({2, 2, 2, 4}));
  EXPECT_EQ(names(out), (std::vector<std::string>{"inline", "crossline", "offset", "time"}));
  EXPECT_EQ(out.grid->spec.name, "PreStackCdpOffset3DTime");
  for (int32_t i = 0; i < 2; ++i) {
    for (int32_t x = 0; x < 3; ++x) {
      for (int32_t o = 0; o < 3; ++o) {
        EXPECT_EQ(out.at({i, x, o, 6}), Fixture::value(1 + i, 10 + x, 6 + 100 * (o + 1)));
      }
    }
  }
}

TEST(Gathers, AnglesByOwnBytesAlsoOn2D) {
  Fixture file;
  for (int32_t cdp = 0; cdp < 4; ++cdp) {
    for (int16_t angle : {5, 15, 25}) {
      file.add_trace(0, 0).in_trace<int32_t>(file.traces.size() - 1, 21, cdp + 100);
      file.in_trace<int16_t>(file.traces.size() - 1, 221, angle);
    }
  }
  IngestOptions options;
  options.fields.offset_field = parse_header_field("221:int16");
  options.geometry.use_offset = true;
  options.geometry.gather_axis = "angle";
  const Ingested out = ingest_into_memory({file.source()}, options);
  EXPECT_EQ(names(out), (std::vector<std::string>{"cdp", "angle", "time"}));
  EXPECT_EQ(out.report.geometry.axes[1].coordinates, (std::vector<double>{5, 15, 25}));
  EXPECT_EQ(out.grid->spec.name, "PreStackCdpAngle2DTime");
}

TEST(Duplicates, AreRefusedKeptFirstOrKeptLast) {
  Fixture file;
  file.add_grid(2, 3);
  file.add_trace(1, 11);
  file.raw_samples(6, {float_to_ibm(77)});
  const std::string error = error_of([&] { ingest_into_memory({file.source()}); });
  EXPECT_THAT(error, HasSubstr("1 traces share their place"));
  EXPECT_THAT(error, HasSubstr("trace 7 at inline 1, crossline 11"));
  EXPECT_THAT(error, HasSubstr("--duplicates first or last"));
  IngestOptions options;
  options.geometry.duplicates = Duplicates::kFirst;
  const Ingested first = ingest_into_memory({file.source()}, options);
  EXPECT_EQ(first.at({0, 1, 0}), Fixture::value(1, 11, 0));
  EXPECT_EQ(first.report.geometry.duplicates, 1);
  options.geometry.duplicates = Duplicates::kLast;
  EXPECT_EQ(ingest_into_memory({file.source()}, options).at({0, 1, 0}), 77);
}

TEST(Files, OfOneSurveyBecomeOneVolume) {
  Fixture one, two(ByteOrder::kLittle, kIeeeFloat);
  for (int32_t x = 10; x < 14; ++x) {
    one.add_trace(1, x).add_trace(3, x);
    two.add_trace(2, x).add_trace(4, x);
  }
  const Ingested out = ingest_into_memory({one.source(), two.source()}, with_chunks({3, 3, 3}));
  expect_grid(out, {1, 2, 3, 4}, {10, 11, 12, 13}, 8);

  Fixture other;
  other.samples = 9;
  other.add_trace(9, 10);
  EXPECT_THAT(error_of([&] {
                ingest_into_memory({one.source({}, "a.sgy"), other.source({}, "b.sgy")});
              }),
              HasSubstr("a.sgy has 8 samples of 4000 us, b.sgy has 9"));
}

// --- time, coordinates, dead traces ---

TEST(Time, StartsAtTheDelayWithItsScalar) {
  for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
    Fixture file(order);
    file.add_grid(2, 2).in_all<int16_t>(109, 10000).in_all<int16_t>(215, -10);
    const Axis time = ingest_into_memory({file.source()}).report.geometry.axes.back();
    EXPECT_EQ(time.coordinates.front(), 1000);
    EXPECT_EQ(time.coordinates.back(), 1028);
    EXPECT_EQ(time.unit, "ms");
    file.in_all<int16_t>(109, -100).in_all<int16_t>(215, 0);
    EXPECT_EQ(ingest_into_memory({file.source()}).report.geometry.axes.back().coordinates.front(),
              -100);
  }
}

TEST(Time, DelaysThatDifferAreRefusedIgnoredOrShifted) {
  Fixture file;
  file.add_grid(2, 2).in_trace<int16_t>(3, 109, 12);
  EXPECT_THAT(error_of([&] { ingest_into_memory({file.source()}); }), HasSubstr("--delay shift"));
  IngestOptions options;
  options.geometry.delay = DelayPolicy::kIgnore;
  EXPECT_EQ(ingest_into_memory({file.source()}, options).grid->shape().back(), 8);
  options.geometry.delay = DelayPolicy::kShift;
  options.chunk_shape = {2, 2, 4};
  const Ingested out = ingest_into_memory({file.source()}, options);
  EXPECT_EQ(out.grid->shape().back(), 11);
  EXPECT_EQ(out.at({1, 1, 2}), 0);
  EXPECT_EQ(out.at({1, 1, 3}), Fixture::value(2, 11, 0));
  EXPECT_EQ(out.at({1, 1, 10}), Fixture::value(2, 11, 7));
  EXPECT_EQ(out.at({0, 0, 7}), Fixture::value(1, 10, 7));
  EXPECT_EQ(out.at({0, 0, 8}), 0);
}

TEST(Time, DepthAndOwnStart) {
  Fixture file;
  file.add_grid(2, 2).in_binary<int16_t>(3255, 2);
  IngestOptions options;
  options.geometry.domain = Domain::kDepth;
  options.geometry.start = 500;
  const Axis depth = ingest_into_memory({file.source()}, options).report.geometry.axes.back();
  EXPECT_EQ(depth.name, "depth");
  EXPECT_EQ(depth.unit, "ft");
  EXPECT_EQ(depth.coordinates[1], 504);
}

TEST(Coordinates, ScalarDividesMultipliesOrIsOne) {
  struct Case {
    int16_t scalar;
    double x;
  };
  for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
    for (const Case& c : {Case{-100, 6201.25}, Case{-10, 62012.5}, Case{0, 620125}, Case{1, 620125},
                          Case{10, 6201250}, Case{82, 620125}}) {
      Fixture file(order);
      file.add_grid(2, 2).in_all<int32_t>(181, 620125).in_all<int16_t>(71, c.scalar);
      for (size_t t = 0; t < 4; ++t)
        file.in_trace<int32_t>(t, 185, 1000 * static_cast<int32_t>(t + 1));
      const Ingested out = ingest_into_memory({file.source()});
      EXPECT_EQ(out.grid->spec.cdp_x.at(0), c.x) << c.scalar;
      EXPECT_EQ(out.remarks("no power of ten"), c.scalar == 82);
    }
  }
}

TEST(Coordinates, SmallestIntegerIsNoCoordinate) {
  Fixture file;
  file.add_grid(2, 2).in_all<int32_t>(181, 5).in_all<int32_t>(185, 6).in_trace<int32_t>(1, 181, 7);
  file.in_trace<int32_t>(2, 181, INT32_MIN).in_trace<int32_t>(2, 185, INT32_MIN);
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_TRUE(std::isnan(out.grid->spec.cdp_x[2]));
  EXPECT_EQ(out.grid->spec.cdp_x[1], 7);
  EXPECT_TRUE(out.remarks("1 traces have no coordinates"));
}

TEST(Coordinates, SameEverywhereAreSomethingElse) {
  Fixture file;
  file.add_grid(2, 2).in_all<int32_t>(181, 6000).in_all<int32_t>(185, 65536);
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_TRUE(out.grid->spec.cdp_x.empty());
  EXPECT_TRUE(out.remarks("taken for something else"));
}

TEST(Coordinates, AsFloatsInOwnBytes) {
  Fixture file;
  file.add_grid(2, 2).in_all<int16_t>(71, -100);
  for (size_t t = 0; t < 4; ++t) {
    file.in_trace<float>(t, 201, 1.5f + static_cast<float>(t))
        .in_trace<uint32_t>(t, 205, float_to_ibm(2.5f));
  }
  IngestOptions options;
  options.fields.x_field = parse_header_field("201:float32");
  options.fields.y_field = parse_header_field("205:ibm32");
  const Ingested out = ingest_into_memory({file.source()}, options);
  EXPECT_EQ(out.grid->spec.cdp_x, (std::vector<double>{1.5, 2.5, 3.5, 4.5}));
  EXPECT_EQ(out.grid->spec.cdp_y[3], 2.5);
}

TEST(Dead, ByIdCodeWhenTheSamplesAreZero) {
  Fixture file;
  file.add_grid(2, 2).in_trace<int16_t>(1, 29, 2).in_trace<int16_t>(2, 29, 2);
  file.raw_samples(1, std::vector<uint32_t>(8, 0));
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.grid->live, (std::vector<uint8_t>{1, 0, 1, 1}));
  EXPECT_TRUE(out.remarks("1 traces are marked dead"));
}

TEST(Samples, IbmWordsThatFloatsDoNotGiveBackAreKeptAndCounted) {
  Fixture file;
  file.samples = 4;
  file.add_trace(1, 1).add_trace(1, 2);
  file.raw_samples(0, {0x41100000u, 0x40000000u, 0x61100001u, 0x80000000u});
  file.raw_samples(1, {0, 0x45000001u, 0x20800000u, 0x42640000u});
  IngestOptions options;
  options.read.format = kIbmFloat;
  const Ingested out = ingest_into_memory({file.source(options.read)}, options);
  EXPECT_EQ(out.report.ibm_overflow, 1);
  EXPECT_EQ(out.report.ibm_kept_words, 3);
  EXPECT_TRUE(std::isinf(out.at({0, 2})));
  EXPECT_EQ(out.at({1, 1}), 0.0625f);
  EXPECT_TRUE(out.remarks("stored as infinity"));
}

TEST(Samples, Int32KeepsItsBits) {
  Fixture file(ByteOrder::kLittle, kInt32);
  file.samples = 3;
  file.add_trace(1, 1).raw_samples(0, {0x7fffffffu, 0x80000001u, 16777217u});
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.grid->spec.sample_type, "int32");
  EXPECT_EQ(out.grid->integers, (std::vector<int32_t>{2147483647, -2147483647, 16777217}));
}

TEST(Ingest, StopsWhenAskedAndFinishesNothing) {
  Fixture file;
  file.add_grid(8, 8);
  std::atomic<bool> cancel{false};
  IngestOptions options = with_chunks({2, 2, 8});
  options.threads = 1;
  options.cancel = &cancel;
  options.progress = [&](const IngestProgress& p) {
    if (std::string_view(p.stage) == "samples") cancel = true;
  };
  auto grid = std::make_shared<MemoryGrid>();
  EXPECT_THAT(error_of([&] {
                ingest(
                    {file.source()},
                    [&](const VolumeSpec& spec, const std::string&) {
                      return std::make_unique<MemoryWriter>(spec, grid);
                    },
                    options);
              }),
              HasSubstr("interrupted"));
  EXPECT_FALSE(grid->finished);
}

}  // namespace
}  // namespace craton::volume::segy
