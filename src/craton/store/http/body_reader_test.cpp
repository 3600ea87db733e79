#include "craton/store/http/body_reader.h"

#include <gtest/gtest.h>

namespace craton::store::http {
namespace {

Response head(int status, std::initializer_list<std::pair<const char*, const char*>> headers) {
  Response response;
  response.status = status;
  for (const auto& [name, value] : headers) response.headers.add(name, value);
  return response;
}

Fault write(BodyReader& reader, std::string_view text) {
  return reader.write(std::as_bytes(std::span(text)));
}

std::string text_of(const std::vector<std::byte>& bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes.data()), size};
}

std::string range_of(const BodyReader& reader) {
  Headers headers;
  reader.add_headers(headers);
  return std::string(headers.get("range"));
}

std::string match_of(const BodyReader& reader) {
  Headers headers;
  reader.add_headers(headers);
  return std::string(headers.get("if-match"));
}

TEST(BodyReader, ResumesAHalfReadRangeOfTheSameVersion) {
  std::vector<std::byte> buffer;
  BodyReader reader = BodyReader::range(buffer, 10, 6);
  EXPECT_EQ(range_of(reader), "bytes=10-15");
  EXPECT_EQ(match_of(reader), "");
  EXPECT_EQ(reader.begin(head(206, {{"Content-Range", "bytes 10-15/100"}, {"ETag", "\"a\""}})),
            Fault::kNone);
  EXPECT_EQ(write(reader, "abc"), Fault::kNone);
  EXPECT_FALSE(reader.complete());
  EXPECT_EQ(range_of(reader), "bytes=13-15");
  EXPECT_EQ(match_of(reader), "\"a\"");
  EXPECT_EQ(reader.begin(head(206, {{"Content-Range", "bytes 13-15/100"}, {"ETag", "\"a\""}})),
            Fault::kNone);
  EXPECT_EQ(write(reader, "def"), Fault::kNone);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(text_of(buffer, 6), "abcdef");
}

TEST(BodyReader, ResumesAWholeObjectAndTakesItFromTheStartWhereRangesAreUnknown) {
  std::vector<std::byte> buffer;
  BodyReader reader = BodyReader::whole(buffer);
  EXPECT_EQ(range_of(reader), "");
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "6"}})), Fault::kNone);
  EXPECT_EQ(write(reader, "abc"), Fault::kNone);
  EXPECT_EQ(range_of(reader), "bytes=3-");
  EXPECT_EQ(match_of(reader), "");  // this server has no ETags
  BodyReader resumed = reader;
  EXPECT_EQ(resumed.begin(head(206, {{"Content-Range", "bytes 3-5/6"}})), Fault::kNone);
  EXPECT_EQ(write(resumed, "def"), Fault::kNone);
  EXPECT_TRUE(resumed.complete());
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "6"}})), Fault::kNone);
  EXPECT_EQ(write(reader, "abcdef"), Fault::kNone);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(text_of(buffer, 6), "abcdef");
}

TEST(BodyReader, RefusesAnswersThatContradictTheRequest) {
  using Fields = std::initializer_list<std::pair<const char*, const char*>>;
  const auto begin = [](int status, Fields fields) {
    std::vector<std::byte> buffer;
    BodyReader reader = BodyReader::range(buffer, 4, 4);
    const Fault fault = reader.begin(head(status, fields));
    EXPECT_EQ(fault == Fault::kNone, reader.complaint().empty());
    EXPECT_FALSE(reader.past_end());
    return fault;
  };
  EXPECT_EQ(begin(206, {{"Content-Range", "bytes 4-7/9"}}), Fault::kNone);
  EXPECT_EQ(begin(206, {{"Content-Range", "bytes 3-6/9"}}), Fault::kWrongAnswer);
  EXPECT_EQ(begin(206, {{"Content-Range", "bytes 4-8/9"}}), Fault::kWrongAnswer);
  EXPECT_EQ(begin(206, {{"Content-Range", "bytes 4-6/9"}}), Fault::kWrongAnswer);
  EXPECT_EQ(begin(206, {}), Fault::kWrongAnswer);
  EXPECT_EQ(begin(206, {{"Content-Range", "bytes 4-7/9"}, {"Content-Length", "5"}}),
            Fault::kWrongAnswer);
  EXPECT_EQ(begin(200, {{"Content-Length", "9"}}), Fault::kWrongAnswer);
  EXPECT_EQ(begin(204, {}), Fault::kWrongAnswer);
}

TEST(BodyReader, ARangePastTheEndIsNoTransientMistake) {
  std::vector<std::byte> buffer;
  BodyReader reader = BodyReader::range(buffer, 4, 1ull << 60);
  EXPECT_EQ(reader.begin(head(206, {{"Content-Range", "bytes 4-8/9"}})), Fault::kWrongAnswer);
  EXPECT_TRUE(reader.past_end());
  EXPECT_EQ(*reader.total(), 9u);
  EXPECT_TRUE(buffer.empty());  // and nothing was allocated for it
}

TEST(BodyReader, ALyingLengthAllocatesLittleAndABodyTooLongIsRefused) {
  std::vector<std::byte> buffer;
  BodyReader reader = BodyReader::whole(buffer);
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "4611686018427387904"}})), Fault::kNone);
  EXPECT_LE(buffer.size(), 64u << 20);
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "3"}})), Fault::kNone);
  EXPECT_EQ(write(reader, "abcd"), Fault::kWrongAnswer);
}

TEST(BodyReader, AnEmptyObjectIsComplete) {
  std::vector<std::byte> buffer;
  BodyReader reader = BodyReader::whole(buffer);
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "0"}})), Fault::kNone);
  EXPECT_EQ(write(reader, ""), Fault::kNone);
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.received(), 0u);
}

TEST(BodyReader, ASuffixBecomesARangeOnceTheSizeIsKnown) {
  std::vector<std::byte> buffer;
  BodyReader reader = BodyReader::suffix(buffer, 4);
  EXPECT_EQ(range_of(reader), "bytes=-4");
  EXPECT_EQ(reader.begin(head(206, {{"Content-Range", "bytes 5-8/9"}})), Fault::kNone);
  EXPECT_EQ(write(reader, "ab"), Fault::kNone);
  EXPECT_EQ(range_of(reader), "bytes=7-8");
  BodyReader wrong = BodyReader::suffix(buffer, 4);  // as a server that is off by one
  EXPECT_EQ(wrong.begin(head(206, {{"Content-Range", "bytes 4-8/9"}})), Fault::kWrongAnswer);
  BodyReader all = BodyReader::suffix(buffer, 100);
  EXPECT_EQ(all.begin(head(206, {{"Content-Range", "bytes 0-8/9"}})), Fault::kNone);
  BodyReader ignored = BodyReader::suffix(buffer, 4);
  EXPECT_EQ(ignored.begin(head(200, {{"Content-Length", "9"}})), Fault::kWrongAnswer);
}

TEST(BodyReader, ChangedObjectsAreReadFromTheStartUnlessTheVersionIsTheCallers) {
  std::vector<std::byte> buffer(4);
  BodyReader reader = BodyReader::whole(buffer);
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "4"}, {"ETag", "\"a\""}})), Fault::kNone);
  EXPECT_EQ(write(reader, "ab"), Fault::kNone);
  EXPECT_EQ(reader.begin(head(206, {{"Content-Range", "bytes 2-3/4"}, {"ETag", "\"b\""}})),
            Fault::kChanged);
  EXPECT_TRUE(reader.restart());
  EXPECT_EQ(range_of(reader), "");
  EXPECT_EQ(reader.begin(head(200, {{"Content-Length", "4"}, {"ETag", "\"b\""}})), Fault::kNone);
  BodyReader part = BodyReader::part(buffer, 0, "\"a\"");
  EXPECT_EQ(match_of(part), "\"a\"");
  EXPECT_EQ(part.begin(head(206, {{"Content-Range", "bytes 0-3/9"}, {"ETag", "\"b\""}})),
            Fault::kChanged);
  EXPECT_FALSE(part.restart());
}

}  // namespace
}  // namespace craton::store::http
