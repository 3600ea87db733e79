#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace craton::recipe {

struct Node;

/// A key that a reader asked for.
struct KnownKey {
  std::string key;  ///< dotted from the root, list items as "[]": "data.volumes[].uri"
  std::string
      type;  ///< "integer", "number", "boolean", "text", "bytes", "choice of a, b", "list of ..."
  std::string fallback;  ///< as YAML; empty when a list or section has none
};

/// A node of a recipe: a scalar, a list or a map, with the place it came from ("recipes/x.yaml:12"
/// or "command line"). Readers take typed values with defaults; every key that a reader asked for
/// counts as known, and `finish` turns any other key into an Error with file, line, key and the
/// nearest known name. So unknown keys are errors everywhere, also in a user's own model. Copies
/// share the node and its record of known keys. Not thread-safe.
class Settings {
 public:
  /// An empty map.
  Settings();

  /// Parses YAML; `name` is shown in errors. ${NAME} and ${NAME:-default} in scalars are replaced
  /// from the environment ("$${" is a plain "${"). Error with name and line: broken YAML, more than
  /// one document, no map at the root, a key given twice, a variable that is not set, nesting or
  /// aliases without end.
  static Settings parse(std::string_view yaml, std::string name);
  static Settings load(const std::string& path);

  /// "train.steps=20": sets a value below dotted keys (maps are made as needed; the value is parsed
  /// as YAML). A number picks an item of a list: "data.volumes.0.weight=2".
  void override_with(std::string_view assignment);

  bool has(std::string_view key) const;

  /// The value at `key` of this map, or `fallback`. Wrong type: Error that names place, dotted key,
  /// what was found and what was expected. A scalar in quotes is text, never a number (unless a
  /// variable was replaced in it).
  int64_t integer(std::string_view key, int64_t fallback) const;
  double number(std::string_view key, double fallback) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  /// One of `names`; the error lists them.
  std::string choice(std::string_view key, std::string_view fallback,
                     const std::vector<std::string>& names) const;
  /// "64MiB" or a plain number.
  uint64_t bytes(std::string_view key, uint64_t fallback) const;
  std::vector<int64_t> integers(std::string_view key, const std::vector<int64_t>& fallback) const;
  std::vector<double> numbers(std::string_view key, const std::vector<double>& fallback) const;
  std::vector<std::string> texts(std::string_view key,
                                 const std::vector<std::string>& fallback) const;
  /// Whole numbers with a number each: `{2: 0.5, 4: 1}`, or in pairs `[[2, 0.5], [4, 1]]`; empty
  /// when absent.
  std::map<int64_t, double> table(std::string_view key) const;
  /// The map at `key`; empty when absent.
  Settings section(std::string_view key) const;
  /// As `section`, for a part that someone else reads and finishes, such as a model's factory:
  /// `finish` here does not look below it.
  Settings delegate(std::string_view key) const;
  /// The list of maps at `key`; empty when absent.
  std::vector<Settings> sections(std::string_view key) const;

  /// Error at the place of `key` (or of this map when the key is absent): "recipes/x.yaml:12:
  /// train.steps: must be positive, found -1".
  [[noreturn]] void reject(std::string_view key, std::string_view why) const;

  /// Checks this map and all below it for keys that nobody asked for.
  void finish() const;
  /// The same against the keys that were asked of `reader`, a complete example that the same code
  /// has read: finds a typo before the values are read, so that it is reported instead of what
  /// follows from it.
  void finish(const Settings& reader) const;

  /// As YAML, for a run's folder: everything that was read, with defaults filled in, then what was
  /// given and not read. `parse` of it gives the same values.
  std::string dump() const;
  /// Only what was given, keys sorted, no places: equal for recipes that say the same in another
  /// order.
  std::string canonical() const;
  /// All keys that were read here and below, in order of first reading.
  std::vector<KnownKey> known() const;

 private:
  explicit Settings(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  std::shared_ptr<Node> node_;
};

}  // namespace craton::recipe
