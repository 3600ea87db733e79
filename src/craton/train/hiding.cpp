#include "craton/train/hiding.h"

#include <algorithm>

namespace craton::train {

std::vector<std::vector<uint8_t>> hiding_passes(std::span<const double> dead, int64_t most) {
  std::vector<size_t> partly;
  std::vector<uint8_t> always(dead.size(), 0);
  int64_t gone = 0, whole = 0;  // columns without a live trace, and without a dead one
  for (size_t c = 0; c < dead.size(); ++c) {
    if (dead[c] >= 1) {
      always[c] = 1;
      ++gone;
    } else if (dead[c] > 0) {
      partly.push_back(c);
    } else {
      ++whole;
    }
  }
  const auto count = static_cast<int64_t>(partly.size());
  if (count == 0 && (gone == 0 || whole == 0)) return {};
  if (count == 0) return {always};
  const int64_t room = count + whole - 1;  // one column stays to be seen
  if (room < 1) return {};
  const int64_t per_pass = std::min(std::max<int64_t>(most - gone, 1), room);
  const auto passes = static_cast<size_t>((count + per_pass - 1) / per_pass);
  std::vector<std::vector<uint8_t>> out(passes, always);
  for (size_t k = 0; k < partly.size(); ++k) out[k % passes][partly[k]] = 1;
  return out;
}

}  // namespace craton::train
