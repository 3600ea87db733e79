#include "craton/volume/segy/tile_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

#include "craton/volume/segy/ibm_words.h"

namespace craton::volume::segy {

namespace {

/// Traces closer than this are read together, up to so many bytes: they are decoded from the cache.
constexpr uint64_t kMergeGap = 4096, kMostPerRead = 192 << 10;
/// Of a file, and of a tile: 64 and 16 MiB.
constexpr size_t kMaxKeptWords = 4 << 20, kMaxWordsOfTile = 1 << 20;
/// Between the layers of a slab, so that a trace's samples do not all fall into the same cache
/// sets.
constexpr size_t kLayerGap = 272;

}  // namespace

/// A trace of the tile and what the slab needs of it.
struct TileReader::Piece {
  int64_t row = 0;   ///< of the trace table
  int64_t cell = 0;  ///< within the tile
  size_t file = 0;
  int64_t trace = 0;            ///< number within the file
  uint64_t begin = 0, end = 0;  ///< bytes of the file
  int64_t shift = 0;            ///< axis sample of the trace's sample 0
  int64_t from = 0, to = 0;  ///< the trace's samples that `begin` (behind a header) .. `end` hold
};

/// What a thread works with, kept from tile to tile: fresh pages cost more than decoding.
struct TileReader::Scratch {
  std::vector<std::byte> raw;      ///< as read
  std::vector<std::byte> headers;  ///< of all cells
  std::vector<float> samples;      ///< layers of chunks; or
  std::vector<int32_t> integers;
};

/// Some layers of a tile: axis samples begin .. end.
struct TileReader::Slab {
  int64_t first_layer = 0, end_layer = 0;
  int64_t begin = 0, end = 0;
  size_t stride = 0;  ///< elements from one layer to the next
  bool headers = false;
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
  Findings findings;
};

TileReader::TileReader(std::span<const SourceFile> files, const TraceTable& table,
                       const Geometry& geometry, const VolumeSpec& spec, uint64_t memory_bytes)
    : files_(files), table_(table), geometry_(geometry), spec_(spec) {
  for (size_t i = 0; i + 1 < spec.axes.size(); ++i) {
    trace_shape_.push_back(spec.axes[i].size());
    trace_chunk_.push_back(spec.chunk_shape[i]);
    trace_grid_.push_back((trace_shape_[i] + trace_chunk_[i] - 1) / trace_chunk_[i]);
    tiles_ *= trace_grid_[i];
    cells_per_tile_ *= trace_chunk_[i];
  }
  samples_ = spec.axes.back().size();
  chunk_samples_ = spec.chunk_shape.back();
  layers_ = (samples_ + chunk_samples_ - 1) / chunk_samples_;
  integers_ = spec.sample_type == "int32";
  const auto layer_bytes = static_cast<uint64_t>(cells_per_tile_ * chunk_samples_) * 4;
  layers_per_slab_ = std::clamp<int64_t>(
      static_cast<int64_t>(memory_bytes / std::max<uint64_t>(1, layer_bytes)), 1, layers_);
}

TileReader::~TileReader() = default;

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

/// What of each trace belongs to the slab; zeros where no trace lies, unless every sample is about
/// to be written.
TileReader::Slab TileReader::begin_slab(Tile& tile, int64_t first_layer, bool headers,
                                        Scratch& scratch) const {
  Slab slab;
  slab.first_layer = first_layer;
  slab.end_layer = std::min(first_layer + layers_per_slab_, layers_);
  slab.begin = slab.first_layer * chunk_samples_;
  slab.end = std::min(slab.end_layer * chunk_samples_, samples_);
  slab.headers = headers;
  const auto chunk = static_cast<size_t>(cells_per_tile_ * chunk_samples_);
  slab.stride = chunk + kLayerGap;
  bool whole = static_cast<int64_t>(tile.pieces.size()) == cells_per_tile_;
  for (Piece& piece : tile.pieces) {
    const FileFacts& facts = files_[piece.file].facts;
    const auto width = static_cast<uint64_t>(sample_bytes(facts.format));
    const int64_t own = facts.trace_samples(piece.trace);
    const uint64_t samples_at = facts.trace_offset(piece.trace) + facts.header_bytes;
    piece.from = std::clamp<int64_t>(slab.begin - piece.shift, 0, own);
    piece.to = std::clamp<int64_t>(slab.end - piece.shift, piece.from, own);
    piece.begin = samples_at + static_cast<uint64_t>(piece.from) * width;
    piece.end = samples_at + static_cast<uint64_t>(piece.to) * width;
    if (headers) {
      piece.from = 0;
      piece.begin = samples_at - facts.header_bytes;
    }
    whole = whole && piece.from + piece.shift <= slab.begin && piece.to + piece.shift >= slab.end;
  }
  const size_t elements = static_cast<size_t>(slab.end_layer - slab.first_layer) * slab.stride;
  const auto prepare = [&](auto& memory) {
    if (memory.size() < elements) memory.resize(elements);
    // The last layer may reach beyond the axis.
    const size_t zeros = whole ? slab.stride : elements;
    std::fill_n(memory.begin() + static_cast<int64_t>(elements - zeros), zeros, 0);
  };
  integers_ ? prepare(scratch.integers) : prepare(scratch.samples);
  if (headers) scratch.headers.assign(static_cast<size_t>(cells_per_tile_) * header_width(), {});
  return slab;
}

void TileReader::read_slab(Tile& tile, const Slab& slab, Scratch& scratch,
                           const std::function<void(uint64_t)>& read) const {
  const ByteOrder order = files_.front().facts.order;
  for (size_t first = 0, last = 0; first < tile.pieces.size(); first = last) {
    const size_t file = tile.pieces[first].file;
    const uint64_t begin = tile.pieces[first].begin;
    uint64_t end = begin, wanted = 0;
    // Neighbours; the gaps between them are read and left aside.
    for (; last < tile.pieces.size(); ++last) {
      const Piece& piece = tile.pieces[last];
      const bool joins = piece.file == file && piece.begin <= end + kMergeGap &&
                         (piece.end <= begin + kMostPerRead || last == first);
      if (!joins) break;
      end = std::max(end, piece.end);
      wanted += piece.end - piece.begin;
    }
    if (scratch.raw.size() < end - begin) scratch.raw.resize(end - begin);
    files_[file].source->read(begin, std::span(scratch.raw).first(end - begin));
    const FileFacts& facts = files_[file].facts;
    for (size_t i = first; i < last; ++i) {
      const Piece& piece = tile.pieces[i];
      const std::byte* raw = scratch.raw.data() + (piece.begin - begin);
      if (slab.headers) {
        if (const size_t width = header_width(); width > 0) {
          const auto record =
              std::span(scratch.headers).subspan(static_cast<size_t>(piece.cell) * width, width);
          std::memcpy(record.data(), raw, facts.header_bytes);
          if (facts.order != order) swap_trace_header(record);  // one order for the whole array
        }
        raw += facts.header_bytes;
      }
      decode(piece, raw, slab, scratch, tile.findings);
    }
    tile.findings.counts.bytes_read += wanted;
    read(wanted);
  }
}

/// Takes the samples of one trace into the chunks of the slab.
void TileReader::decode(const Piece& piece, const std::byte* raw, const Slab& slab,
                        Scratch& scratch, Findings& findings) const {
  const FileFacts& facts = files_[piece.file].facts;
  const auto width = static_cast<size_t>(sample_bytes(facts.format));
  if (facts.format == kIbmFloat && !integers_) look_for_odd_words(piece, raw, findings);
  const int64_t end = std::min(piece.to + piece.shift, slab.end);
  for (int64_t at = std::max(piece.from + piece.shift, slab.begin); at < end;) {
    const int64_t layer = at / chunk_samples_, inside = at - layer * chunk_samples_;
    const auto count = static_cast<size_t>(std::min(end - at, chunk_samples_ - inside));
    const size_t place = static_cast<size_t>(layer - slab.first_layer) * slab.stride +
                         static_cast<size_t>(piece.cell * chunk_samples_ + inside);
    const std::byte* from = raw + static_cast<size_t>(at - piece.shift - piece.from) * width;
    if (integers_) {
      decode_int32(facts.order, from, std::span(scratch.integers).subspan(place, count));
    } else {
      decode_samples(facts.format, facts.order, from,
                     std::span(scratch.samples).subspan(place, count));
    }
    at += static_cast<int64_t>(count);
  }
}

void TileReader::look_for_odd_words(const Piece& piece, const std::byte* raw,
                                    Findings& findings) const {
  const ByteOrder order = files_[piece.file].facts.order;
  const int64_t count = piece.to - piece.from;
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
        {static_cast<uint64_t>(piece.row), static_cast<uint64_t>(piece.from + i) << 32 | word});
  }
}

std::unique_ptr<TileReader::Scratch> TileReader::take_scratch() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<Scratch>();
  auto scratch = std::move(free_.back());
  free_.pop_back();
  return scratch;
}

void TileReader::give_back(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(scratch));
}

void TileReader::copy(int64_t number, VolumeWriter& writer,
                      const std::function<void(uint64_t)>& read) {
  if (const auto note = writer.finished_column(index_of(number))) {
    const Findings findings = Findings::from_note(*note);
    add(findings);
    return read(findings.counts.bytes_read);
  }
  Tile tile = lay_out(number);
  auto scratch = take_scratch();
  std::vector<int64_t> index = tile.index;
  index.push_back(0);
  for (int64_t first = 0; first < layers_; first += layers_per_slab_) {
    const Slab slab = begin_slab(tile, first, first == 0, *scratch);
    read_slab(tile, slab, *scratch, read);
    if (slab.headers && header_width() > 0)
      writer.write_trace_headers(tile.index, scratch->headers);
    for (index.back() = slab.first_layer; index.back() < slab.end_layer; ++index.back()) {
      const size_t at = static_cast<size_t>(index.back() - slab.first_layer) * slab.stride;
      const size_t chunk = slab.stride - kLayerGap;
      if (integers_) {
        writer.write_chunk_raw(
            index, std::as_bytes(std::span(scratch->integers).subspan(at, chunk)), tile.live);
      } else {
        writer.write_chunk(index, std::span(scratch->samples).subspan(at, chunk), tile.live);
      }
    }
  }
  give_back(std::move(scratch));
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
