#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace craton::recipe {

/// The tree behind Settings. Owned by the Settings that share it.
struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };

  /// What a reader asked of a map.
  struct Asked {
    std::string key;
    std::string type;
    std::string fallback;            ///< as YAML
    bool delegated = false;          ///< another reader finishes it
    std::shared_ptr<Node> implicit;  ///< the empty map handed out for an absent section
  };

  Kind kind = Kind::kMap;
  std::string place;  ///< "recipes/x.yaml:12", or "command line"
  std::string path;   ///< dotted from the root; empty for the root
  std::string scalar;
  bool plain = true;  ///< not in quotes: may be a number or a boolean
  std::vector<std::shared_ptr<Node>> items;
  std::vector<std::pair<std::string, std::shared_ptr<Node>>> entries;
  std::vector<Asked> asked;

  std::shared_ptr<Node> find(std::string_view key) const;
  Asked& ask(std::string_view key, std::string_view type, std::string fallback);
};

/// "train" + "steps" -> "train.steps".
std::string join_path(std::string_view path, std::string_view key);

/// Parses one YAML document; see Settings::parse. `place` overrides the "name:line" of every node
/// when it is not empty.
std::shared_ptr<Node> parse_yaml(std::string_view yaml, const std::string& name,
                                 const std::string& place = "");

/// Sets the dotted path of a node and of all below it.
void set_path(Node& node, const std::string& path);

/// What a node is, for errors: "a list", "'abc'", "nothing".
std::string describe(const Node& node);

/// `text` as a YAML scalar that parses back to itself; quoted when it must not be read as a number
/// or boolean.
std::string quote(std::string_view text, bool plain);

}  // namespace craton::recipe
