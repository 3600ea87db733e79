#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "craton/store/object_store.h"

namespace craton::store {

/// Reads joined into requests. Ranges of one version of one object become one request where little
/// is fetched in vain: a gap is at most 64 KiB, and all gaps of a request are at most a sixteenth
/// of the bytes that are wanted of it. A request is at most an eighth of the bytes that may be in
/// flight (and 8 MiB), unless one read is larger. Requests stand in the order of their first read.
struct RangePlan {
  struct Piece {
    size_t read = 0;      ///< index into the reads given
    uint64_t offset = 0;  ///< within the request's bytes
  };
  std::vector<ObjectRead> reads;
  size_t parallel = 1;  ///< requests that may be in flight within the limits

  std::span<const Piece> pieces_of(size_t request) const {
    return std::span(pieces).subspan(first_piece[request],
                                     first_piece[request + 1] - first_piece[request]);
  }
  std::vector<Piece> pieces;
  std::vector<size_t> first_piece;  ///< per request, and the end
};

/// Pure.
RangePlan plan_ranges(std::span<const ObjectRead> reads, const ReadLimits& limits);

}  // namespace craton::store
