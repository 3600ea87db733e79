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

uint64_t ToyTraining::gradient(const Values& parameters, int64_t step, int64_t micro_batch,
                               int shard) const {
  uint64_t all = static_cast<uint64_t>(step);
  for (uint64_t p : parameters) all = mix(all, p);
  return mix(mix(all, static_cast<uint64_t>(micro_batch)), static_cast<uint64_t>(shard));
}

uint64_t ToyTraining::apply(uint64_t value, uint64_t gradient, double norm, bool finite) {
  return finite ? mix(value ^ gradient, static_cast<uint64_t>(norm)) : value;
}

ToyTraining::State ToyTraining::after(const State& before, int64_t step, int micro_batches) const {
  State state{{}, 0, before.position + micro_batches};
  Values gradients(shards, 0);
  for (int s = 0; s < shards; ++s) {
    for (int m = 0; m < micro_batches; ++m)
      gradients[s] += gradient(before.values, step, before.position + m, s);
    state.norm += norm_part(gradients[s]);
  }
  for (int s = 0; s < shards; ++s)
    state.values.push_back(apply(before.values[s], gradients[s], state.norm, finite(state.norm)));
  return state;
}

}  // namespace craton::testing
