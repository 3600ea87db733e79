#include "craton/store/range_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace craton::store {

namespace {

constexpr uint64_t kMostGap = 64 << 10;
constexpr uint64_t kMostRequest = 8 << 20;
constexpr uint64_t kWasteShare = 16;
/// What a read of a whole object is taken for, since nobody has said how long it is.
constexpr uint64_t kUnknownLength = 1 << 20;

bool can_be_joined(const ObjectRead& read) {
  return !read.from_end && read.length != ObjectRead::kWhole && read.offset <= ~0ull - read.length;
}

auto version_of(const ObjectRead& read) {
  return std::tie(read.key, read.etag, read.unless_etag, read.fresh);
}

struct Request {
  uint64_t begin = 0, end = 0;
  uint64_t wanted = 0;  ///< bytes of it that some read wants
  std::vector<size_t> reads;
};

}  // namespace

RangePlan plan_ranges(std::span<const ObjectRead> reads, const ReadLimits& limits) {
  const uint64_t most = std::clamp<uint64_t>(limits.bytes / 8, 1, kMostRequest);
  std::vector<size_t> order(reads.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return std::tuple(version_of(reads[a]), reads[a].offset) <
           std::tuple(version_of(reads[b]), reads[b].offset);
  });
  std::vector<Request> requests;
  for (const size_t i : order) {
    const ObjectRead& read = reads[i];
    const bool joins = can_be_joined(read);
    const uint64_t end = joins ? read.offset + read.length : 0;
    if (joins && !requests.empty()) {
      Request& last = requests.back();
      const ObjectRead& before = reads[last.reads.back()];
      const uint64_t gap = read.offset > last.end ? read.offset - last.end : 0;
      const uint64_t new_end = std::max(last.end, end);
      const uint64_t wanted = last.wanted + (new_end - last.end) - gap;
      const uint64_t waste = new_end - last.begin - wanted;
      if (can_be_joined(before) && version_of(before) == version_of(read) && gap <= kMostGap &&
          new_end - last.begin <= most && waste <= wanted / kWasteShare) {
        last.end = new_end;
        last.wanted = wanted;
        last.reads.push_back(i);
        continue;
      }
    }
    requests.push_back({read.offset, end, end - (joins ? read.offset : 0), {i}});
  }
  std::ranges::sort(requests, {}, [](const Request& r) { return std::ranges::min(r.reads); });
  RangePlan plan;
  uint64_t largest = 1;
  for (const Request& request : requests) {
    ObjectRead read = reads[request.reads.front()];
    if (can_be_joined(read)) {
      read.offset = request.begin;
      read.length = request.end - request.begin;
    }
    largest = std::max(largest, read.length == ObjectRead::kWhole ? kUnknownLength : read.length);
    plan.first_piece.push_back(plan.pieces.size());
    for (const size_t i : request.reads)
      plan.pieces.push_back({i, can_be_joined(reads[i]) ? reads[i].offset - request.begin : 0});
    plan.reads.push_back(std::move(read));
  }
  plan.first_piece.push_back(plan.pieces.size());
  plan.parallel = std::clamp<size_t>(static_cast<size_t>(limits.bytes / largest), 1,
                                     std::max<size_t>(1, limits.parallel));
  return plan;
}

}  // namespace craton::store
