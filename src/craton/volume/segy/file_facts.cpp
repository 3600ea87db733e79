#include "craton/volume/segy/file_facts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "craton/volume/segy/trace_layout.h"

namespace craton::volume::segy {

namespace {

constexpr uint32_t kEndianConstant = 0x01020304, kPairSwapped = 0x02010403;
constexpr int kMaxExtendedHeaders = 100000;

struct Head {
  std::vector<std::byte> bytes;  ///< the first 3600 bytes, or the whole file if it is shorter
  std::span<const std::byte> text() const { return std::span(bytes).first(kTextHeaderBytes); }
  std::span<const std::byte> binary() const {
    return std::span(bytes).subspan(kTextHeaderBytes, 400);
  }
};

Head read_head(const ByteSource& source) {
  Head head;
  head.bytes.resize(static_cast<size_t>(std::min<uint64_t>(source.size(), kFileHeaderBytes)));
  source.read(0, head.bytes);
  return head;
}

bool format_exists(int64_t code) {
  return code >= 1 && code <= 16 && sample_bytes(static_cast<int>(code)) > 0;
}

/// The name of another well-known kind of file, by its first bytes; "" if it is none.
std::string other_kind(std::span<const std::byte> bytes) {
  struct Magic {
    std::string_view start, name;
  };
  static constexpr Magic kMagics[] = {
      {"\x89PNG", "a PNG picture"},
      {"\x1f\x8b", "a gzip file; unpack it first"},
      {"PK\x03\x04", "a ZIP file; unpack it first"},
      {"\x89HDF", "an HDF5 file"},
      {"CDF\x01", "a NetCDF file"},
      {"CDF\x02", "a NetCDF file"},
      {"%PDF", "a PDF document"},
      {"BZh", "a bzip2 file; unpack it first"},
      {"\xfd"
       "7zXZ",
       "an xz file; unpack it first"},
      {"\x28\xb5\x2f\xfd", "a zstd file; unpack it first"},
      {"\x7f"
       "ELF",
       "a program"},
      {"\x93NUMPY", "a NumPy array"},
      {"\x55\x3a", "a SEG-2 file"},
      {"\x3a\x55", "a SEG-2 file"},
      {"SQLite format", "a database"},
  };
  for (const Magic& magic : kMagics) {
    if (bytes.size() >= magic.start.size() &&
        std::memcmp(bytes.data(), magic.start.data(), magic.start.size()) == 0) {
      return std::string(magic.name);
    }
  }
  const bool plain = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) {
    const auto c = static_cast<uint8_t>(b);
    return (c >= 32 && c < 127) || c == '\n' || c == '\r' || c == '\t' || c >= 0x80;
  });
  return plain && !bytes.empty() && detect_text_encoding(bytes) == TextEncoding::kAscii
             ? "a text file"
             : "";
}

/// Traces from the first byte on, whose headers agree on count and interval: a Seismic Unix file
/// has no file header.
std::optional<ByteOrder> su_byte_order(const ByteSource& source) {
  for (ByteOrder order : {ByteOrder::kBig, ByteOrder::kLittle}) {
    std::array<std::byte, kTraceHeaderBytes> header;
    if (source.size() < header.size()) return std::nullopt;
    source.read(0, header);
    const uint64_t samples = load_at<uint16_t>(header, 115, order);
    const auto interval = load_at<uint16_t>(header, 117, order);
    const uint64_t trace_bytes = kTraceHeaderBytes + 4 * samples;
    if (samples == 0 || source.size() % trace_bytes != 0) continue;
    bool agrees = true;
    for (uint64_t trace = 1; agrees && trace < std::min<uint64_t>(source.size() / trace_bytes, 16);
         ++trace) {
      source.read(trace * trace_bytes, header);
      agrees = load_at<uint16_t>(header, 115, order) == samples &&
               load_at<uint16_t>(header, 117, order) == interval;
    }
    if (agrees) return order;
  }
  return std::nullopt;
}

void decide_byte_order(const ReadOptions& options, std::span<const std::byte> binary,
                       FileFacts& facts) {
  const auto big = load_at<uint32_t>(binary, 97, ByteOrder::kBig);
  const auto format_big = load_at<uint16_t>(binary, 25, ByteOrder::kBig);
  const auto format_little = load_at<uint16_t>(binary, 25, ByteOrder::kLittle);
  if (options.order) {
    facts.order = *options.order;
  } else if (big == kEndianConstant || big == __builtin_bswap32(kEndianConstant)) {
    facts.order = big == kEndianConstant ? ByteOrder::kBig : ByteOrder::kLittle;
  } else if (format_exists(format_big)) {
    facts.order = ByteOrder::kBig;
  } else if (format_exists(format_little)) {
    facts.order = ByteOrder::kLittle;
  } else {
    // Without a format code: intervals of 0.1 to 20 ms and counts up to 20,000 are usual.
    const auto plausible = [&](ByteOrder order) {
      const auto interval = load_at<uint16_t>(binary, 17, order);
      const auto samples = load_at<uint16_t>(binary, 21, order);
      return (interval >= 100 && interval <= 20000 ? 1 : 0) +
             (samples > 0 && samples <= 20000 ? 1 : 0);
    };
    facts.order = plausible(ByteOrder::kLittle) > plausible(ByteOrder::kBig) ? ByteOrder::kLittle
                                                                             : ByteOrder::kBig;
  }
}

void decide_revision(std::span<const std::byte> binary, FileFacts& facts) {
  int major = load_at<uint8_t>(binary, 301, facts.order);
  int minor = load_at<uint8_t>(binary, 302, facts.order);
  const bool constant = load_at<uint32_t>(binary, 97, facts.order) == kEndianConstant;
  if (major > 2 || minor > 16 || (major == 0 && minor > 0)) {
    facts.remarks.push_back(
        {fmt::format("strange revision {}.{} (bytes 3501-02); read as revision {}", major, minor,
                     constant                  ? 2
                     : minor > 16 || major > 2 ? 0
                                               : 1),
         ""});
    major = constant ? 2 : minor > 16 || major > 2 ? 0 : 1;
    minor = 0;
  }
  facts.revision_major = major;
  facts.revision_minor = minor;
}

bool decide_format(const ReadOptions& options, std::span<const std::byte> binary,
                   FileFacts& facts) {
  const auto code = load_at<uint16_t>(binary, 25, facts.order);
  if (options.format) {
    if (*options.format != code) {
      facts.remarks.push_back({fmt::format("the binary header says format {}, read as {} ({})",
                                           code, *options.format, format_name(*options.format)),
                               "--format"});
    }
    facts.format = *options.format;
    return true;
  }
  if (!format_exists(code)) {
    facts.problem_code = ErrorCode::kUnsupported;
    facts.problem = fmt::format(
        "sample format code {} in bytes 3225-26 is none of 1..12, 15, 16; if this is SEG-Y, use "
        "--format N (and --endian)",
        code);
    return false;
  }
  facts.format = code;
  return true;
}

/// "((SEG: EndText))" in either alphabet, written with or without blanks.
bool ends_extended_text(std::span<const std::byte> block) {
  for (TextEncoding encoding : {TextEncoding::kEbcdic, TextEncoding::kAscii}) {
    std::string text;
    for (char c : decode_text(block, encoding)) {
      if (c != ' ') text += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    if (text.find("((SEG:ENDTEXT))") != std::string::npos) return true;
  }
  return false;
}

bool find_first_trace(const ByteSource& source, const ReadOptions& options,
                      std::span<const std::byte> binary, FileFacts& facts) {
  int count = options.extended_headers.value_or(load_at<int16_t>(binary, 305, facts.order));
  if (count < 0) {
    std::vector<std::byte> block(kTextHeaderBytes);
    bool found = false;
    for (count = 0; !found && count < kMaxExtendedHeaders; ++count) {
      const uint64_t at = kFileHeaderBytes + kTextHeaderBytes * static_cast<uint64_t>(count);
      if (source.size() < at + kTextHeaderBytes) break;
      source.read(at, block);
      found = ends_extended_text(block);
    }
    if (!found) {
      facts.problem =
          "extended text headers of unknown number (bytes 3505-06 hold a negative count), but no "
          "((SEG: EndText)) follows; use "
          "--extended-headers N";
      return false;
    }
  }
  facts.extended_headers = count;
  facts.first_trace = kFileHeaderBytes + kTextHeaderBytes * static_cast<uint64_t>(count);
  if (facts.revision_major >= 2 && !options.extended_headers) {
    const auto announced = load_at<uint64_t>(binary, 321, facts.order);
    if (announced >= facts.first_trace && announced < source.size()) facts.first_trace = announced;
  }
  if (options.first_trace) facts.first_trace = *options.first_trace;
  if (facts.first_trace > source.size()) {
    facts.problem = fmt::format(
        "the file is cut or its count of extended text headers ({}, bytes 3505-06) is wrong: "
        "traces would start at byte {} of {}; "
        "use --extended-headers N",
        count, facts.first_trace, source.size());
    return false;
  }
  return true;
}

/// Negative and zero intervals are no intervals. The binary header's comes first.
void decide_interval(const ByteSource& source, const ReadOptions& options,
                     std::span<const std::byte> binary, FileFacts& facts) {
  if (options.interval_us) {
    facts.interval_us = *options.interval_us;
    return;
  }
  double from_binary = 0;
  if (!binary.empty()) {
    from_binary = load_at<int16_t>(binary, 17, facts.order);
    const auto extended =
        facts.revision_major >= 2 ? load_at<double>(binary, 73, facts.order) : 0.0;
    if (from_binary <= 0 && std::isfinite(extended) && extended > 1e-6 && extended < 1e9)
      from_binary = extended;
  }
  std::array<std::byte, kTraceHeaderBytes> header;
  source.read(facts.first_trace, header);
  const double from_trace = load_at<int16_t>(header, 117, facts.order);
  facts.interval_us = from_binary > 0 ? from_binary : std::max(from_trace, 0.0);
  if (from_binary < 0 || from_trace < 0 ||
      (from_binary > 0 && from_trace > 0 && from_binary != from_trace)) {
    facts.remarks.push_back({fmt::format("sample intervals differ: {} us in the binary header, {} "
                                         "us in the first trace; {} is used",
                                         from_binary, from_trace, facts.interval_us),
                             "--interval"});
  }
  if (facts.interval_us <= 0) {
    facts.remarks.push_back(
        {"no header says the sample interval; samples are numbered 0, 1, 2, ...", "--interval"});
  }
}

void check_options(const ReadOptions& options) {
  if (options.format && !format_exists(*options.format)) {
    fail(ErrorCode::kInvalidArgument,
         "--format {} is no SEG-Y sample format; expected 1..12, 15 or 16", *options.format);
  }
  if (options.samples && (*options.samples < 1 || *options.samples > (int64_t{1} << 31))) {
    fail(ErrorCode::kInvalidArgument, "--samples {} is out of range; expected 1..2147483648",
         *options.samples);
  }
  if (options.interval_us && !(*options.interval_us > 0 && *options.interval_us < 1e9)) {
    fail(ErrorCode::kInvalidArgument,
         "--interval {} is out of range; expected microseconds above 0", *options.interval_us);
  }
  if (options.extended_headers &&
      (*options.extended_headers < -1 || *options.extended_headers > kMaxExtendedHeaders)) {
    fail(ErrorCode::kInvalidArgument, "--extended-headers {} is out of range",
         *options.extended_headers);
  }
}

void inspect_su(const ByteSource& source, const ReadOptions& options, FileFacts& facts) {
  facts.su = true;
  facts.first_trace = options.first_trace.value_or(0);
  facts.format = options.format.value_or(kIeeeFloat);
  facts.order = options.order.value_or(su_byte_order(source).value_or(ByteOrder::kLittle));
  decide_trace_layout(source, options, {}, facts);
  if (facts.problem.empty()) decide_interval(source, options, {}, facts);
}

void remark_text(const Head& head, FileFacts& facts) {
  facts.text_encoding = detect_text_encoding(head.text());
  if (facts.text_encoding == TextEncoding::kUnreadable) {
    facts.remarks.push_back(
        {"the text header is neither EBCDIC nor ASCII; its bytes are kept as they are", ""});
    return;
  }
  std::string text = decode_text(head.text(), facts.text_encoding);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  if (facts.format == kIbmFloat && text.find("IEEE") != std::string::npos) {
    facts.remarks.push_back(
        {"the text header mentions IEEE, the binary header says IBM; the binary header rules",
         "--format"});
  }
  if (text.find("DEPTH") != std::string::npos) {
    facts.remarks.push_back(
        {"the text header mentions depth; samples are taken as time", "--domain depth"});
  }
}

void remark_traces(const ByteSource& source, std::span<const std::byte> binary, FileFacts& facts) {
  if (facts.revision_major >= 2) {
    const auto announced = load_at<uint64_t>(binary, 313, facts.order);
    if (announced != 0 && announced != static_cast<uint64_t>(facts.traces)) {
      facts.remarks.push_back({fmt::format("bytes 3513-20 announce {} traces, the file holds {}",
                                           announced, facts.traces),
                               ""});
    }
  }
  if (facts.end_of_traces < source.size() && facts.problem.empty() && facts.revision_major >= 2) {
    facts.remarks.push_back(
        {fmt::format("{} bytes of trailer follow the traces", source.size() - facts.end_of_traces),
         ""});
  }
}

/// Several independent checks, so that not every file with a lucky word passes for SEG-Y. Fills
/// `problem` when it is something else.
bool is_segy(const ByteSource& source, const Head& head, const ReadOptions& options,
             FileFacts& facts) {
  facts.problem_code = ErrorCode::kInvalidArgument;
  const std::string kind = other_kind(head.bytes);
  if (!kind.empty()) {
    facts.problem = fmt::format("not a SEG-Y file: it looks like {}", kind);
    return false;
  }
  const bool short_file = head.bytes.size() < kFileHeaderBytes;
  const bool bad_format =
      short_file ||
      (!options.format && !format_exists(load_at<uint16_t>(head.binary(), 25, ByteOrder::kBig)) &&
       !format_exists(load_at<uint16_t>(head.binary(), 25, ByteOrder::kLittle)));
  const bool bad_text =
      short_file || detect_text_encoding(head.text()) == TextEncoding::kUnreadable;
  if ((bad_format || bad_text) && su_byte_order(source)) {
    facts.problem =
        "looks like a Seismic Unix file (traces from the first byte, no file header); read it with "
        "--su";
    return false;
  }
  if (short_file) {
    facts.problem = fmt::format("not a SEG-Y file: {} bytes are less than the file header (3600)",
                                source.size());
    return false;
  }
  if (bad_format && bad_text) {
    facts.problem =
        "not a SEG-Y file: no readable text header in bytes 1-3200 and no sample format code in "
        "bytes 3225-26 (use --format N if it "
        "is one)";
    return false;
  }
  if (load_at<uint32_t>(head.binary(), 97, ByteOrder::kBig) == kPairSwapped && !options.order) {
    facts.problem_code = ErrorCode::kUnsupported;
    facts.problem =
        "bytes are swapped in pairs (bytes 3297-3300 hold 2 1 4 3), which is not supported; use "
        "--endian to insist";
    return false;
  }
  return true;
}

}  // namespace

int64_t FileFacts::trace_samples(int64_t trace) const {
  if (variable_offsets.empty()) return samples;
  const auto i = static_cast<size_t>(trace);
  return static_cast<int64_t>((variable_offsets[i + 1] - variable_offsets[i] - header_bytes) /
                              static_cast<uint64_t>(sample_bytes(format)));
}

FileFacts inspect(const ByteSource& source, const ReadOptions& options) {
  check_options(options);
  FileFacts facts;
  facts.name = source.name();
  facts.file_bytes = source.size();
  if (options.su) {
    inspect_su(source, options, facts);
    return facts;
  }
  const Head head = read_head(source);
  if (!is_segy(source, head, options, facts)) return facts;
  facts.problem_code = ErrorCode::kCorrupt;
  decide_byte_order(options, head.binary(), facts);
  decide_revision(head.binary(), facts);
  if (!decide_format(options, head.binary(), facts)) return facts;
  facts.feet = load_at<int16_t>(head.binary(), 55, facts.order) == 2;
  remark_text(head, facts);
  if (!find_first_trace(source, options, head.binary(), facts)) return facts;
  decide_trace_layout(source, options, head.binary(), facts);
  if (!facts.problem.empty()) return facts;
  decide_interval(source, options, head.binary(), facts);
  remark_traces(source, head.binary(), facts);
  return facts;
}

void require_readable(const FileFacts& facts) {
  if (!facts.problem.empty()) fail(facts.problem_code, "{}: {}", facts.name, facts.problem);
}

SampleProbe probe_samples(const ByteSource& source, const FileFacts& facts, int64_t max_traces) {
  SampleProbe probe;
  probe.traces = std::min(facts.traces, max_traces);
  const auto width = static_cast<size_t>(sample_bytes(facts.format));
  double sum = 0, sum_squares = 0;
  std::vector<std::byte> raw;
  std::vector<float> samples;
  for (int64_t i = 0; i < probe.traces; ++i) {
    const int64_t trace = probe.traces > 1 ? i * (facts.traces - 1) / (probe.traces - 1) : 0;
    // A long trace is looked at from its start only: 16 Ki samples tell enough.
    samples.resize(static_cast<size_t>(std::min<int64_t>(facts.trace_samples(trace), 16384)));
    raw.resize(samples.size() * width);
    source.read(facts.trace_offset(trace) + facts.header_bytes, raw);
    if (width == 4) count_leading_digits(facts.order, raw.data(), samples.size(), probe.digits);
    decode_samples(facts.format, facts.order, raw.data(), samples);
    for (float value : samples) {
      if (!std::isfinite(value)) ++probe.not_finite;
      if (!std::isfinite(value) || value == 0) continue;
      const double v = static_cast<double>(value);
      probe.min = probe.count == 0 ? v : std::min(probe.min, v);
      probe.max = probe.count == 0 ? v : std::max(probe.max, v);
      sum += v;
      sum_squares += v * v;
      ++probe.count;
    }
  }
  if (probe.count > 0) {
    const auto n = static_cast<double>(probe.count);
    probe.mean = sum / n;
    probe.standard_deviation = std::sqrt(std::max(0.0, sum_squares / n - probe.mean * probe.mean));
  }
  probe.looks_ieee =
      facts.format == kIbmFloat && probe.digits.nonzero >= 64 && probe.digits.share() > 0.01;
  probe.looks_ibm =
      facts.format == kIeeeFloat && probe.digits.nonzero >= 4096 && probe.digits.zero_digit == 0;
  return probe;
}

}  // namespace craton::volume::segy
