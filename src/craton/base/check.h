#pragma once

#include <fmt/format.h>

#include <string>

namespace craton::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}

/// Stays on in release builds: a worker that finds its state impossible must die, since the others hold copies.
/// Never for user input, which gets an Error. CRATON_CHECK(a < b) or CRATON_CHECK(a < b, "a {} b {}", a, b).
#define CRATON_CHECK(condition, ...)                                                   \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::craton::detail::check_failed(__FILE__, __LINE__, #condition,                   \
                                     ::fmt::format("" __VA_ARGS__));                   \
  } while (false)
