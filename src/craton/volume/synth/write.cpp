#include "craton/volume/synth/write.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/volume.h"

namespace craton::volume::synth {
namespace {

constexpr int64_t kBlockBytes = 48 << 20;

// A lateral chunk column is made in pieces of whole chunks along the samples: the longer, the fewer
// times its horizons are found.
struct Pieces {
  std::vector<int64_t> shape, chunk;
  std::vector<int64_t> grid;     // chunks per axis
  int64_t chunks_per_piece = 1;  // along the samples
  int64_t pieces_per_column = 1;
  int64_t count = 1;

  Pieces(std::vector<int64_t> volume, std::vector<int64_t> chunks)
      : shape(std::move(volume)), chunk(std::move(chunks)) {
    int64_t chunk_bytes = 4;
    for (size_t d = 0; d < shape.size(); ++d) {
      grid.push_back((shape[d] + chunk[d] - 1) / chunk[d]);
      chunk_bytes *= chunk[d];
    }
    chunks_per_piece = std::clamp<int64_t>(kBlockBytes / chunk_bytes, 1, grid.back());
    pieces_per_column = (grid.back() + chunks_per_piece - 1) / chunks_per_piece;
    count = pieces_per_column;
    for (size_t d = 0; d + 1 < grid.size(); ++d) count *= grid[d];
  }
};

int64_t product(std::span<const int64_t> numbers) {
  int64_t p = 1;
  for (const int64_t n : numbers) p *= n;
  return p;
}

// Makes piece `index` and writes its chunks.
int64_t write_piece(const SyntheticGeology& geology, const Pieces& pieces, int64_t index,
                    VolumeWriter& writer) {
  const size_t rank = pieces.shape.size();
  std::vector<int64_t> first(rank);  // chunk index
  int64_t rest = index / pieces.pieces_per_column;
  for (size_t d = rank - 1; d-- > 0;) {
    first[d] = rest % pieces.grid[d];
    rest /= pieces.grid[d];
  }
  first[rank - 1] = index % pieces.pieces_per_column * pieces.chunks_per_piece;
  std::vector<int64_t> origin(rank), shape(rank);
  for (size_t d = 0; d < rank; ++d) {
    origin[d] = first[d] * pieces.chunk[d];
    const int64_t chunks = d + 1 == rank ? pieces.chunks_per_piece : 1;
    shape[d] = std::min(chunks * pieces.chunk[d], pieces.shape[d] - origin[d]);
  }
  std::vector<float> block(static_cast<size_t>(product(shape)));
  const int64_t traces = product(std::span(shape).first(rank - 1));
  std::vector<uint8_t> live(static_cast<size_t>(traces));
  geology.generate(origin, shape, block, live);

  const int64_t columns = shape[rank - 2], chunk_columns = pieces.chunk[rank - 2];
  const int64_t samples = shape[rank - 1], chunk_samples = pieces.chunk[rank - 1];
  const int64_t chunk_traces = product(std::span(pieces.chunk).first(rank - 1));
  std::vector<float> out(static_cast<size_t>(chunk_traces * chunk_samples));
  std::vector<uint8_t> chunk_live(static_cast<size_t>(chunk_traces), 1);
  for (int64_t t = 0; t < samples; t += chunk_samples) {
    std::fill(out.begin(), out.end(), 0.0f);
    const int64_t take = std::min(chunk_samples, samples - t);
    for (int64_t n = 0; n < traces; ++n) {
      const int64_t to = n / columns * chunk_columns + n % columns;
      std::memcpy(out.data() + to * chunk_samples, block.data() + n * samples + t,
                  static_cast<size_t>(take) * sizeof(float));
      chunk_live[static_cast<size_t>(to)] = live[static_cast<size_t>(n)];
    }
    std::vector<int64_t> chunk = first;
    chunk[rank - 1] += t / chunk_samples;
    writer.write_chunk(chunk, out, chunk_live);
  }
  return product(shape);
}

}  // namespace

void write_synthetic_volume(std::string_view uri, const SyntheticGeology& geology,
                            const WriteOptions& options) {
  const GeologyOptions& made = geology.options();
  VolumeSpec spec;
  const bool line = made.shape.size() == 2;
  spec.name = line ? "PostStack2DTime" : "PostStack3DTime";
  spec.survey_type = line ? "2D" : "3D";
  spec.axes = geology.axes();
  spec.chunk_shape =
      options.chunk_shape.empty() ? default_chunk_shape(made.shape) : options.chunk_shape;
  if (spec.chunk_shape.size() != made.shape.size()) {
    fail(ErrorCode::kInvalidArgument, "chunks: {} numbers for a volume of {} axes",
         spec.chunk_shape.size(), made.shape.size());
  }
  for (size_t d = 0; d < made.shape.size(); ++d) {
    if (spec.chunk_shape[d] < 1)
      fail(ErrorCode::kInvalidArgument, "chunks: {} is no size of a chunk", spec.chunk_shape[d]);
    spec.chunk_shape[d] = std::min(spec.chunk_shape[d], made.shape[d]);
  }
  const Pieces pieces(made.shape, spec.chunk_shape);
  if (product(spec.chunk_shape) * 4 > (int64_t{1} << 30)) {
    fail(ErrorCode::kInvalidArgument, "chunks: one would be {} bytes; take at most 1 GiB",
         product(spec.chunk_shape) * 4);
  }
  const auto writer = create_volume(uri, spec, options.replace);
  const nlohmann::json origin = {
      {"kind", "synthetic"}, {"seed", made.seed}, {"dead", made.dead}, {"noise", made.noise}};
  writer->set_attribute("craton", origin.dump());
  std::mutex mutex;
  int64_t done = 0;
  runtime::parallel_for(static_cast<size_t>(pieces.count), options.threads, [&](size_t index) {
    if (options.cancel != nullptr && options.cancel->load()) {
      fail(ErrorCode::kCancelled, "interrupted; nothing was written");
    }
    const int64_t samples = write_piece(geology, pieces, static_cast<int64_t>(index), *writer);
    const std::lock_guard lock(mutex);
    done += samples;
    if (options.progress) options.progress(done);
  });
  writer->finish();
}

}  // namespace craton::volume::synth
