#include "craton/volume/sampling/turns.h"

#include <algorithm>
#include <cmath>

#include "craton/base/check.h"
#include "craton/base/philox.h"
#include "craton/volume/sampling/permutation.h"

namespace craton::volume {
namespace {

constexpr uint32_t kTurnStream = 0xffffffffu;  // no source has this number

std::vector<int64_t> quotas_for(const std::vector<double>& weights) {
  double total = 0;
  for (const double w : weights) total += w;
  std::vector<int64_t> quotas;
  int64_t used = 0;
  for (const double w : weights) {
    quotas.push_back(std::max<int64_t>(1, std::llround(w / total * Turns::kPeriod)));
    used += quotas.back();
  }
  // What rounding left over or took too much comes from the largest.
  *std::max_element(quotas.begin(), quotas.end()) += Turns::kPeriod - used;
  return quotas;
}

}  // namespace

Turns::Turns(const std::vector<double>& weights, uint64_t seed) : quotas_(quotas_for(weights)) {
  const Permutation shuffle(kPeriod, Philox(seed, RandomPurpose::kSampleOrder, 0, kTurnStream));
  std::vector<int64_t> seen(quotas_.size(), 0);
  for (int64_t n = 0; n < kPeriod; ++n) {
    int64_t slot = shuffle(n);
    size_t v = 0;
    while (slot >= quotas_[v]) slot -= quotas_[v++];
    turns_.push_back({static_cast<int32_t>(v), seen[v]++});
  }
}

Turns::Turn Turns::at(int64_t sample_number) const {
  CRATON_CHECK(sample_number >= 0);
  Turn turn = turns_[static_cast<size_t>(sample_number % kPeriod)];
  turn.index += sample_number / kPeriod * quotas_[static_cast<size_t>(turn.source)];
  return turn;
}

}  // namespace craton::volume
