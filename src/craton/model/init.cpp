#include <cmath>

#include "craton/base/philox.h"
#include "craton/model/model.h"

namespace craton::model {
namespace {

// FNV-1a: a parameter's stream is named by its name, so that adding a parameter changes no other.
uint64_t hash(const std::string& name) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (const unsigned char c : name) h = (h ^ c) * 0x100000001B3ull;
  return h;
}

// Element i tries blocks i, i + 2^48, i + 2*2^48, ... until the value lies within two deviations.
double truncated_normal(const Philox& random, uint64_t i) {
  for (uint64_t attempt = 0; attempt < 64; ++attempt) {
    const double value = random.normal(i + (attempt << 48));
    if (std::abs(value) <= 2) return value;
  }
  return 0;
}

}  // namespace

void init_normal(torch::Tensor parameter, double standard_deviation, uint64_t seed,
                 const std::string& name) {
  torch::NoGradGuard no_grad;
  const Philox random(seed, RandomPurpose::kInit, hash(name));
  torch::Tensor values = torch::empty(parameter.sizes(), torch::kDouble);
  double* out = values.data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    out[i] = standard_deviation * truncated_normal(random, static_cast<uint64_t>(i));
  }
  parameter.copy_(values);
}

}  // namespace craton::model
