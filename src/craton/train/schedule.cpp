#include "craton/train/schedule.h"

#include <algorithm>
#include <cmath>

namespace craton::train {

double learning_rate(const recipe::TrainRecipe& train, Step step) {
  const double peak = train.optimizer.lr;
  const auto t = static_cast<double>(step.value());
  const auto warmup = static_cast<double>(train.schedule.warmup_steps);
  if (t <= warmup) return peak * t / warmup;
  if (train.schedule.kind == "constant") return peak;
  const double rest = std::max(1.0, static_cast<double>(train.steps) - warmup);
  const double progress = std::min(1.0, (t - warmup) / rest);
  const double floor = peak * train.schedule.min_lr_ratio;
  return floor + (peak - floor) * 0.5 * (1 + std::cos(3.14159265358979323846 * progress));
}

double learning_rate(const recipe::Recipe& recipe, Step step, int64_t micro_batches) {
  return learning_rate(recipe.train, step) * recipe.learning_rate_factor(micro_batches);
}

}  // namespace craton::train
