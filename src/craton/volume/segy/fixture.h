#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "craton/volume/segy/bytes.h"
#include "craton/volume/segy/ingest.h"
#include "craton/volume/segy/memory_writer.h"
#include "craton/volume/segy/sample_format.h"
#include "craton/volume/segy/text_header.h"

namespace craton::volume::segy {

/// Builds SEG-Y files in memory for tests: a valid rev 1 file of a small grid, every part of which
/// can be spoilt.
class Fixture {
 public:
  ByteOrder order = ByteOrder::kBig;
  int format = kIbmFloat;
  int64_t samples = 8;
  int interval_us = 4000;
  int extra_headers = 0;
  std::vector<std::byte> text =
      encode_text(std::vector<std::string>{"C 1 MADE FOR A TEST OF THE READER OF SEISMIC FILES"});
  std::vector<std::byte> binary = std::vector<std::byte>(400);
  std::vector<std::byte> extended, trailer;
  std::vector<std::vector<std::byte>> traces;

  Fixture() = default;
  explicit Fixture(ByteOrder byte_order, int sample_format = kIbmFloat)
      : order(byte_order), format(sample_format) {}

  template <typename T>
  Fixture& in_binary(int file_byte, T value) {
    store<T>(binary.data() + (file_byte - 3201), value, order);
    return *this;
  }

  template <typename T>
  Fixture& in_trace(size_t trace, int byte, T value) {
    store<T>(traces[trace].data() + (byte - 1), value, order);
    return *this;
  }
  template <typename T>
  Fixture& in_all(int byte, T value) {
    for (size_t i = 0; i < traces.size(); ++i) in_trace<T>(i, byte, value);
    return *this;
  }

  /// The value of a sample: different for each trace and sample, and exact in every format.
  static float value(int32_t inline_number, int32_t crossline, int64_t sample) {
    return static_cast<float>((inline_number * 7 + crossline * 3 + sample) % 100);
  }

  /// A live trace with numbers in the standard's places.
  Fixture& add_trace(int32_t inline_number, int32_t crossline, int32_t offset = 0,
                     int64_t own_samples = -1) {
    const int64_t count = own_samples < 0 ? samples : own_samples;
    const size_t header =
        static_cast<size_t>(kTraceHeaderBytes) * static_cast<size_t>(1 + extra_headers);
    traces.emplace_back(header + static_cast<size_t>(count * sample_bytes(format)));
    const size_t at = traces.size() - 1;
    in_trace<int32_t>(at, 189, inline_number);
    in_trace<int32_t>(at, 193, crossline);
    in_trace<int32_t>(at, 21, static_cast<int32_t>(at) + 1);
    in_trace<int32_t>(at, 37, offset);
    in_trace<int16_t>(at, 29, 1);
    in_trace<uint16_t>(at, 115, static_cast<uint16_t>(count));
    in_trace<int16_t>(at, 117, static_cast<int16_t>(interval_us));
    std::vector<float> values(static_cast<size_t>(count));
    for (int64_t s = 0; s < count; ++s)
      values[static_cast<size_t>(s)] = value(inline_number, crossline, s + offset);
    encode_samples(format, order, values, traces[at].data() + header);
    return *this;
  }

  /// inlines 1..ni, crosslines 10..9+nx.
  Fixture& add_grid(int32_t ni, int32_t nx) {
    for (int32_t i = 0; i < ni; ++i) {
      for (int32_t x = 0; x < nx; ++x) add_trace(1 + i, 10 + x);
    }
    return *this;
  }

  Fixture& raw_samples(size_t trace, const std::vector<uint32_t>& words) {
    const size_t header =
        static_cast<size_t>(kTraceHeaderBytes) * static_cast<size_t>(1 + extra_headers);
    for (size_t i = 0; i < words.size(); ++i)
      store<uint32_t>(traces[trace].data() + header + 4 * i, words[i], order);
    return *this;
  }

  /// Sample count, interval and format into the binary header, unless a test has written there.
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> head = binary;
    const auto set = [&](int file_byte, uint16_t v) {
      std::byte* at = head.data() + (file_byte - 3201);
      if (at[0] == std::byte{0} && at[1] == std::byte{0}) store<uint16_t>(at, v, order);
    };
    if (fill_binary) {
      set(3217, static_cast<uint16_t>(interval_us));
      set(3221, static_cast<uint16_t>(samples));
      set(3225, static_cast<uint16_t>(format));
    }
    std::vector<std::byte> out = text;
    const auto append = [&](const std::vector<std::byte>& part) {
      out.insert(out.end(), part.begin(), part.end());
    };
    append(head);
    append(extended);
    for (const auto& trace : traces) append(trace);
    append(trailer);
    return out;
  }
  bool fill_binary = true;

  SourceFile source(const ReadOptions& options = {}, std::string name = "made.sgy") const {
    return open(bytes(), options, std::move(name));
  }
  static SourceFile open(std::vector<std::byte> bytes, const ReadOptions& options = {},
                         std::string name = "made.sgy") {
    auto source = std::make_shared<MemorySource>(std::move(name), std::move(bytes));
    FileFacts facts = inspect(*source, options);
    return {std::move(source), std::move(facts)};
  }
};

struct Ingested {
  std::shared_ptr<MemoryGrid> grid;
  IngestReport report;
  /// The sample at a place.
  float at(std::vector<int64_t> index) const {
    const auto shape = grid->shape();
    int64_t place = 0;
    for (size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + index[d];
    return grid->samples.at(static_cast<size_t>(place));
  }
  bool remarks(std::string_view part) const {
    for (const Remark& remark : report.remarks) {
      if (remark.text.find(part) != std::string::npos) return true;
    }
    return false;
  }
};

/// Ingests into memory; throws what ingest throws.
inline Ingested ingest_into_memory(std::vector<SourceFile> files, const IngestOptions& options) {
  Ingested out;
  out.grid = std::make_shared<MemoryGrid>();
  out.report = ingest(
      std::move(files),
      [&](const VolumeSpec& spec, const std::string&) { return std::make_unique<MemoryWriter>(spec, out.grid); },
      options);
  return out;
}

inline Ingested ingest_into_memory(std::vector<SourceFile> files) {
  const IngestOptions options;
  return ingest_into_memory(std::move(files), options);
}

/// The message of the Error that `body` throws; "" if it throws none.
inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

/// Real files: ../shared/data beside the source tree, or CRATON_TEST_DATA. Empty when missing.
inline std::filesystem::path test_data() {
  if (const char* folder = std::getenv("CRATON_TEST_DATA")) return folder;
  for (std::filesystem::path up = std::filesystem::current_path(); up.has_relative_path();
       up = up.parent_path()) {
    if (std::filesystem::exists(up / "shared/data/SOURCES.md")) return up / "shared/data";
  }
  return {};
}

}  // namespace craton::volume::segy
