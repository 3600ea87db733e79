#include "craton/volume/segy/tile_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "craton/volume/segy/ibm_words.h"

namespace craton::volume::segy {

namespace {

/// Traces closer than this are read together.
constexpr uint64_t kMergeGap = 4096;
/// Of a file, and of a tile: 64 and 16 MiB.
constexpr size_t kMaxKeptWords = 4 << 20, kMaxWordsOfTile = 1 << 20;

/// A layer takes a short run of each trace, far from one another: without being told, the processor
/// does not see the next one coming.
constexpr size_t kPiecesAhead = 8, kMostAhead = 1024;

void prefetch(const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < std::min(bytes, kMostAhead); i += 64) __builtin_prefetch(at + i);
}

}  // namespace

/// A trace of the tile and where its bytes of the slab are.
struct TileReader::Piece {
  int64_t row = 0;   ///< of the trace table
  int64_t cell = 0;  ///< within the tile
  size_t file = 0;
  int64_t trace = 0;            ///< number within the file
  uint64_t begin = 0, end = 0;  ///< bytes of the file that the slab needs
  int64_t shift = 0;            ///< axis sample of the trace's sample 0
  int64_t from = 0, to = 0;  ///< the trace's samples that `begin` (behind a header) .. `end` hold
  size_t at = 0;             ///< place of `begin` in the buffer
  size_t samples_at = 0;     ///< place of sample `from` in the buffer
};

/// What is learnt of a tile beside its samples; as bytes it is the note of the finished column.
struct TileReader::Findings {
  struct Counts {
    uint64_t bytes_read = 0;
    int64_t ibm_overflow = 0;
    int64_t odd_words = 0;  ///< also those beyond the limit
  } counts;
  std::vector<KeptWord> words;

  std::string note() const {
    std::string out(sizeof(Counts) + sizeof(KeptWord) * words.size(), '\0');
    std::memcpy(out.data(), &counts, sizeof(Counts));
    if (!words.empty())
      std::memcpy(out.data() + sizeof(Counts), words.data(), sizeof(KeptWord) * words.size());
    return out;
  }
  static Findings from_note(const std::string& note) {
    Findings out;
    if (note.size() < sizeof(Counts) || (note.size() - sizeof(Counts)) % sizeof(KeptWord) != 0)
      fail(ErrorCode::kCorrupt, "an unfinished volume holds a note of {} bytes", note.size());
    std::memcpy(&out.counts, note.data(), sizeof(Counts));
    out.words.resize((note.size() - sizeof(Counts)) / sizeof(KeptWord));
    if (!out.words.empty())
      std::memcpy(out.words.data(), note.data() + sizeof(Counts), note.size() - sizeof(Counts));
    return out;
  }
};

struct TileReader::Tile {
  std::vector<int64_t> index;  ///< grid index without the sample axis
  std::vector<Piece> pieces;   ///< in file order
  std::vector<uint8_t> live;   ///< per cell of the tile
  std::vector<std::byte> buffer;
  std::vector<float> chunk;
  std::vector<int32_t> integer_chunk;
  Findings findings;
};

TileReader::TileReader(std::span<const SourceFile> files, const TraceTable& table,
                       const Geometry& geometry, const VolumeSpec& spec, uint64_t memory_bytes)
    : files_(files), table_(table), geometry_(geometry), spec_(spec), memory_bytes_(memory_bytes) {
  for (size_t i = 0; i + 1 < spec.axes.size(); ++i) {
    trace_shape_.push_back(spec.axes[i].size());
    trace_chunk_.push_back(spec.chunk_shape[i]);
    trace_grid_.push_back((trace_shape_[i] + trace_chunk_[i] - 1) / trace_chunk_[i]);
    tiles_ *= trace_grid_[i];
    cells_per_tile_ *= trace_chunk_[i];
  }
  samples_ = spec.axes.back().size();
  chunk_samples_ = spec.chunk_shape.back();
}

std::vector<int64_t> TileReader::index_of(int64_t tile) const {
  std::vector<int64_t> index(trace_shape_.size());
  for (size_t d = index.size(); d-- > 0;) {
    index[d] = tile % trace_grid_[d];
    tile /= trace_grid_[d];
  }
  return index;
}

TileReader::Tile TileReader::lay_out(int64_t tile) const {
  const size_t dims = trace_shape_.size();
  Tile out;
  out.index = index_of(tile);
  out.live.assign(static_cast<size_t>(cells_per_tile_), 0);
  for (int64_t cell = 0; cell < cells_per_tile_; ++cell) {
    int64_t rest = cell, global = 0, stride = 1;
    bool inside = true;
    for (size_t d = dims; d-- > 0;) {
      const int64_t at = out.index[d] * trace_chunk_[d] + rest % trace_chunk_[d];
      rest /= trace_chunk_[d];
      inside = inside && at < trace_shape_[d];
      global += at * stride;
      stride *= trace_shape_[d];
    }
    const int64_t row = inside ? geometry_.trace_of_cell[static_cast<size_t>(global)] : -1;
    if (row < 0) continue;
    out.live[static_cast<size_t>(cell)] = table_.dead[static_cast<size_t>(row)] == 0 ? 1 : 0;
    Piece piece;
    piece.row = row;
    piece.cell = cell;
    std::tie(piece.file, piece.trace) = table_.locate(row);
    piece.shift = geometry_.shift.empty() ? 0 : geometry_.shift[static_cast<size_t>(row)];
    out.pieces.push_back(piece);
  }
  std::sort(out.pieces.begin(), out.pieces.end(),
            [](const Piece& a, const Piece& b) { return a.row < b.row; });
  return out;
}

int64_t TileReader::layers_per_slab(const Tile& tile) const {
  uint64_t widest = 1;
  for (const SourceFile& file : files_)
    widest = std::max(widest, static_cast<uint64_t>(sample_bytes(file.facts.format)));
  const uint64_t layer_bytes =
      std::max<uint64_t>(1, tile.pieces.size() * static_cast<uint64_t>(chunk_samples_) * widest);
  return std::max<int64_t>(1, static_cast<int64_t>(memory_bytes_ / layer_bytes));
}

void TileReader::read_slab(Tile& tile, int64_t first_sample, int64_t end_sample, bool headers,
                           const std::function<void(uint64_t)>& read) const {
  uint64_t wanted = 0;
  for (Piece& piece : tile.pieces) {
    const FileFacts& facts = files_[piece.file].facts;
    const auto width = static_cast<uint64_t>(sample_bytes(facts.format));
    const int64_t own = facts.trace_samples(piece.trace);
    const uint64_t start = facts.trace_offset(piece.trace);
    piece.from = std::clamp<int64_t>(first_sample - piece.shift, 0, own);
    piece.to = std::clamp<int64_t>(end_sample - piece.shift, piece.from, own);
    if (headers) piece.from = 0;
    piece.begin =
        headers ? start : start + facts.header_bytes + static_cast<uint64_t>(piece.from) * width;
    piece.end = start + facts.header_bytes + static_cast<uint64_t>(piece.to) * width;
    wanted += piece.end - piece.begin;
  }
  // Runs of neighbouring pieces; the gaps between them are read and left aside.
  struct Run {
    size_t file;
    uint64_t begin, end;
    size_t at;
  };
  std::vector<Run> runs;
  size_t at = 0;
  for (Piece& piece : tile.pieces) {
    if (runs.empty() || runs.back().file != piece.file ||
        piece.begin > runs.back().end + kMergeGap) {
      if (!runs.empty()) at += runs.back().end - runs.back().begin;
      runs.push_back({piece.file, piece.begin, piece.end, at});
    }
    Run& run = runs.back();
    run.end = std::max(run.end, piece.end);
    piece.at = run.at + (piece.begin - run.begin);
    piece.samples_at = piece.at + (headers ? files_[piece.file].facts.header_bytes : 0);
  }
  if (!runs.empty()) at += runs.back().end - runs.back().begin;
  if (tile.buffer.size() < at) tile.buffer.resize(at);
  for (const Run& run : runs) {
    files_[run.file].source->read(run.begin,
                                  std::span(tile.buffer).subspan(run.at, run.end - run.begin));
  }
  tile.findings.counts.bytes_read += wanted;
  read(wanted);
}

void TileReader::write_headers(const Tile& tile, VolumeWriter& writer) const {
  const auto width = static_cast<size_t>(spec_.trace_header_bytes);
  std::vector<std::byte> records(static_cast<size_t>(cells_per_tile_) * width);
  const ByteOrder order = files_.front().facts.order;
  for (const Piece& piece : tile.pieces) {
    const FileFacts& facts = files_[piece.file].facts;
    const auto record = std::span(records).subspan(static_cast<size_t>(piece.cell) * width, width);
    std::memcpy(record.data(), tile.buffer.data() + piece.at, facts.header_bytes);
    if (facts.order != order) swap_trace_header(record);  // one byte order for the whole array
  }
  writer.write_trace_headers(tile.index, records);
}

void TileReader::look_for_odd_words(const Piece& piece, const std::byte* raw, int64_t first_sample,
                                    int64_t count, Findings& findings) const {
  const ByteOrder order = files_[piece.file].facts.order;
  if (all_come_back(order, raw, static_cast<size_t>(count))) return;
  for (int64_t i = 0; i < count; ++i) {
    const auto word = load<uint32_t>(raw + 4 * i, order);
    if (comes_back(word)) continue;
    const float value = ibm_to_float(word);
    findings.counts.ibm_overflow += std::isinf(value) ? 1 : 0;
    if (spec_.trace_header_bytes == 0 || float_to_ibm(value) == word) continue;
    ++findings.counts.odd_words;
    if (findings.words.size() == kMaxWordsOfTile) continue;
    findings.words.push_back(
        {static_cast<uint64_t>(piece.row), static_cast<uint64_t>(first_sample + i) << 32 | word});
  }
}

void TileReader::write_layer(Tile& tile, int64_t layer, VolumeWriter& writer) {
  const int64_t begin = layer * chunk_samples_, end = std::min(begin + chunk_samples_, samples_);
  const bool integers = spec_.sample_type == "int32";
  const auto elements = static_cast<size_t>(cells_per_tile_ * chunk_samples_);
  integers ? tile.integer_chunk.resize(elements) : tile.chunk.resize(elements);
  const auto raw_of = [&](const Piece& piece, int64_t from) {
    return tile.buffer.data() + piece.samples_at +
           static_cast<size_t>(from - piece.from) *
               static_cast<size_t>(sample_bytes(files_[piece.file].facts.format));
  };
  // Zeros where no trace lies, unless every sample of the chunk is about to be written.
  const bool whole = static_cast<int64_t>(tile.pieces.size()) == cells_per_tile_ &&
                     end - begin == chunk_samples_ &&
                     std::all_of(tile.pieces.begin(), tile.pieces.end(), [&](const Piece& piece) {
                       return piece.from + piece.shift <= begin && piece.to + piece.shift >= end;
                     });
  if (!whole && integers) std::fill(tile.integer_chunk.begin(), tile.integer_chunk.end(), 0);
  if (!whole && !integers) std::fill(tile.chunk.begin(), tile.chunk.end(), 0.0f);
  for (size_t i = 0; i < tile.pieces.size(); ++i) {
    const Piece& piece = tile.pieces[i];
    const FileFacts& facts = files_[piece.file].facts;
    const int64_t from = std::max(begin - piece.shift, piece.from),
                  to = std::min(end - piece.shift, piece.to);
    if (i + kPiecesAhead < tile.pieces.size()) {
      const Piece& ahead = tile.pieces[i + kPiecesAhead];
      prefetch(raw_of(ahead, std::clamp(begin - ahead.shift, ahead.from, ahead.to)),
               static_cast<size_t>(chunk_samples_) * 4);
    }
    if (from >= to) continue;
    const std::byte* raw = raw_of(piece, from);
    const auto place =
        static_cast<size_t>(piece.cell * chunk_samples_ + from + piece.shift - begin);
    const auto count = static_cast<size_t>(to - from);
    if (integers) {
      decode_int32(facts.order, raw, std::span(tile.integer_chunk).subspan(place, count));
      continue;
    }
    if (facts.format == kIbmFloat) look_for_odd_words(piece, raw, from, to - from, tile.findings);
    decode_samples(facts.format, facts.order, raw, std::span(tile.chunk).subspan(place, count));
  }
  std::vector<int64_t> index = tile.index;
  index.push_back(layer);
  if (integers) {
    writer.write_chunk_raw(index, std::as_bytes(std::span(tile.integer_chunk)), tile.live);
  } else {
    writer.write_chunk(index, tile.chunk, tile.live);
  }
}

void TileReader::copy(int64_t number, VolumeWriter& writer,
                      const std::function<void(uint64_t)>& read) {
  if (const auto note = writer.finished_column(index_of(number))) {
    const Findings findings = Findings::from_note(*note);
    add(findings);
    return read(findings.counts.bytes_read);
  }
  Tile tile = lay_out(number);
  const int64_t layers = (samples_ + chunk_samples_ - 1) / chunk_samples_;
  const int64_t per_slab = layers_per_slab(tile);
  for (int64_t first = 0; first < layers; first += per_slab) {
    const int64_t end = std::min(first + per_slab, layers);
    const bool headers = first == 0;
    read_slab(tile, first * chunk_samples_, std::min(end * chunk_samples_, samples_), headers,
              read);
    if (headers && spec_.trace_header_bytes > 0) write_headers(tile, writer);
    for (int64_t layer = first; layer < end; ++layer) write_layer(tile, layer, writer);
  }
  add(tile.findings);
  writer.finish_column(tile.index, tile.findings.note());
}

/// Of more words than can be kept the first ones are, whatever the order in which tiles end.
void TileReader::add(const Findings& findings) {
  const std::lock_guard lock(mutex_);
  ibm_overflow_ += findings.counts.ibm_overflow;
  odd_words_ += findings.counts.odd_words;
  kept_words_.insert(kept_words_.end(), findings.words.begin(), findings.words.end());
  if (kept_words_.size() < 2 * kMaxKeptWords) return;
  std::nth_element(kept_words_.begin(), kept_words_.begin() + kMaxKeptWords, kept_words_.end());
  kept_words_.resize(kMaxKeptWords);
}

std::vector<KeptWord> TileReader::take_kept_words() {
  std::sort(kept_words_.begin(), kept_words_.end());
  if (kept_words_.size() > kMaxKeptWords) kept_words_.resize(kMaxKeptWords);
  return std::move(kept_words_);
}

}  // namespace craton::volume::segy
