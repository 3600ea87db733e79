#pragma once

#include <span>
#include <vector>

#include "craton/volume/sampling/chunk_cache.h"
#include "craton/volume/sampling/sampler.h"

namespace craton::volume {

/// The grid indexes of the chunks that the window touches.
std::vector<std::vector<int64_t>> chunks_of(const WindowSpec& spec, const VolumeInfo& info);

/// Fills `out` with the window in C order of its axes: copied from chunks, normalised, dead traces
/// 0, then flipped, scaled and given noise. A sample that is not finite becomes 0. The bits depend
/// on `spec`, `normalisation` and the volume alone. Chunks that are not in the cache are read
/// together, within `limits`.
void assemble_window(const WindowSpec& spec, const Volume& volume,
                     const Normalisation& normalisation, ChunkCache& cache, std::span<float> out,
                     const store::ReadLimits& limits = {});

}  // namespace craton::volume
