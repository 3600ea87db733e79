#include "craton/results/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "craton/base/error.h"

namespace craton::results {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}

/// TFRecord stores checksums rotated and shifted, so that a checksum of data that hold checksums
/// stays useful.
uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

template <typename T>
void put_fixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

// Protobuf's wire format: a field starts with (number << 3 | type).
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, WireType type) {
  put_varint(out, field << 3 | type);
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_integer(std::string& out, uint32_t field, int64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, static_cast<uint64_t>(value));
}

// Numbers of fields in event.proto and summary.proto.
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
                   kEventSessionLog = 7;
constexpr uint32_t kSessionStatus = 1, kSessionStart = 1;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2, kValueImage = 4;
constexpr uint32_t kImageHeight = 1, kImageWidth = 2, kImageColorspace = 3, kImageBytes = 4;
constexpr int64_t kRgb = 3;

std::string event_at(int64_t step, double time) {
  std::string event;
  put_key(event, kEventWallTime, kFixed64);
  put_fixed(event, time);
  if (step != 0) put_integer(event, kEventStep, step);
  return event;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const std::byte b : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<uint32_t>(b)) & 0xFF];
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, int64_t last_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_errno(fmt::format("cannot create {}", folder.string()), error.value());
  char host[256] = "host";
  if (::gethostname(host, sizeof(host) - 1) != 0) std::strcpy(host, "host");
  // A second file of the same second and process gets another number, never the same file.
  for (int number = 0; !fd_.valid(); ++number) {
    path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}.{}", static_cast<int64_t>(now()),
                                 host, ::getpid(), number);
    fd_ = runtime::FileDescriptor(
        ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
    if (!fd_.valid() && errno != EEXIST)
      fail_errno(fmt::format("cannot create {}", path_.string()), errno);
  }
  std::string version = event_at(0, now());
  put_bytes(version, kEventFileVersion, "brain.Event:2");
  append(version);
  if (last_step > 0) {
    std::string start = event_at(last_step + 1, now());
    std::string session;
    put_integer(session, kSessionStatus, kSessionStart);
    put_bytes(start, kEventSessionLog, session);
    append(start);
  }
}

void EventFile::scalars(int64_t step, double time, std::span<const Scalar> values) {
  std::string summary;
  for (const auto& [tag, number] : values) {
    std::string value;
    put_bytes(value, kValueTag, tag);
    put_key(value, kValueSimple, kFixed32);
    put_fixed(value, static_cast<float>(number));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string event = event_at(step, time);
  put_bytes(event, kEventSummary, summary);
  append(event);
}

void EventFile::image(int64_t step, double time, std::string_view tag, int width, int height,
                      std::span<const std::byte> png) {
  std::string picture;
  put_integer(picture, kImageHeight, height);
  put_integer(picture, kImageWidth, width);
  put_integer(picture, kImageColorspace, kRgb);
  put_bytes(picture, kImageBytes, {reinterpret_cast<const char*>(png.data()), png.size()});
  std::string value, summary;
  put_bytes(value, kValueTag, tag);
  put_bytes(value, kValueImage, picture);
  put_bytes(summary, kSummaryValue, value);
  std::string event = event_at(step, time);
  put_bytes(event, kEventSummary, summary);
  append(event);
}

void EventFile::step(const StepMetrics& m) {
  std::vector<Scalar> values = {
      {"loss/train", m.loss},
      {"optimizer/gradient_norm", m.gradient_norm},
      {"optimizer/learning_rate", m.learning_rate},
      {"optimizer/batch", static_cast<double>(m.batch)},
      {"optimizer/skipped_steps", static_cast<double>(m.skipped_steps)},
      {"speed/samples_per_second", m.samples_per_second},
      {"speed/tokens_per_second", m.tokens_per_second},
      {"speed/flops_per_second", m.flops_per_second},
      {"speed/data_wait_percent", 100 * m.data_wait_share},
      {"speed/step_seconds", m.seconds},
      {"memory/resident_mib", static_cast<double>(m.memory_bytes) / (1 << 20)},
      {"job/workers", static_cast<double>(m.workers)}};
  if (m.peak_share > 0) values.emplace_back("speed/peak_percent", 100 * m.peak_share);
  if (m.validation_loss) values.emplace_back("loss/validation", *m.validation_loss);
  scalars(m.step, m.time, values);
}

void EventFile::append(const std::string& event) {
  std::string frame;
  put_fixed(frame, static_cast<uint64_t>(event.size()));
  put_fixed(frame, masked(crc32c(std::as_bytes(std::span(frame)))));
  frame += event;
  put_fixed(frame, masked(crc32c(std::as_bytes(std::span(event)))));
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), frame.data(), frame.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  if (static_cast<size_t>(written) != frame.size()) {
    fail(ErrorCode::kResourceExhausted, "cannot write {}: the disk is full", path_.string());
  }
}

}  // namespace craton::results
