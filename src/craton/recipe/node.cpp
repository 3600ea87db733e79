#include "craton/recipe/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "craton/recipe/settings.h"

namespace craton::recipe {
namespace {

std::string scalar_as_yaml(const Node& node) { return quote(node.scalar, node.plain); }

std::string value_as_yaml(const Node& node, int indent);

bool is_inline(const Node& node) {
  if (node.kind == Node::Kind::kMap) return false;
  return std::all_of(node.items.begin(), node.items.end(), [](const auto& item) {
    return item->kind != Node::Kind::kMap && is_inline(*item);
  });
}

std::string inline_as_yaml(const Node& node) {
  if (node.kind == Node::Kind::kNull) return "~";
  if (node.kind == Node::Kind::kScalar) return scalar_as_yaml(node);
  std::vector<std::string> parts;
  for (const auto& item : node.items) parts.push_back(inline_as_yaml(*item));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string entry_as_yaml(std::string_view key, const std::string& value) {
  const std::string name = quote(key, true);
  return value.starts_with('\n') ? fmt::format("{}:{}", name, value)
                                 : fmt::format("{}: {}\n", name, value);
}

/// The lines of a map, read keys first; each line starts after `indent` spaces.
std::string map_as_yaml(const Node& node, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string out;
  for (const auto& asked : node.asked) {
    const auto given = node.find(asked.key);
    std::string value = asked.fallback;
    if (given != nullptr) value = value_as_yaml(*given, indent + 2);
    if (given == nullptr && asked.implicit != nullptr)
      value = value_as_yaml(*asked.implicit, indent + 2);
    if (!value.empty()) out += margin + entry_as_yaml(asked.key, value);
  }
  for (const auto& [key, value] : node.entries) {
    const bool read =
        std::any_of(node.asked.begin(), node.asked.end(),
                    [&key = key](const Node::Asked& asked) { return asked.key == key; });
    if (!read) out += margin + entry_as_yaml(key, value_as_yaml(*value, indent + 2));
  }
  return out;
}

std::string value_as_yaml(const Node& node, int indent) {
  if (is_inline(node)) return inline_as_yaml(node);
  if (node.kind == Node::Kind::kMap) {
    const std::string lines = map_as_yaml(node, indent);
    return lines.empty() ? "{}" : "\n" + lines;
  }
  std::string out = "\n";
  for (const auto& item : node.items) {
    std::string value = value_as_yaml(*item, indent + 2);
    // The first line of a map stands behind the dash.
    if (value.starts_with('\n')) value = value.substr(1 + static_cast<size_t>(indent) + 2);
    if (!value.ends_with('\n')) value += '\n';
    out += std::string(static_cast<size_t>(indent), ' ') + "- " + value;
  }
  return out;
}

std::string canonical_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "~";
    case Node::Kind::kScalar:
      return scalar_as_yaml(node);
    case Node::Kind::kList: {
      std::vector<std::string> parts;
      for (const auto& item : node.items) parts.push_back(canonical_of(*item));
      return fmt::format("[{}]", fmt::join(parts, ","));
    }
    case Node::Kind::kMap:
      break;
  }
  std::vector<std::string> parts;
  for (const auto& [key, value] : node.entries) {
    parts.push_back(fmt::format("{}:{}", quote(key, true), canonical_of(*value)));
  }
  std::sort(parts.begin(), parts.end());
  return fmt::format("{{{}}}", fmt::join(parts, ","));
}

void collect_known(const Node& node, const std::string& path, std::vector<KnownKey>& out) {
  for (const auto& asked : node.asked) {
    const std::string key = join_path(path, asked.key);
    if (asked.type != "section" && asked.type != "list of sections") {
      out.push_back({key, asked.type, asked.fallback});
      continue;
    }
    const auto given = node.find(asked.key);
    const auto child = given != nullptr ? given : asked.implicit;
    if (child == nullptr) continue;
    if (asked.type == "section") {
      collect_known(*child, key, out);
    } else if (!child->items.empty()) {
      collect_known(*child->items[0], key + "[]", out);
    }
  }
}

}  // namespace

std::shared_ptr<Node> Node::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return value;
  }
  return nullptr;
}

Node::Asked& Node::ask(std::string_view key, std::string_view type, std::string fallback) {
  for (Asked& known : asked) {
    if (known.key == key) return known;
  }
  asked.push_back({std::string(key), std::string(type), std::move(fallback), false, nullptr});
  return asked.back();
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a section";
    case Node::Kind::kScalar:
      break;
  }
  constexpr size_t kLongest = 60;
  std::string shown = node.scalar.substr(0, kLongest);
  for (char& c : shown) {
    if (std::iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  if (node.scalar.size() > kLongest) shown += "...";
  return node.plain ? fmt::format("'{}'", shown) : fmt::format("text \"{}\" in quotes", shown);
}

std::string quote(std::string_view text, bool plain) {
  std::string escaped;
  bool safe = plain && !text.empty() && text.front() != '-' && text.front() != '.';
  // A leading '-' or '.' is fine for numbers and paths.
  if (plain && text.size() > 1 && (text.front() == '-' || text.front() == '.')) {
    safe = std::isalnum(static_cast<unsigned char>(text[1])) || text[1] == '/' || text[1] == '.';
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool colon_inside = c == ':' && i + 1 < text.size() && text[i + 1] != ' ';
    if (!std::isalnum(static_cast<unsigned char>(c)) && !colon_inside &&
        std::string_view("_-./+").find(c) == std::string_view::npos) {
      safe = false;
    }
    if (c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      escaped += "$$";
    } else if (c == '"' || c == '\\') {
      escaped += '\\';
      escaped += c;
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      escaped += c;
    }
  }
  if (safe && text != "---" && text != "...") return std::string(text);
  // A plain scalar that needs quotes cannot have been a number, so quoting it keeps its meaning.
  return fmt::format("\"{}\"", escaped);
}

std::string Settings::dump() const { return map_as_yaml(*node_, 0); }

std::string Settings::canonical() const { return canonical_of(*node_); }

std::vector<KnownKey> Settings::known() const {
  std::vector<KnownKey> out;
  collect_known(*node_, "", out);
  return out;
}

}  // namespace craton::recipe
