#include "craton/volume/mdio/sample_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "craton/base/error.h"
#include "craton/base/wide_loops.h"

namespace craton::volume::mdio {

namespace {

constexpr size_t kLanes = 8;
constexpr size_t kHistogramBins = 256;

/// Spreads `count` over [low, high) as whole numbers on the uniform bins of [min, min +
/// kHistogramBins * width).
void spread(std::vector<int64_t>& bins, double min, double width, double low, double high,
            int64_t count) {
  const auto bin_of = [&](double value) {
    return static_cast<size_t>(
        std::clamp((value - min) / width, 0.0, static_cast<double>(kHistogramBins - 1)));
  };
  const size_t first = bin_of(low), last = bin_of(high);
  int64_t placed = 0;
  for (size_t bin = first; bin <= last; ++bin) {
    const double upto = std::min(high, min + width * static_cast<double>(bin + 1));
    const double share = bin == last || high <= low ? 1.0 : (upto - low) / (high - low);
    const auto target = static_cast<int64_t>(
        std::llround(std::clamp(share, 0.0, 1.0) * static_cast<double>(count)));
    bins[bin] += std::max<int64_t>(0, target - placed);
    placed = std::max(placed, target);
  }
}

/// Sums that run side by side, in an order that no compiler changes.
struct Lanes {
  double sum[kLanes] = {}, squares[kLanes] = {};
  float low[kLanes], high[kLanes];
  int64_t counted[kLanes] = {};

  Lanes() {
    std::fill_n(low, kLanes, std::numeric_limits<float>::infinity());
    std::fill_n(high, kLanes, -std::numeric_limits<float>::infinity());
  }
  void add(const float* row, size_t count);
};

using Floats = float __attribute__((vector_size(4 * kLanes)));
using Words = uint32_t __attribute__((vector_size(4 * kLanes)));
using Doubles = double __attribute__((vector_size(4 * kLanes)));  // half as many

/// Zeros, NaN and infinity do not count: they become zeros, and no bounds. In vectors of the
/// language, since compilers do not see them in the loop over lanes. Fewer than 2^31 steps.
CRATON_WIDE void add_whole(Lanes& lanes, const float* row, size_t steps) {
  Floats low, high;
  Doubles sum[2], squares[2];
  std::memcpy(&low, lanes.low, sizeof(low));
  std::memcpy(&high, lanes.high, sizeof(high));
  std::memcpy(sum, lanes.sum, sizeof(sum));
  std::memcpy(squares, lanes.squares, sizeof(squares));
  Words counted = {};
  for (size_t step = 0; step < steps; ++step, row += kLanes) {
    Floats value;
    std::memcpy(&value, row, sizeof(value));
    const Words bits = (Words)value;
    const auto use = (bits & 0x7fffffffu) - 1 < 0x7f7fffffu;
    counted -= (Words)use;
    const Words kept = bits & (Words)use;
    const Floats number = (Floats)kept;
    const Doubles wide[2] = {
        __builtin_convertvector(__builtin_shufflevector(number, number, 0, 1, 2, 3), Doubles),
        __builtin_convertvector(__builtin_shufflevector(number, number, 4, 5, 6, 7), Doubles)};
    for (int half = 0; half < 2; ++half) {
      sum[half] += wide[half];
      squares[half] += wide[half] * wide[half];
    }
    low = use & (value < low) ? value : low;
    high = use & (value > high) ? value : high;
  }
  std::memcpy(lanes.low, &low, sizeof(low));
  std::memcpy(lanes.high, &high, sizeof(high));
  std::memcpy(lanes.sum, sum, sizeof(sum));
  std::memcpy(lanes.squares, squares, sizeof(squares));
  for (size_t lane = 0; lane < kLanes; ++lane) lanes.counted[lane] += counted[lane];
}

void Lanes::add(const float* row, size_t count) {
  add_whole(*this, row, count / kLanes);
  const size_t rest = count % kLanes;
  if (rest == 0) return;
  float padded[kLanes] = {};
  std::copy_n(row + count - rest, rest, padded);
  add_whole(*this, padded, 1);
}

}  // namespace

void SampleStatistics::add(size_t chunk, const Block& block) {
  std::vector<uint32_t> buckets(2 * kBuckets, 0);
  Lanes lanes;
  for (size_t r = 0; r < block.counted.size(); ++r) {
    if (block.counted[r] == 0) continue;
    const float* row = block.samples.data() + r * block.row;
    lanes.add(row, block.valid);
    // Neighbours fall into the same bucket more often than not: two tables, so that they need not
    // wait for one another.
    uint32_t* even = buckets.data();
    uint32_t* odd = even + kBuckets;
    size_t i = 0;
    for (; i + 2 <= block.valid; i += 2) {
      ++even[std::bit_cast<uint32_t>(row[i]) >> kBucketShift];
      ++odd[std::bit_cast<uint32_t>(row[i + 1]) >> kBucketShift];
    }
    if (i < block.valid) ++even[std::bit_cast<uint32_t>(row[i]) >> kBucketShift];
  }
  for (size_t i = 0; i < kBuckets; ++i) buckets[i] += buckets[kBuckets + i];
  Partial partial;
  partial.min = *std::min_element(lanes.low, lanes.low + kLanes);
  partial.max = *std::max_element(lanes.high, lanes.high + kLanes);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    partial.count += lanes.counted[lane];
    partial.sum += lanes.sum[lane];
    partial.sum_squares += lanes.squares[lane];
  }
  std::lock_guard lock(mutex_);
  partials_[chunk] = partial;
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += buckets[i];
  if (chunks_per_column_ == 0) return;
  std::vector<int64_t>& column = open_columns_[chunk / chunks_per_column_];
  column.resize(kBuckets, 0);
  for (size_t i = 0; i < kBuckets; ++i) column[i] += buckets[i];
}

// Sums and bounds go as bit patterns: they must come back exactly, and some are infinite.
nlohmann::json SampleStatistics::take_column(size_t column) {
  nlohmann::json chunks = nlohmann::json::array(), buckets = nlohmann::json::array();
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < chunks_per_column_; ++i) {
    const Partial& p = partials_[column * chunks_per_column_ + i];
    chunks.push_back({p.count, std::bit_cast<uint64_t>(p.sum),
                      std::bit_cast<uint64_t>(p.sum_squares), std::bit_cast<uint32_t>(p.min),
                      std::bit_cast<uint32_t>(p.max)});
  }
  const auto open = open_columns_.find(column);
  for (size_t i = 0; open != open_columns_.end() && i < kBuckets; ++i) {
    if (open->second[i] > 0) buckets.push_back({i, open->second[i]});
  }
  open_columns_.erase(column);
  return {{"chunks", std::move(chunks)}, {"buckets", std::move(buckets)}};
}

void SampleStatistics::restore_column(size_t column, const nlohmann::json& state) {
  try {
    std::vector<Partial> partials;
    for (const nlohmann::json& c : state.at("chunks")) {
      partials.push_back({c.at(0).get<int64_t>(), std::bit_cast<double>(c.at(1).get<uint64_t>()),
                          std::bit_cast<double>(c.at(2).get<uint64_t>()),
                          std::bit_cast<float>(c.at(3).get<uint32_t>()),
                          std::bit_cast<float>(c.at(4).get<uint32_t>())});
    }
    std::lock_guard lock(mutex_);
    if (partials.size() != chunks_per_column_)
      fail(ErrorCode::kCorrupt, "{} chunks in a column of {}", partials.size(), chunks_per_column_);
    std::ranges::copy(partials,
                      partials_.begin() + static_cast<ptrdiff_t>(column * chunks_per_column_));
    for (const nlohmann::json& b : state.at("buckets"))
      buckets_.at(b.at(0).get<size_t>()) += b.at(1).get<int64_t>();
  } catch (const nlohmann::json::exception& e) {
    fail(ErrorCode::kCorrupt, "statistics of a chunk column: {}", e.what());
  } catch (const std::out_of_range&) {
    fail(ErrorCode::kCorrupt, "statistics of a chunk column: no such bucket");
  }
}

Statistics SampleStatistics::total() const {
  std::lock_guard lock(mutex_);
  Statistics out;
  out.min = std::numeric_limits<double>::infinity();
  out.max = -out.min;
  for (const Partial& p : partials_) {
    if (p.count == 0) continue;
    out.count += p.count;
    out.sum += p.sum;
    out.sum_squares += p.sum_squares;
    out.min = std::min(out.min, static_cast<double>(p.min));
    out.max = std::max(out.max, static_cast<double>(p.max));
  }
  if (out.count == 0) return {};
  const double width = out.max > out.min ? (out.max - out.min) / kHistogramBins : 1.0;
  out.histogram_counts.assign(kHistogramBins, 0);
  for (size_t i = 0; i < kHistogramBins; ++i)
    out.histogram_centers.push_back(out.min + width * (static_cast<double>(i) + 0.5));
  constexpr uint32_t kSignBucket = 1u << (31 - kBucketShift);
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (buckets_[bucket] == 0 || (bucket & ~kSignBucket) == 0)
      continue;  // the bucket of zero holds zeros and the tiniest denormals
    const float inner = std::bit_cast<float>(bucket << kBucketShift);
    const float outer = std::bit_cast<float>((bucket + 1) << kBucketShift);
    if (!std::isfinite(inner)) continue;
    double a = inner,
           b = std::isfinite(outer) ? static_cast<double>(outer) : static_cast<double>(inner);
    if (a > b) std::swap(a, b);
    a = std::clamp(a, out.min, out.max);
    b = std::clamp(b, out.min, out.max);
    spread(out.histogram_counts, out.min, width, a, b, buckets_[bucket]);
  }
  return out;
}

}  // namespace craton::volume::mdio
