#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace craton::bench {

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

enum class Better { kHigher, kLower };

/// The rows of one bench program: printed as a table, and written with --json FILE in the form that docs/ and scripts read.
class Table {
 public:
  explicit Table(std::string name) : name_(std::move(name)) {}

  /// A figure against a peer measured in the same run. `ratio` is ours/peer for kHigher, peer/ours for kLower, so that more is better.
  void add_ratio(const std::string& what, const std::string& unit, Better better, double ours, double peer, double reach) {
    const double ratio = better == Better::kHigher ? ours / peer : peer / ours;
    add({{"what", what}, {"unit", unit}, {"better", better == Better::kHigher ? "higher" : "lower"}, {"ours", ours},
         {"peer", peer}, {"ratio", ratio}, {"reach", reach}, {"ok", ratio >= reach}});
  }

  /// A figure by itself, against an absolute bound.
  void add_absolute(const std::string& what, const std::string& unit, Better better, double ours, double reach) {
    add({{"what", what}, {"unit", unit}, {"better", better == Better::kHigher ? "higher" : "lower"}, {"ours", ours},
         {"peer", nullptr}, {"ratio", nullptr}, {"reach", reach},
         {"ok", better == Better::kHigher ? ours >= reach : ours <= reach}});
  }

  void print() const {
    fmt::print("{:<58} {:>8} {:>11} {:>11} {:>7} {:>7}  ok\n", name_, "unit", "ours", "peer", "ratio", "reach");
    for (const auto& row : rows_) {
      fmt::print("{:<58} {:>8} {:>11.4g} {:>11} {:>7} {:>7.4g}  {}\n", row["what"].get<std::string>(),
                 row["unit"].get<std::string>(), row["ours"].get<double>(), text(row["peer"], 4), text(row["ratio"], 3),
                 row["reach"].get<double>(), row["ok"].get<bool>() ? "yes" : "NO");
    }
  }

  void write_json(const std::string& path) const {
    if (!path.empty()) std::ofstream(path) << nlohmann::json{{"name", name_}, {"rows", rows_}}.dump(2) << "\n";
  }

 private:
  static std::string text(const nlohmann::json& value, int digits) {
    return value.is_null() ? "-" : fmt::format("{:.{}g}", value.get<double>(), digits);
  }
  void add(nlohmann::json row) { rows_.push_back(std::move(row)); }
  std::string name_;
  std::vector<nlohmann::json> rows_;
};

}  // namespace craton::bench
