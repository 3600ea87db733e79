#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <set>

#include "craton/base/error.h"
#include "craton/recipe/node.h"

namespace craton::recipe {
namespace {

// Aliases can make a few bytes of YAML stand for a tree without end; a recipe has some hundred
// nodes.
constexpr int kMostNodes = 100000;
constexpr int kDeepest = 64;

bool is_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  }
  return true;
}

/// Replaces ${NAME} and ${NAME:-default}; `replaced` tells whether anything was.
std::string expand(const std::string& text, const std::string& place, bool& replaced) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 3, "$${") == 0) {
      out += "${";
      at += 3;
      continue;
    }
    if (text.compare(at, 2, "${") != 0) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find('}', at);
    if (end == std::string::npos) {
      fail(ErrorCode::kInvalidArgument, "{}: '{}' has '${{' without '}}'", place, text);
    }
    const std::string inside = text.substr(at + 2, end - at - 2);
    const size_t split = inside.find(":-");
    const std::string name = inside.substr(0, split);
    if (!is_name(name)) {
      fail(ErrorCode::kInvalidArgument,
           "{}: '{}' is no variable; write ${{NAME}} or ${{NAME:-default}}", place, inside);
    }
    const char* value = std::getenv(name.c_str());
    if (split == std::string::npos && value == nullptr) {
      fail(ErrorCode::kInvalidArgument,
           "{}: the environment variable {} is not set; set it or write ${{{}:-default}}", place,
           name, name);
    }
    // As in a shell, ":-" also replaces a variable that is set but empty.
    if (split != std::string::npos && (value == nullptr || *value == '\0')) {
      out += inside.substr(split + 2);
    } else {
      out += value;
    }
    replaced = true;
    at = end + 1;
  }
  return out;
}

class Reader {
 public:
  Reader(const std::string& name, const std::string& place) : name_(name), place_(place) {}

  std::string place_of(const YAML::Mark& mark) const {
    if (!place_.empty()) return place_;
    return mark.is_null() ? name_ : fmt::format("{}:{}", name_, mark.line + 1);
  }

  std::shared_ptr<Node> convert(const YAML::Node& yaml, const std::string& place, int depth) {
    if (depth > kDeepest || ++nodes_ > kMostNodes) {
      fail(ErrorCode::kInvalidArgument,
           "{}: too deep or too many values for a recipe (at most {} levels, {} values)", place,
           kDeepest, kMostNodes);
    }
    auto node = std::make_shared<Node>();
    node->place = place;
    switch (yaml.Type()) {
      case YAML::NodeType::Scalar: {
        bool replaced = false;
        node->kind = Node::Kind::kScalar;
        node->scalar = expand(yaml.Scalar(), place, replaced);
        node->plain = yaml.Tag() == "?" || replaced;
        break;
      }
      case YAML::NodeType::Sequence:
        node->kind = Node::Kind::kList;
        for (const auto& item : yaml) {
          node->items.push_back(convert(item, place_of(item.Mark()), depth + 1));
        }
        break;
      case YAML::NodeType::Map:
        convert_map(yaml, *node, depth);
        break;
      default:
        node->kind = Node::Kind::kNull;
        break;
    }
    return node;
  }

 private:
  void convert_map(const YAML::Node& yaml, Node& node, int depth) {
    std::set<std::string> seen;
    for (const auto& entry : yaml) {
      const std::string place = place_of(entry.first.Mark());
      if (!entry.first.IsScalar() || entry.first.Scalar().empty()) {
        fail(ErrorCode::kInvalidArgument, "{}: a key must be a word", place);
      }
      const std::string& key = entry.first.Scalar();
      if (!seen.insert(key).second) {
        fail(ErrorCode::kInvalidArgument, "{}: {}: given twice (first in line {}); keep one", place,
             key, first_line(yaml, key));
      }
      node.entries.emplace_back(key, convert(entry.second, place, depth + 1));
    }
  }

  static int first_line(const YAML::Node& yaml, const std::string& key) {
    for (const auto& entry : yaml) {
      if (entry.first.IsScalar() && entry.first.Scalar() == key) return entry.first.Mark().line + 1;
    }
    return 0;
  }

  std::string name_, place_;
  int nodes_ = 0;
};

}  // namespace

std::string join_path(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void set_path(Node& node, const std::string& path) {
  node.path = path;
  for (size_t i = 0; i < node.items.size(); ++i) {
    set_path(*node.items[i], fmt::format("{}[{}]", path, i));
  }
  for (auto& [key, value] : node.entries) set_path(*value, join_path(path, key));
}

std::shared_ptr<Node> parse_yaml(std::string_view yaml, const std::string& name,
                                 const std::string& place) {
  Reader reader(name, place);
  std::vector<YAML::Node> documents;
  try {
    documents = YAML::LoadAll(std::string(yaml));
  } catch (const YAML::Exception& e) {
    std::string message = e.msg;
    for (char& c : message) {
      if (c == '\n') c = ' ';
    }
    fail(ErrorCode::kInvalidArgument, "{}: not YAML: {}{}", reader.place_of(e.mark), message,
         yaml.find('\t') == std::string_view::npos ? "" : " (indent with spaces, not tabs)");
  }
  if (documents.size() > 1) {
    fail(ErrorCode::kInvalidArgument,
         "{}: {} documents; expected one, so remove the '---' in between", name, documents.size());
  }
  if (documents.empty()) {
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::kNull;
    node->place = reader.place_of(YAML::Mark::null_mark());
    return node;
  }
  const YAML::Mark mark = documents[0].IsNull() ? YAML::Mark::null_mark() : documents[0].Mark();
  return reader.convert(documents[0], reader.place_of(mark), 0);
}

}  // namespace craton::recipe
