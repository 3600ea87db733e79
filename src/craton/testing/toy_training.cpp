#include "craton/testing/toy_training.h"

namespace craton::testing {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b + 0x2545f4914f6cdd1du;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

ToyTraining::Values ToyTraining::initial() const {
  Values values;
  for (int s = 0; s < shards; ++s) values.push_back(mix(seed, static_cast<uint64_t>(s)));
  return values;
}

uint64_t ToyTraining::gradient(const Values& parameters, int64_t step, int micro_batch,
                               int shard) const {
  uint64_t all = static_cast<uint64_t>(step);
  for (uint64_t p : parameters) all = mix(all, p);
  return mix(mix(all, static_cast<uint64_t>(micro_batch)), static_cast<uint64_t>(shard));
}

uint64_t ToyTraining::apply(uint64_t value, uint64_t gradient, double norm, bool finite) {
  return finite ? mix(value ^ gradient, static_cast<uint64_t>(norm)) : value;
}

ToyTraining::Golden ToyTraining::run(int steps) const {
  Golden golden{{initial()}, {0}};
  for (int64_t t = 1; t <= steps; ++t) {
    const Values& before = golden.states.back();
    Values gradients(shards, 0);
    double norm = 0;
    for (int s = 0; s < shards; ++s) {
      for (int m = 0; m < micro_batches; ++m) gradients[s] += gradient(before, t, m, s);
      norm += norm_part(gradients[s]);
    }
    Values after;
    for (int s = 0; s < shards; ++s)
      after.push_back(apply(before[s], gradients[s], norm, finite(norm)));
    golden.states.push_back(std::move(after));
    golden.norms.push_back(norm);
  }
  return golden;
}

}  // namespace craton::testing
