#include "craton/cluster/step_sizes.h"

#include <algorithm>

namespace craton::cluster {

int scaled_micro_batches(int micro_batches, int reference, int workers) {
  if (reference <= 0) return micro_batches;
  return static_cast<int>(std::max<int64_t>(1, int64_t{micro_batches} * workers / reference));
}

std::optional<StepSize> StepSizes::at(Step step) const {
  const auto next = std::find_if(entries.begin(), entries.end(),
                                 [&](const StepSize& size) { return size.from > step; });
  if (next == entries.begin()) return std::nullopt;
  const StepSize& size = *(next - 1);
  const int64_t steps = step.value() - size.from.value();
  return StepSize{step, size.position + steps * size.micro_batches, size.micro_batches};
}

void StepSizes::set(const StepSize& size) {
  std::erase_if(entries, [&](const StepSize& old) { return old.from >= size.from; });
  if (at(size.from) != size) entries.push_back(size);
  while (entries.size() > 1 && entries[1].from.value() <= size.from.value() - kRemembered)
    entries.erase(entries.begin());
}

}  // namespace craton::cluster
