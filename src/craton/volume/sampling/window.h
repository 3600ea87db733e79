#pragma once

#include <span>

#include "craton/volume/sampling/chunk_cache.h"
#include "craton/volume/sampling/sampler.h"

namespace craton::volume {

/// Fills `out` with the window in C order of its axes: copied from chunks, normalised, dead traces
/// 0, then flipped, scaled and given noise. A sample that is not finite becomes 0. The bits depend
/// on `spec`, `normalisation` and the volume alone.
void assemble_window(const WindowSpec& spec, const Volume& volume,
                     const Normalisation& normalisation, ChunkCache& cache, std::span<float> out);

}  // namespace craton::volume
