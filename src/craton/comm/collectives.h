#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "craton/comm/communicator.h"

namespace craton::comm {

/// Collectives over all ranks of a communicator. Each rank calls with the same operation number,
/// which no other message or collective of the generation may carry; different threads may run
/// different collectives at once. Errors are those of the communicator. Sums are taken in the order
/// of the ranks, so that they do not depend on the transport or on timing (they do depend on the
/// number of ranks: see parallel/ for the sum that does not).
///
/// Data in buffers of the endpoint is sent from where it lies; other memory is copied once.

/// The part of `elements` that a rank holds: equal parts, cut at cache lines of floats.
struct Part {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};
Part part_of(size_t elements, int world_size, Rank rank);

/// Returns when all ranks have entered. log2(ranks) messages each.
void barrier(Communicator& comm, uint64_t operation);

/// The root's bytes to all. Every rank gives a span of the same size.
void broadcast(Communicator& comm, uint64_t operation, Rank root, std::span<std::byte> bytes);

/// Every rank's bytes, by rank; sizes may differ.
std::vector<std::vector<std::byte>> all_gather_bytes(Communicator& comm, uint64_t operation,
                                                     std::span<const std::byte> own);

/// [elements] -> own part holds the sum over ranks; the rest of `data` is as before, and free to be
/// changed on return. Moves elements × (ranks − 1) / ranks to each rank.
void reduce_scatter(Communicator& comm, uint64_t operation, std::span<float> data);

/// Own part -> all parts on all ranks.
void all_gather(Communicator& comm, uint64_t operation, std::span<float> data);

/// For a few numbers: all to all, summed in rank order by each rank. Every rank gets the same bits.
void all_reduce_small(Communicator& comm, uint64_t operation, std::span<double> values);

}  // namespace craton::comm
