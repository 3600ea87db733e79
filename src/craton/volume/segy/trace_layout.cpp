#include "craton/volume/segy/trace_layout.h"

#include <algorithm>
#include <array>

namespace craton::volume::segy {

namespace {

struct Candidate {
  int64_t samples;
  int extra_headers;
  const char* where;
  bool needs_confirmation;
};

using Header = std::array<std::byte, kTraceHeaderBytes>;

bool read_header(const ByteSource& source, uint64_t offset, Header& header) {
  if (offset > source.size() || source.size() - offset < header.size()) return false;
  source.read(offset, header);
  return true;
}

uint64_t bytes_of(const FileFacts& facts, int64_t samples, int extra_headers) {
  return kTraceHeaderBytes * static_cast<uint64_t>(1 + extra_headers) +
         static_cast<uint64_t>(samples) * static_cast<uint64_t>(sample_bytes(facts.format));
}

/// Additional trace headers that rev 2 files announce; 2.0 and 2.1 differ in the width of the
/// field.
std::vector<int> extra_header_candidates(std::span<const std::byte> binary,
                                         const FileFacts& facts) {
  std::vector<int> extras;
  if (facts.revision_major >= 2 && !binary.empty()) {
    const int first = load_at<uint16_t>(binary, 307, facts.order);
    const int second = load_at<uint16_t>(binary, 309, facts.order);
    if (first > 0 && first < 1024) extras.push_back(first);
    if (first == 0 && second > 0 && second < 1024 && facts.revision_minor == 0)
      extras.push_back(second);
  }
  extras.push_back(0);
  return extras;
}

std::vector<Candidate> candidates(const ReadOptions& options, std::span<const std::byte> binary,
                                  const Header& first, const FileFacts& facts) {
  struct Count {
    int64_t samples;
    const char* where;
    bool needs_confirmation;
  };
  std::vector<Count> counts;
  if (options.samples) {
    counts.push_back({*options.samples, "--samples", false});
  } else {
    if (!binary.empty()) {
      const int64_t plain = load_at<uint16_t>(binary, 21, facts.order);
      const int64_t extended =
          facts.revision_major >= 2 ? load_at<uint32_t>(binary, 69, facts.order) : 0;
      const bool sentinel = plain == 0 || plain == 32767 || plain == 65535;
      if (extended > 0 && sentinel)
        counts.push_back({extended, "the extended count in bytes 3269-72", false});
      if (plain > 0) counts.push_back({plain, "the binary header's count in bytes 3221-22", false});
      if (extended > 0 && !sentinel)
        counts.push_back({extended, "the extended count in bytes 3269-72", false});
    }
    const int64_t own = load_at<uint16_t>(first, 115, facts.order);
    if (own > 0)
      counts.push_back({own, "the first trace's count in bytes 115-116", !binary.empty()});
  }
  std::vector<Candidate> out;
  for (const Count& count : counts) {
    for (int extra : extra_header_candidates(binary, facts)) {
      out.push_back({count.samples, extra, count.where, count.needs_confirmation});
    }
  }
  return out;
}

/// Do the first traces and the last one say this count, at the places where they then would be?
bool confirmed(const ByteSource& source, const FileFacts& facts, const Candidate& candidate,
               uint64_t trace_bytes, int64_t traces) {
  Header header;
  for (int64_t trace : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{3}, traces / 2, traces - 1}) {
    if (trace < 0 || trace >= traces) continue;
    if (!read_header(source, facts.first_trace + static_cast<uint64_t>(trace) * trace_bytes,
                     header))
      return false;
    if (load_at<uint16_t>(header, 115, facts.order) != candidate.samples) return false;
  }
  return true;
}

void take(FileFacts& facts, const Candidate& candidate, uint64_t data_bytes) {
  facts.samples = candidate.samples;
  facts.extra_trace_headers = candidate.extra_headers;
  facts.header_bytes = kTraceHeaderBytes * static_cast<uint64_t>(1 + candidate.extra_headers);
  facts.trace_bytes = bytes_of(facts, candidate.samples, candidate.extra_headers);
  facts.traces = static_cast<int64_t>(data_bytes / facts.trace_bytes);
  facts.end_of_traces = facts.first_trace + static_cast<uint64_t>(facts.traces) * facts.trace_bytes;
}

/// Follows the traces by their own counts. True when that ends exactly at `end`; fills the offsets
/// then.
bool follow_own_counts(const ByteSource& source, FileFacts& facts, uint64_t end) {
  std::vector<uint64_t> offsets;
  int64_t longest = 0;
  uint64_t at = facts.first_trace;
  Header header;
  while (at < end) {
    if (!read_header(source, at, header)) return false;
    const int64_t samples = load_at<uint16_t>(header, 115, facts.order);
    const uint64_t bytes = bytes_of(facts, samples, 0);
    if (samples == 0 || bytes > end - at) return false;
    offsets.push_back(at);
    longest = std::max(longest, samples);
    at += bytes;
  }
  if (offsets.size() < 2) return false;
  offsets.push_back(end);
  facts.samples = longest;
  facts.traces = static_cast<int64_t>(offsets.size()) - 1;
  facts.trace_bytes = 0;
  facts.end_of_traces = end;
  facts.variable_offsets = std::move(offsets);
  facts.remarks.push_back(
      {fmt::format(
           "the traces differ in length (up to {} samples); shorter ones are filled with zeros",
           longest),
       ""});
  return true;
}

/// " (the size would fit --format 3 or --format 5)" or nothing.
std::string formats_that_fit(const FileFacts& facts, const Candidate& candidate,
                             uint64_t data_bytes) {
  std::string fitting;
  for (int format : {kIbmFloat, kInt16, kInt8, kIeeeDouble, kInt24}) {
    if (sample_bytes(format) == sample_bytes(facts.format)) continue;
    FileFacts other;
    other.format = format;
    if (data_bytes % bytes_of(other, candidate.samples, candidate.extra_headers) != 0) continue;
    fitting +=
        fmt::format("{}samples of {} bytes", fitting.empty() ? "" : ", ", sample_bytes(format));
  }
  return fitting.empty() ? "" : fmt::format("; {} would fit the size (--format)", fitting);
}

void explain_remainder(FileFacts& facts, const Candidate& candidate, uint64_t data_bytes,
                       bool lenient) {
  take(facts, candidate, data_bytes);
  const uint64_t left = data_bytes % facts.trace_bytes;
  const std::string found = fmt::format(
      "{} bytes of traces are no multiple of the trace length {} ({} header + {} samples of {} "
      "bytes, by {}): {} whole traces, "
      "then {} bytes from byte {}",
      data_bytes, facts.trace_bytes, facts.header_bytes, candidate.samples,
      sample_bytes(facts.format), candidate.where, facts.traces, left, facts.end_of_traces);
  if (lenient && facts.traces > 0) {
    facts.remarks.push_back({found + "; the rest is left out", "--lenient"});
    return;
  }
  facts.problem_code = ErrorCode::kCorrupt;
  facts.problem = fmt::format("{}{}; the file is cut or its headers are wrong: use --samples N{}",
                              found, formats_that_fit(facts, candidate, data_bytes),
                              facts.traces > 0 ? ", or --lenient to read the whole traces" : "");
}

uint64_t trailer_bytes(std::span<const std::byte> binary, const FileFacts& facts,
                       uint64_t data_bytes) {
  if (facts.revision_major < 2 || binary.empty()) return 0;
  const auto stanzas = load_at<int32_t>(binary, 329, facts.order);
  const uint64_t bytes = stanzas > 0 ? static_cast<uint64_t>(stanzas) * kTextHeaderBytes : 0;
  return bytes < data_bytes ? bytes : 0;
}

void remark_count(const FileFacts& facts, const Candidate& taken, const Header& first,
                  std::vector<Remark>& remarks) {
  const int64_t own = load_at<uint16_t>(first, 115, facts.order);
  if (own != 0 && own != taken.samples) {
    remarks.push_back(
        {fmt::format("trace headers say {} samples, but {} by {} fit the size of the file", own,
                     taken.samples, taken.where),
         "--samples"});
  }
}

}  // namespace

void decide_trace_layout(const ByteSource& source, const ReadOptions& options,
                         std::span<const std::byte> binary, FileFacts& facts) {
  const uint64_t size = source.size();
  uint64_t data_bytes = size > facts.first_trace ? size - facts.first_trace : 0;
  if (data_bytes == 0) {
    facts.problem = fmt::format(
        "the file holds no traces: it ends at byte {}, where the first trace would start", size);
    return;
  }
  Header first{};
  if (!read_header(source, facts.first_trace, first)) {
    facts.problem = fmt::format(
        "the file is cut: {} bytes follow the file header, less than one trace header (240)",
        data_bytes);
    return;
  }
  data_bytes -= trailer_bytes(binary, facts, data_bytes);
  const auto choices = candidates(options, binary, first, facts);
  if (choices.empty()) {
    facts.problem =
        "no header says how many samples a trace has (bytes 3221-22 and 115-116 are 0); use "
        "--samples N";
    return;
  }
  for (const Candidate& choice : choices) {
    const uint64_t bytes = bytes_of(facts, choice.samples, choice.extra_headers);
    if (data_bytes % bytes != 0) continue;
    const auto traces = static_cast<int64_t>(data_bytes / bytes);
    const bool agreed = confirmed(source, facts, choice, bytes, traces);
    if (choice.needs_confirmation && !agreed) continue;
    // Lengths that differ may add up to a multiple by chance: if the flag for equal lengths is not
    // set, the traces' own counts are tried.
    const bool may_differ = !agreed && !options.samples &&
                            (binary.empty() || load_at<int16_t>(binary, 303, facts.order) == 0);
    if (may_differ && follow_own_counts(source, facts, facts.first_trace + data_bytes)) return;
    take(facts, choice, data_bytes);
    remark_count(facts, choice, first, facts.remarks);
    return;
  }
  if (!options.samples && !options.lenient &&
      follow_own_counts(source, facts, facts.first_trace + data_bytes))
    return;
  explain_remainder(facts, choices.front(), data_bytes, options.lenient);
}

}  // namespace craton::volume::segy
