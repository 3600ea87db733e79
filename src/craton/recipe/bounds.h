#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "craton/recipe/settings.h"

/// Numbers of a recipe with their limits; internal to recipe/.
namespace craton::recipe {

// Far above any job; keep products of sizes far from overflow.
inline constexpr int64_t kMostSteps = 1'000'000'000;
inline constexpr int64_t kLargestBatch = 1 << 20;
inline constexpr int64_t kMostMicroBatches = 1 << 16;
inline constexpr int64_t kMostWorkers = 4096;
inline constexpr int64_t kMostContext = 64;
inline constexpr int64_t kMostThreads = 1024;
inline constexpr int64_t kLargestExtent = 1 << 16;
inline constexpr int64_t kLongestSequence = int64_t{1} << 32;
inline constexpr int64_t kLargestVocabulary = int64_t{1} << 31;
inline constexpr uint64_t kSmallestBucket = 64 << 10;  // one chunk of 16,384 floats
inline constexpr uint64_t kLargestBucket = uint64_t{1} << 30;
inline constexpr uint64_t kSmallestCache = 64 << 20;
inline constexpr uint64_t kSmallestBudget = 1 << 20;
inline constexpr int64_t kShardsPerWorker = 16;
inline constexpr double kMostSeconds = 86400;

inline int64_t bounded(const Settings& s, std::string_view key, int64_t fallback, int64_t low,
                       int64_t high) {
  const int64_t value = s.integer(key, fallback);
  if (value < low || value > high) {
    s.reject(key, fmt::format("must be between {} and {}, found {}", low, high, value));
  }
  return value;
}

inline double bounded_number(const Settings& s, std::string_view key, double fallback, double low,
                             double high) {
  const double value = s.number(key, fallback);
  if (!(value >= low && value <= high)) {
    s.reject(key, fmt::format("must be between {} and {}, found {}", low, high, value));
  }
  return value;
}

inline double above_zero(const Settings& s, std::string_view key, double fallback, double high) {
  const double value = s.number(key, fallback);
  if (!(value > 0 && value <= high)) {
    s.reject(key, fmt::format("must be above 0 and at most {}, found {}", high, value));
  }
  return value;
}

}  // namespace craton::recipe
