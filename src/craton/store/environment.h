#pragma once

#include <functional>
#include <optional>
#include <string>

namespace craton::store {

/// Looks up an environment variable; empty ones count as absent. A function, so that tests can give
/// one of their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// This process's.
Environment process_environment();

}  // namespace craton::store
