#include "craton/volume/mdio/sample_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

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

}  // namespace

void SampleStatistics::add(size_t chunk, const Block& block) {
  std::vector<uint32_t> buckets(kBuckets, 0);
  // Lanes let the sums run in parallel and in an order that no compiler changes.
  double sum[kLanes] = {}, squares[kLanes] = {};
  float low[kLanes], high[kLanes];
  std::fill_n(low, kLanes, std::numeric_limits<float>::infinity());
  std::fill_n(high, kLanes, -std::numeric_limits<float>::infinity());
  int64_t counted[kLanes] = {};
  const auto take = [&](float value, size_t lane) {
    const bool use = value != 0 && std::isfinite(value);
    const double wide = use ? static_cast<double>(value) : 0.0;
    sum[lane] += wide;
    squares[lane] += wide * wide;
    counted[lane] += use;
    low[lane] = use && value < low[lane] ? value : low[lane];
    high[lane] = use && value > high[lane] ? value : high[lane];
  };
  for (size_t r = 0; r < block.counted.size(); ++r) {
    if (block.counted[r] == 0) continue;
    const float* row = block.samples.data() + r * block.row;
    size_t i = 0;
    for (; i + kLanes <= block.valid; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) take(row[i + lane], lane);
    for (size_t lane = 0; i < block.valid; ++i, ++lane) take(row[i], lane);
    for (i = 0; i < block.valid; ++i) ++buckets[std::bit_cast<uint32_t>(row[i]) >> kBucketShift];
  }
  Partial partial;
  partial.min = *std::min_element(low, low + kLanes);
  partial.max = *std::max_element(high, high + kLanes);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    partial.count += counted[lane];
    partial.sum += sum[lane];
    partial.sum_squares += squares[lane];
  }
  std::lock_guard lock(mutex_);
  partials_[chunk] = partial;
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += buckets[i];
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
