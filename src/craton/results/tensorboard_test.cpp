#include "craton/results/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "craton/base/error.h"

namespace craton::results {
namespace {

uint32_t crc_of(std::string_view text) {
  return crc32c(std::as_bytes(std::span(text.data(), text.size())));
}

// RFC 3720 (iSCSI), appendix B.4.
TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc_of(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc_of(rising), 0x46DD794Eu);
  EXPECT_EQ(crc_of("123456789"), 0xE3069283u);
  EXPECT_EQ(crc_of(""), 0u);
}

/// The fields of a protobuf message: number -> raw values (varints and fixed numbers as 8 bytes).
using Fields = std::multimap<uint64_t, std::string>;

uint64_t varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(in.at(0));
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

Fields parse(std::string_view in) {
  Fields fields;
  while (!in.empty()) {
    const uint64_t key = varint(in);
    size_t length = 0;
    switch (key & 7) {
      case 0: {
        const uint64_t value = varint(in);
        fields.emplace(key >> 3, std::string(reinterpret_cast<const char*>(&value), 8));
        continue;
      }
      case 1:
        length = 8;
        break;
      case 2:
        length = varint(in);
        break;
      case 5:
        length = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.emplace(key >> 3, std::string(in.substr(0, length)));
    in.remove_prefix(length);
  }
  return fields;
}

template <typename T>
T as(const std::string& bytes) {
  T value;
  EXPECT_GE(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated >> 17) | (rotated << 15);
}

/// The events of a file, with both checksums of each frame checked.
std::vector<Fields> events(const std::filesystem::path& path) {
  const std::string bytes = runtime::read_text(path);
  std::vector<Fields> out;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = as<uint64_t>(bytes.substr(at, 8));
    EXPECT_EQ(unmasked(as<uint32_t>(bytes.substr(at + 8, 4))), crc_of(bytes.substr(at, 8)));
    const std::string event = bytes.substr(at + 12, length);
    EXPECT_EQ(unmasked(as<uint32_t>(bytes.substr(at + 12 + length, 4))), crc_of(event));
    out.push_back(parse(event));
    at += 16 + length;
  }
  return out;
}

std::string only(const Fields& fields, uint64_t number) {
  EXPECT_EQ(fields.count(number), 1u) << number;
  return fields.count(number) > 0 ? fields.find(number)->second : "";
}

TEST(EventFile, HoldsScalarsAndImages) {
  const runtime::TemporaryDirectory folder;
  EventFile file(folder.path() / "events");
  const std::vector<EventFile::Scalar> values = {{"loss/train", 0.5},
                                                 {"optimizer/learning_rate", 1e-3}};
  file.scalars(300, 1234.5, values);
  const std::string png = "not really a PNG";
  file.image(301, 1235, "section", 64, 32, std::as_bytes(std::span(png)));
  const auto all = events(file.path());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(only(all[0], 3), "brain.Event:2");
  EXPECT_DOUBLE_EQ(as<double>(only(all[1], 1)), 1234.5);
  EXPECT_EQ(as<int64_t>(only(all[1], 2)), 300);
  const Fields summary = parse(only(all[1], 5));
  ASSERT_EQ(summary.count(1), 2u);
  const Fields first = parse(summary.begin()->second);
  EXPECT_EQ(only(first, 1), "loss/train");
  EXPECT_EQ(as<float>(only(first, 2)), 0.5f);
  const Fields image = parse(only(parse(only(parse(only(all[2], 5)), 1)), 4));
  EXPECT_EQ(as<int64_t>(only(image, 1)), 32);
  EXPECT_EQ(as<int64_t>(only(image, 2)), 64);
  EXPECT_EQ(only(image, 4), png);
}

TEST(EventFile, TellsOfAResumeAndNeverSharesAFile) {
  const runtime::TemporaryDirectory folder;
  EventFile first(folder.path()), second(folder.path(), 100);
  EXPECT_NE(first.path(), second.path());
  const auto all = events(second.path());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(as<int64_t>(only(all[1], 2)), 101);
  EXPECT_EQ(as<int64_t>(only(parse(only(all[1], 7)), 1)), 1);
}

TEST(EventFile, StepsBecomeScalars) {
  const runtime::TemporaryDirectory folder;
  EventFile file(folder.path());
  StepMetrics m;
  m.step = 7;
  m.loss = 0.25;
  m.validation_loss = 0.75;
  file.step(m);
  std::map<std::string, float> scalars;
  const Fields summary = parse(only(events(file.path()).at(1), 5));
  for (const auto& [number, bytes] : summary) {
    const Fields value = parse(bytes);
    scalars[only(value, 1)] = as<float>(only(value, 2));
  }
  EXPECT_EQ(scalars.at("loss/train"), 0.25f);
  EXPECT_EQ(scalars.at("loss/validation"), 0.75f);
  EXPECT_EQ(scalars.count("speed/data_wait_percent"), 1u);
}

TEST(EventFile, SaysWhenItCannotBeMade) { EXPECT_THROW(EventFile("/proc/none"), Error); }

}  // namespace
}  // namespace craton::results
