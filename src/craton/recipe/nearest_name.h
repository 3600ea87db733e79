#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace craton::recipe {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal
/// string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

/// The name that `word` was most likely meant to be; empty when none is near (a third of its
/// length, at least 2 edits). Upper case, '-' and '_' make no difference.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace craton::recipe
