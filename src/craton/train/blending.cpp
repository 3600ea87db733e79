#include "craton/train/blending.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "craton/base/check.h"

namespace craton::train {

std::vector<int64_t> window_origins(int64_t size, int64_t window, int64_t stride) {
  CRATON_CHECK(window >= 1 && window <= size && stride >= 1 && stride <= window);
  std::vector<int64_t> origins;
  for (int64_t at = 0; at + window < size; at += stride) origins.push_back(at);
  origins.push_back(size - window);
  return origins;
}

int64_t window_stride(int64_t window, double overlap) {
  const double stride = std::round(static_cast<double>(window) * (1 - overlap));
  return std::clamp<int64_t>(static_cast<int64_t>(stride), 1, window);
}

std::vector<float> taper(int64_t window, int64_t overlap) {
  const int64_t ramp = std::min(overlap, window / 2);
  std::vector<float> weights(static_cast<size_t>(window), 1);
  for (int64_t i = 0; i < ramp; ++i) {
    const double sine =
        std::sin(std::numbers::pi / 2 * (static_cast<double>(i) + 0.5) / static_cast<double>(ramp));
    const auto weight = static_cast<float>(sine * sine);
    weights[static_cast<size_t>(i)] = weights[static_cast<size_t>(window - 1 - i)] = weight;
  }
  return weights;
}

Blend::Blend(const Geometry& geometry, std::function<bool(int64_t, int64_t)> wanted)
    : geometry_(geometry), wanted_(std::move(wanted)) {
  for (size_t d = 0; d < 3; ++d)
    taper_[d] = taper(geometry.window[d], geometry.window[d] - geometry.stride[d]);
}

Blend::Row& Blend::row_at(int64_t number) {
  const auto [place, made] = rows_.try_emplace(number);
  Row& row = place->second;
  if (!made) return row;
  int32_t slots = 0;
  row.slot.assign(static_cast<size_t>(geometry_.columns), -1);
  for (int64_t x = 0; x < geometry_.columns; ++x) {
    if (wanted_(number, x)) row.slot[static_cast<size_t>(x)] = slots++;
  }
  row.sum.assign(static_cast<size_t>(slots) * static_cast<size_t>(geometry_.samples), 0);
  row.weight = row.sum;
  return row;
}

void Blend::add(const Window& window) {
  for (int64_t i = 0; i < geometry_.window[0]; ++i) {
    Row& row = row_at(window.origin[0] + i);
    for (int64_t x = 0; x < geometry_.window[1]; ++x) {
      if (row.slot[static_cast<size_t>(window.origin[1] + x)] >= 0) add_trace(window, i, x, row);
    }
  }
}

void Blend::add_trace(const Window& window, int64_t i, int64_t x, Row& into) const {
  const auto& [w, patch] = std::pair(geometry_.window, geometry_.patch);
  const int64_t patches_across = w[1] / patch[1], patches_down = w[2] / patch[2];
  const int64_t first_patch = (i / patch[0] * patches_across + x / patch[1]) * patches_down;
  const int64_t slot = into.slot[static_cast<size_t>(window.origin[1] + x)];
  const auto at = static_cast<size_t>(slot * geometry_.samples + window.origin[2]);
  const float* prediction = window.prediction.data() + (i * w[1] + x) * w[2];
  const float lateral = taper_[0][static_cast<size_t>(i)] * taper_[1][static_cast<size_t>(x)];
  for (int64_t p = 0; p < patches_down; ++p) {
    if (window.hidden[static_cast<size_t>(first_patch + p)] == 0) continue;
    for (auto t = static_cast<size_t>(p * patch[2]); t < static_cast<size_t>((p + 1) * patch[2]);
         ++t) {
      const float weight = lateral * taper_[2][t];
      into.sum[at + t] += weight * prediction[t];
      into.weight[at + t] += weight;
    }
  }
}

bool Blend::Trace::complete() const {
  return std::all_of(weight.begin(), weight.end(), [](float w) { return w > 0; });
}

std::optional<Blend::Trace> Blend::trace(int64_t number, int64_t column) const {
  const auto place = rows_.find(number);
  if (place == rows_.end()) return std::nullopt;
  const Row& row = place->second;
  const int64_t slot = row.slot[static_cast<size_t>(column)];
  if (slot < 0) return std::nullopt;
  const auto samples = static_cast<size_t>(geometry_.samples);
  const size_t at = static_cast<size_t>(slot) * samples;
  return Trace{std::span(row.sum).subspan(at, samples), std::span(row.weight).subspan(at, samples)};
}

void Blend::drop_rows_before(int64_t row) { rows_.erase(rows_.begin(), rows_.lower_bound(row)); }

}  // namespace craton::train
