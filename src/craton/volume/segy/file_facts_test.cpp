#include "craton/volume/segy/file_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "craton/base/philox.h"
#include "craton/volume/segy/fixture.h"

namespace craton::volume::segy {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> ascii_text() {
  std::string text;
  for (int i = 1; i <= 40; ++i)
    text += fmt::format("C{:>2} {:<76}", i, "Created by a program that writes ASCII");
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

FileFacts facts_of(const Fixture& fixture, const ReadOptions& options = {}) {
  return fixture.source(options).facts;
}

bool has_remark(const FileFacts& facts, std::string_view part) {
  for (const Remark& remark : facts.remarks) {
    if (remark.text.find(part) != std::string::npos) return true;
  }
  return false;
}

// --- text headers ---

TEST(Text, AsciiHeaderIsToldFromEbcdic) {
  Fixture file;
  file.add_grid(2, 2);
  EXPECT_EQ(facts_of(file).text_encoding, TextEncoding::kEbcdic);
  file.text = ascii_text();
  EXPECT_EQ(facts_of(file).text_encoding, TextEncoding::kAscii);
  EXPECT_EQ(text_lines(file.text, TextEncoding::kAscii)[1].substr(0, 14), "C 2 Created by");
}

TEST(Text, OddBytesNeverFailAndAreReplaced) {
  Fixture file;
  file.add_grid(2, 2);
  for (size_t i = 0; i < 256; ++i) file.text[1000 + i] = static_cast<std::byte>(i);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.problem, "");
  const std::string text = decode_text(file.text, facts.text_encoding);
  EXPECT_EQ(text.size(), 3200u);
  for (char c : text) EXPECT_TRUE(c >= 32 && c < 127);
}

TEST(Text, NoiseIsReportedAndNoReasonToRefuse) {
  Fixture file;
  file.add_grid(2, 2);
  for (size_t i = 0; i < 3200; ++i) file.text[i] = static_cast<std::byte>(1 + i % 29);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.problem, "");
  EXPECT_TRUE(has_remark(facts, "neither EBCDIC nor ASCII"));
}

TEST(Text, NulAndControlBytesDoNotCutIt) {
  auto text = ascii_text();
  text[90] = std::byte{0};
  text[91] = std::byte{4};
  const auto lines = text_lines(text, TextEncoding::kAscii);
  ASSERT_EQ(lines.size(), 40u);
  EXPECT_EQ(lines[39].substr(0, 15), "C40 Created by ");
}

TEST(Text, CardsOf81ColumnsArePutStraight) {
  std::string text;
  for (int i = 1; i <= 39; ++i)
    text += fmt::format("C{:>2} {:<76}\n", i, "A CARD WITH A LINE FEED");
  text.resize(3200, ' ');
  const auto lines = text_lines(std::as_bytes(std::span(text)), TextEncoding::kAscii);
  EXPECT_EQ(lines[38].substr(0, 10), "C39 A CARD");
}

TEST(Text, EncodesWhatItDecodes) {
  const std::vector<std::string> lines = {"C 1 Hello, (world) 0123456789 ?.-+/"};
  const auto bytes = encode_text(lines);
  EXPECT_EQ(detect_text_encoding(bytes), TextEncoding::kEbcdic);
  EXPECT_EQ(decode_text(bytes, TextEncoding::kEbcdic).substr(0, lines[0].size()), lines[0]);
}

// --- how many samples ---

TEST(Samples, MoreThan32767AreAnUnsignedCount) {
  Fixture file;
  file.samples = 60000;
  file.add_trace(1, 10).add_trace(1, 11);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.samples, 60000);
  EXPECT_EQ(facts.traces, 2);
}

class ExtendedCount : public ::testing::TestWithParam<int> {};
TEST_P(ExtendedCount, OfRevision2RulesWhenThePlainOneIsFull) {
  Fixture file;
  file.samples = 70000;
  file.fill_binary = false;
  file.in_binary<uint16_t>(3217, 4000)
      .in_binary<uint16_t>(3221, static_cast<uint16_t>(GetParam()))
      .in_binary<uint16_t>(3225, 1);
  file.in_binary<uint32_t>(3269, 70000)
      .in_binary<uint8_t>(3501, 2)
      .in_binary<uint32_t>(3297, 0x01020304);
  file.add_trace(1, 10).add_trace(1, 11);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.samples, 70000);
  EXPECT_EQ(facts.traces, 2);
}
INSTANTIATE_TEST_SUITE_P(Sentinels, ExtendedCount, ::testing::Values(0, 32767, 65535));

TEST(Samples, LongerThanAnyHeaderSaysNeedsTheOption) {
  Fixture file;
  file.samples = 70000;
  file.add_trace(1, 10).add_trace(1, 11).add_trace(2, 10);
  file.in_binary<uint16_t>(3221, 100).in_all<uint16_t>(115, 100);
  const FileFacts refused = facts_of(file);
  EXPECT_THAT(refused.problem, HasSubstr("--samples"));
  ReadOptions options;
  options.samples = 70000;
  const FileFacts facts = facts_of(file, options);
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.traces, 3);
}

TEST(Samples, BinaryHeaderRulesOverTraceHeaders) {
  for (uint16_t own : {0, 462}) {
    Fixture file;
    file.add_grid(3, 3).in_all<uint16_t>(115, own);
    const FileFacts facts = facts_of(file);
    EXPECT_EQ(facts.samples, 8) << own;
    EXPECT_EQ(facts.traces, 9) << own;
  }
}

TEST(Samples, TraceHeadersRuleWhenOnlyTheyFitTheSize) {
  Fixture file;
  file.samples = 75;
  file.add_grid(3, 3).in_binary<uint16_t>(3221, 50);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.samples, 75);
  EXPECT_EQ(facts.traces, 9);
}

TEST(Samples, TracesThatDifferAreFollowedByTheirOwnCounts) {
  Fixture file;
  file.add_trace(1, 10, 0, 8).add_trace(1, 11, 0, 5).add_trace(2, 10, 0, 11).add_trace(2, 11, 0, 8);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.traces, 4);
  EXPECT_EQ(facts.samples, 11);
  EXPECT_EQ(facts.trace_samples(1), 5);
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.at({0, 1, 4}), Fixture::value(1, 11, 4));
  EXPECT_EQ(out.at({0, 1, 5}), 0);
  EXPECT_EQ(out.at({1, 0, 10}), Fixture::value(2, 10, 10));
}

TEST(Samples, SizeThatIsNoMultipleSaysWhereTheFileBreaks) {
  Fixture file;
  file.add_grid(2, 3);
  auto bytes = file.bytes();
  bytes.resize(bytes.size() - 100);
  const FileFacts facts = Fixture::open(bytes).facts;
  // 5 whole traces of 272 bytes from 3600 end at 4960.
  EXPECT_THAT(facts.problem,
              HasSubstr("1532 bytes of traces are no multiple of the trace length 272"));
  EXPECT_THAT(facts.problem, HasSubstr("5 whole traces, then 172 bytes from byte 4960"));
  EXPECT_THAT(facts.problem, HasSubstr("--lenient"));

  ReadOptions lenient;
  lenient.lenient = true;
  const FileFacts some = Fixture::open(bytes, lenient).facts;
  EXPECT_EQ(some.problem, "");
  EXPECT_EQ(some.traces, 5);
  EXPECT_TRUE(has_remark(some, "5 whole traces, then 172 bytes"));
}

TEST(Samples, TooManyBytesAreAnErrorToo) {
  Fixture file;
  file.add_grid(2, 2);
  file.trailer.resize(17);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("4 whole traces, then 17 bytes from byte 4688"));
}

TEST(Samples, CountsAroundMultiplesOf512) {
  for (int32_t traces : {511, 512, 513, 1024}) {
    Fixture file;
    file.add_grid(1, traces);
    const Ingested out = ingest_into_memory({file.source()});
    EXPECT_EQ(out.report.geometry.live, traces);
    EXPECT_EQ(out.at({traces - 1, 3}), Fixture::value(1, 10 + traces - 1, 3)) << traces;
  }
}

TEST(Samples, FileCutWhileItIsReadNamesTheOffset) {
  class Shrinking : public MemorySource {
   public:
    using MemorySource::MemorySource;
    uint64_t size() const override { return MemorySource::size() + 2720; }
  };
  Fixture file;
  file.add_grid(2, 5);
  auto bytes = file.bytes();
  bytes.resize(bytes.size() - 2720);
  auto source = std::make_shared<Shrinking>("cut.sgy", bytes);
  EXPECT_THAT(error_of([&] {
                ingest_into_memory({SourceFile{source, inspect(*source)}});
              }),
              HasSubstr("cut.sgy ends at byte 3600"));
}

// --- format and byte order ---

TEST(Order, LittleEndianIsFoundByTheFormatCode) {
  for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
    Fixture file(order);
    file.add_grid(2, 2);
    EXPECT_EQ(facts_of(file).order, order);
    EXPECT_EQ(facts_of(file).interval_us, 4000);
    EXPECT_EQ(facts_of(file).samples, 8);
  }
}

TEST(Order, ConstantOfRevision2Rules) {
  Fixture file(ByteOrder::kLittle, kIeeeFloat);
  file.add_grid(2, 2).in_binary<uint32_t>(3297, 0x01020304).in_binary<uint8_t>(3501, 2);
  EXPECT_EQ(facts_of(file).order, ByteOrder::kLittle);
}

TEST(Order, WithoutFormatCodeTheCountsTell) {
  Fixture file(ByteOrder::kLittle);
  file.add_grid(2, 2);
  file.fill_binary = false;
  file.in_binary<uint16_t>(3217, 4000).in_binary<uint16_t>(3221, 8);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("--format"));
  ReadOptions options;
  options.format = kIbmFloat;
  const FileFacts facts = facts_of(file, options);
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.order, ByteOrder::kLittle);
}

TEST(Format, IbmDataReadByTheCodeAndNotAsIeee) {
  Fixture file;
  file.samples = 3;
  file.add_trace(1, 1).raw_samples(0, {0xC276A000u, 0x41100000u, 0x42640000u});
  const Ingested out = ingest_into_memory({file.source()});
  EXPECT_EQ(out.grid->samples, (std::vector<float>{-118.625f, 1, 100}));
}

TEST(Format, IeeeLabelledIbmIsFoundAndSettledByTheOption) {
  Fixture file(ByteOrder::kLittle, kIeeeFloat);
  file.samples = 200;
  file.add_grid(4, 4);
  const Philox random(5, RandomPurpose::kTest);
  for (size_t t = 0; t < 16; ++t) {
    std::vector<uint32_t> words(200);
    for (size_t i = 0; i < 200; ++i) {
      words[i] = std::bit_cast<uint32_t>(static_cast<float>(random.normal(t * 200 + i)));
    }
    file.raw_samples(t, words);
  }
  file.in_binary<uint16_t>(3225, kIbmFloat);
  EXPECT_THAT(error_of([&] { ingest_into_memory({file.source()}); }),
              HasSubstr("probably IEEE; use --format 5"));
  IngestOptions options;
  options.read.format = kIeeeFloat;
  const Ingested out = ingest_into_memory({file.source(options.read)}, options);
  EXPECT_EQ(out.at({3, 3, 199}), static_cast<float>(random.normal(15 * 200 + 199)));
}

TEST(Format, UnknownCodeIsRefusedWithTheOption) {
  Fixture file;
  file.add_grid(2, 2).in_binary<uint16_t>(3225, 13);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("format code 13"));
  EXPECT_THAT(facts_of(file).problem, HasSubstr("--format"));
}

TEST(Format, SizeHintsAtAnotherWidth) {
  Fixture file(ByteOrder::kBig, kInt16);
  file.samples = 75;
  file.add_grid(7, 1).in_binary<uint16_t>(3225, kIbmFloat);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("samples of 2 bytes would fit"));
}

// --- intervals and revisions ---

TEST(Interval, ThePositiveOneOfTwoIsTaken) {
  Fixture file;
  file.add_trace(1, 1).in_binary<int16_t>(3217, -2);
  EXPECT_EQ(facts_of(file).interval_us, 4000);
  EXPECT_TRUE(has_remark(facts_of(file), "intervals differ"));
  Fixture other;
  other.add_trace(1, 1).in_all<int16_t>(117, -25000).in_binary<int16_t>(3217, 2000);
  EXPECT_EQ(facts_of(other).interval_us, 2000);
  EXPECT_TRUE(has_remark(facts_of(other), "intervals differ"));
}

TEST(Interval, OfRevision2InDoublePrecision) {
  Fixture file;
  file.interval_us = 0;
  file.add_trace(1, 1).in_binary<uint8_t>(3501, 2).in_binary<double>(3273, 62.5);
  EXPECT_EQ(facts_of(file).interval_us, 62.5);
}

TEST(Revision, StrangeOnesAreReadWithARemark) {
  for (auto [major, minor] : {std::pair{0, 1}, {0, 16}, {36, 37}, {255, 255}}) {
    Fixture file;
    file.add_grid(2, 2)
        .in_binary<uint8_t>(3501, static_cast<uint8_t>(major))
        .in_binary<uint8_t>(3502, static_cast<uint8_t>(minor));
    const FileFacts facts = facts_of(file);
    EXPECT_EQ(facts.problem, "") << major;
    EXPECT_EQ(facts.traces, 4) << major;
    EXPECT_TRUE(has_remark(facts, "strange revision")) << major;
  }
}

TEST(Revision, TraceHeaderExtensionsOf2AreSkipped) {
  for (int minor : {0, 1}) {
    Fixture file;
    file.extra_headers = 2;
    file.add_grid(3, 3).in_binary<uint8_t>(3501, 2).in_binary<uint8_t>(3502,
                                                                       static_cast<uint8_t>(minor));
    // An eight-byte name at the end of the standard header is bytes like any other.
    file.in_all<uint64_t>(233, 0x5345473030303030);
    minor == 0 ? file.in_binary<uint32_t>(3507, 2) : file.in_binary<uint16_t>(3507, 2);
    const Ingested out = ingest_into_memory({file.source()});
    EXPECT_EQ(out.report.files[0].extra_trace_headers, 2);
    EXPECT_EQ(out.at({2, 2, 7}), Fixture::value(3, 12, 7));
    EXPECT_EQ(out.grid->spec.trace_header_bytes, 720);
    EXPECT_EQ(out.grid->headers.size(), 9u * 720);
  }
}

TEST(Revision, OffsetOfTheFirstTraceAndTrailerOf2) {
  Fixture file;
  file.add_grid(2, 2)
      .in_binary<uint8_t>(3501, 2)
      .in_binary<uint64_t>(3521, 3600 + 64)
      .in_binary<int32_t>(3529, 1);
  file.extended.resize(64);
  file.trailer.resize(3200);
  const FileFacts facts = facts_of(file);
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.first_trace, 3664u);
  EXPECT_EQ(facts.traces, 4);
}

// --- extended text headers ---

TEST(ExtendedText, CountedAndUpToTheEndStanza) {
  Fixture file;
  file.add_grid(2, 2);
  for (const char* line : {"((SEG: Location Data ver 1.0))", "MORE", "((SEG: EndText))"}) {
    const auto block = encode_text(std::vector<std::string>{line});
    file.extended.insert(file.extended.end(), block.begin(), block.end());
  }
  for (int16_t count : {int16_t{3}, int16_t{-1}}) {
    file.in_binary<int16_t>(3505, count);
    const FileFacts facts = facts_of(file);
    EXPECT_EQ(facts.problem, "") << count;
    EXPECT_EQ(facts.extended_headers, 3) << count;
    EXPECT_EQ(facts.traces, 4) << count;
  }
}

TEST(ExtendedText, WithoutEndStanzaIsRefusedWithTheOption) {
  Fixture file;
  file.add_grid(2, 2).in_binary<int16_t>(3505, -1);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("--extended-headers"));
  ReadOptions options;
  options.extended_headers = 0;
  EXPECT_EQ(facts_of(file, options).traces, 4);
}

TEST(ExtendedText, CountPastTheEndIsRefused) {
  Fixture file;
  file.add_grid(2, 2).in_binary<int16_t>(3505, 30000);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("extended text headers (30000"));
}

// --- other files ---

std::string problem_of(std::string_view content) {
  const auto bytes = std::as_bytes(std::span(content));
  return Fixture::open({bytes.begin(), bytes.end()}).facts.problem;
}

TEST(OtherFiles, AreNamedAndRefused) {
  std::string prose;
  while (prose.size() < 10000)
    prose += "It was a dark and stormy night, and nobody had recorded any seismic data.\n";
  EXPECT_THAT(problem_of(prose), HasSubstr("looks like a text file"));
  EXPECT_THAT(problem_of(prose.substr(0, 200)), HasSubstr("looks like a text file"));
  EXPECT_THAT(problem_of("\x89PNG\r\n\x1a\n" + std::string(5000, '\0')),
              HasSubstr("a PNG picture"));
  EXPECT_THAT(problem_of("\x1f\x8b\x08" + std::string(5000, '\1')), HasSubstr("gzip"));
  EXPECT_THAT(problem_of(""), HasSubstr("0 bytes are less than the file header"));
  EXPECT_THAT(problem_of(std::string(3599, '\0')),
              HasSubstr("3599 bytes are less than the file header"));
  const Philox random(6, RandomPurpose::kTest);
  std::string noise(20000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(random.bits(i) | 0x80);
  EXPECT_THAT(problem_of(noise), HasSubstr("not a SEG-Y file"));
}

TEST(OtherFiles, HeaderWithoutTraces) {
  EXPECT_THAT(facts_of(Fixture()).problem, HasSubstr("holds no traces"));
  Fixture file;
  file.trailer.resize(100);
  EXPECT_THAT(facts_of(file).problem, HasSubstr("less than one trace header"));
}

TEST(OtherFiles, SeismicUnixIsRecognisedAndReadOnRequest) {
  for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
    Fixture file(order, kIeeeFloat);
    file.samples = 40;
    file.add_grid(5, 4);
    std::vector<std::byte> bytes;
    for (const auto& trace : file.traces) bytes.insert(bytes.end(), trace.begin(), trace.end());
    EXPECT_THAT(Fixture::open(bytes).facts.problem, HasSubstr("read it with --su"));
    ReadOptions options;
    options.su = true;
    const Ingested out = ingest_into_memory({Fixture::open(bytes, options)});
    EXPECT_EQ(out.report.files[0].order, order);
    EXPECT_EQ(out.at({4, 3, 39}), Fixture::value(5, 13, 39));
  }
}

TEST(Options, OutOfRangeAreErrorsOfTheUser) {
  Fixture file;
  file.add_trace(1, 1);
  ReadOptions options;
  options.samples = 0;
  EXPECT_THAT(error_of([&] { file.source(options); }), HasSubstr("--samples 0"));
  options = {};
  options.format = 14;
  EXPECT_THAT(error_of([&] { file.source(options); }), HasSubstr("--format 14"));
}

TEST(Hostile, AnyPrefixAndAnySpoiltByteIsHandled) {
  Fixture file;
  file.add_grid(2, 2);
  const auto bytes = file.bytes();
  for (size_t size = 0; size < bytes.size(); size += 97) {
    EXPECT_NO_THROW(Fixture::open({bytes.begin(), bytes.begin() + static_cast<long>(size)}));
  }
  for (size_t at = 3200; at < 3600; ++at) {
    for (int value : {0, 1, 0x7f, 0x80, 0xff}) {
      auto spoilt = bytes;
      spoilt[at] = static_cast<std::byte>(value);
      const std::string error = error_of([&] {
        auto opened = Fixture::open(spoilt);
        if (opened.facts.problem.empty()) ingest_into_memory({opened});
      });
      EXPECT_EQ(error.find('\n'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace craton::volume::segy
