#include "craton/volume/segy/file_header.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace craton::volume::segy {

namespace {

/// More than this between headers and traces, or behind the traces, is not kept.
constexpr uint64_t kMaxKept = 32 << 20;

std::vector<std::byte> read_range(const ByteSource& source, uint64_t begin, uint64_t end) {
  std::vector<std::byte> bytes(static_cast<size_t>(std::min(end - std::min(begin, end), kMaxKept)));
  source.read(std::min(begin, end), bytes);
  return bytes;
}

std::string binary_header_fields(std::span<const std::byte> binary, ByteOrder order) {
  nlohmann::json out = nlohmann::json::object();
  for (const LayoutField& field : binary_header_layout()) {
    if (field.type == FieldType::kFloat64) {
      const double value = load_at<double>(binary, field.byte, order);
      out[field.name] = std::isfinite(value) ? value : 0.0;
    } else if (field.type == FieldType::kInt64) {
      out[field.name] = load_at<int64_t>(binary, field.byte, order);
    } else {
      out[field.name] = static_cast<int64_t>(read_field(binary, {field.byte, field.type}, order));
    }
  }
  return out.dump();
}

}  // namespace

std::string to_json(const FileLayout& layout) {
  return nlohmann::json{{"byteOrder", layout.order == ByteOrder::kBig ? "big" : "little"},
                        {"format", layout.format},
                        {"samples", layout.samples},
                        {"traceHeaderBytes", layout.header_bytes},
                        {"su", layout.su},
                        {"traces", layout.traces},
                        {"whole", layout.whole}}
      .dump();
}

FileLayout parse_file_layout(const std::string& text) {
  FileLayout out;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    out.order = json.at("byteOrder") == "little" ? ByteOrder::kLittle : ByteOrder::kBig;
    out.format = json.at("format").get<int>();
    out.samples = json.at("samples").get<int64_t>();
    out.header_bytes = json.at("traceHeaderBytes").get<uint64_t>();
    out.su = json.at("su").get<bool>();
    out.traces = json.at("traces").get<int64_t>();
    out.whole = json.at("whole").get<bool>();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kCorrupt,
         "the store's SEG-Y file header lacks what an export needs; was it written by another "
         "program?");
  }
  if (sample_bytes(out.format) == 0 || out.samples < 1 || out.traces < 0 ||
      out.header_bytes < kTraceHeaderBytes || out.header_bytes > (1u << 20)) {
    fail(ErrorCode::kCorrupt,
         "the store's SEG-Y file header is impossible (format {}, {} samples, {} bytes of trace "
         "header)",
         out.format, out.samples, out.header_bytes);
  }
  return out;
}

SegyFileHeader read_file_header(const SourceFile& file) {
  const FileFacts& facts = file.facts;
  SegyFileHeader out;
  if (facts.su) {
    out.text = "made from a Seismic Unix file, which has no text header";
  } else {
    const auto head = read_range(*file.source, 0, kFileHeaderBytes);
    const std::span<const std::byte> all(head);
    out.raw_text.assign(all.begin(), all.begin() + kTextHeaderBytes);
    out.raw_binary.assign(all.begin() + kTextHeaderBytes, all.end());
    for (const std::string& line : text_lines(out.raw_text, facts.text_encoding)) {
      out.text += (out.text.empty() ? "" : "\n") + line;
    }
    out.binary = binary_header_fields(out.raw_binary, facts.order);
    out.raw_extended = read_range(*file.source, kFileHeaderBytes, facts.first_trace);
  }
  out.raw_trailer = read_range(*file.source, facts.end_of_traces, file.source->size());
  out.more = to_json({facts.order, facts.format, facts.samples, facts.header_bytes, facts.su,
                      facts.traces, facts.variable_offsets.empty()});
  return out;
}

}  // namespace craton::volume::segy
