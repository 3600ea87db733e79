#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace craton {

/// An integer that cannot be mixed up with another kind of integer.
template <typename Tag, typename T>
class Strong {
 public:
  using value_type = T;
  constexpr Strong() = default;
  constexpr explicit Strong(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  constexpr auto operator<=>(const Strong&) const = default;
  constexpr Strong next() const { return Strong(value_ + 1); }
  constexpr Strong& operator++() { ++value_; return *this; }

 private:
  T value_{};
};

/// Number of a worker within one generation, 0..world_size-1.
using Rank = Strong<struct RankTag, int32_t>;
/// Grows by one with each change of membership.
using Generation = Strong<struct GenerationTag, uint64_t>;
/// Number of an optimizer step; the state before any step is step 0, the first update makes step 1.
using Step = Strong<struct StepTag, int64_t>;
/// One of S fixed sets of chunks of the flat parameter space.
using ShardId = Strong<struct ShardTag, int32_t>;

}  // namespace craton

template <typename Tag, typename T>
struct std::hash<craton::Strong<Tag, T>> {
  size_t operator()(const craton::Strong<Tag, T>& s) const { return std::hash<T>()(s.value()); }
};
