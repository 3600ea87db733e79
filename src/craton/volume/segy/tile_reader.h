#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "craton/volume/segy/geometry.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {

/// An IBM word that does not come back from its float: trace (row of the table), then sample << 32
/// | word.
struct KeptWord {
  uint64_t trace;
  uint64_t sample_and_word;
  auto operator<=>(const KeptWord&) const = default;
};

/// Cuts the grid of traces into tiles of one chunk column each and copies a tile from the files to
/// the writer.
///
/// The traces of a tile are read in the order of the file, some neighbours in one read, and decoded
/// at once into the chunks that they cross: any order of traces in the file will do, and what is
/// read is decoded while it is in the cache. A tile whose samples do not fit into the memory
/// allowed is done in several slabs of samples, each a whole number of chunks deep.
class TileReader {
 public:
  /// All arguments must outlive the reader. `memory_bytes` is for the samples in flight of one call
  /// of `copy`.
  TileReader(std::span<const SourceFile> files, const TraceTable& table, const Geometry& geometry,
             const VolumeSpec& spec, uint64_t memory_bytes);
  ~TileReader();

  int64_t tiles() const { return tiles_; }

  /// Thread-safe for different tiles. `read` hears how many bytes of traces have been read. A tile
  /// that an earlier run has finished is only accounted for.
  void copy(int64_t tile, VolumeWriter& writer, const std::function<void(uint64_t)>& read);

  int64_t ibm_overflow() const { return ibm_overflow_; }
  /// IBM words that floats do not give back, also those that were too many to keep.
  int64_t odd_words() const { return odd_words_; }
  /// Sorted; at most four million.
  std::vector<KeptWord> take_kept_words();

 private:
  struct Tile;
  struct Piece;
  struct Findings;
  struct Scratch;
  struct Slab;
  std::vector<int64_t> index_of(int64_t tile) const;
  Tile lay_out(int64_t tile) const;
  void add(const Findings& findings);
  Slab begin_slab(Tile& tile, int64_t first_layer, bool headers, Scratch& scratch) const;
  void read_slab(Tile& tile, const Slab& slab, Scratch& scratch,
                 const std::function<void(uint64_t)>& read) const;
  void decode(const Piece& piece, const std::byte* raw, const Slab& slab, Scratch& scratch,
              Findings& findings) const;
  void look_for_odd_words(const Piece& piece, const std::byte* raw, Findings& findings) const;
  size_t header_width() const { return static_cast<size_t>(spec_.trace_header_bytes); }
  std::unique_ptr<Scratch> take_scratch();
  void give_back(std::unique_ptr<Scratch> scratch);

  std::span<const SourceFile> files_;
  const TraceTable& table_;
  const Geometry& geometry_;
  const VolumeSpec& spec_;
  std::vector<int64_t> trace_shape_, trace_chunk_, trace_grid_;  ///< without the sample axis
  int64_t tiles_ = 1, cells_per_tile_ = 1, samples_ = 0, chunk_samples_ = 1;
  int64_t layers_ = 0, layers_per_slab_ = 1;
  bool integers_ = false;
  int64_t ibm_overflow_ = 0, odd_words_ = 0;
  std::mutex mutex_;
  std::vector<KeptWord> kept_words_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

}  // namespace craton::volume::segy
