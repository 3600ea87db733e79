#include "craton/recipe/nearest_name.h"

#include <algorithm>
#include <cctype>

namespace craton::recipe {
namespace {

std::string folded(std::string_view word) {
  std::string out;
  for (const char c : word) {
    out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the classic table are enough: a swap looks back two rows.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kLongestWord = 100;
  if (word.size() > kLongestWord) return "";
  const std::string wanted = folded(word);
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(wanted, folded(name));
    // Replacing all of a short word is no typing error.
    if (distance < best_distance && distance < std::max(wanted.size(), name.size())) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace craton::recipe
