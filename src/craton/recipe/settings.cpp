#include "craton/recipe/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/recipe/nearest_name.h"
#include "craton/recipe/node.h"

namespace craton::recipe {
namespace {

constexpr uintmax_t kLargestRecipe = 1 << 20;

[[noreturn]] void wrong_type(const Node& node, std::string_view expected) {
  fail(ErrorCode::kInvalidArgument, "{}: {}: expected {}, found {}", node.place, node.path,
       expected, describe(node));
}

int64_t to_integer(const Node& node) {
  static constexpr std::string_view kExpected = "a whole number";
  if (node.kind != Node::Kind::kScalar || !node.plain) wrong_type(node, kExpected);
  std::string_view text = node.scalar;
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    wrong_type(node, "a whole number of at most 64 bits");
  if (error != std::errc() || end != text.data() + text.size()) wrong_type(node, kExpected);
  return value;
}

double to_number(const Node& node) {
  static constexpr std::string_view kExpected = "a finite number";
  if (node.kind != Node::Kind::kScalar || !node.plain) wrong_type(node, kExpected);
  std::string_view text = node.scalar;
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    wrong_type(node, kExpected);
  }
  return value;
}

bool to_boolean(const Node& node) {
  if (node.kind == Node::Kind::kScalar && node.plain) {
    for (const auto* word : {"true", "True", "TRUE"}) {
      if (node.scalar == word) return true;
    }
    for (const auto* word : {"false", "False", "FALSE"}) {
      if (node.scalar == word) return false;
    }
  }
  wrong_type(node, "true or false");
}

std::string to_text(const Node& node) {
  if (node.kind != Node::Kind::kScalar) wrong_type(node, "text");
  return node.scalar;
}

/// The items of the list `node`, or an error.
template <typename T>
std::vector<T> to_list(const Node& node, std::string_view expected, T (*convert)(const Node&)) {
  if (node.kind != Node::Kind::kList) wrong_type(node, expected);
  std::vector<T> out;
  for (const auto& item : node.items) out.push_back(convert(*item));
  return out;
}

std::string in_brackets(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string number_as_yaml(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <typename T, typename Format>
std::string list_as_yaml(const std::vector<T>& values, Format format) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(format(value));
  return in_brackets(parts);
}

/// All known dotted keys below `node` whose last word is `key`: where a misplaced key belongs.
std::string find_elsewhere(const Node& root, std::string_view key) {
  std::string found;
  const std::function<void(const Node&)> visit = [&](const Node& node) {
    for (const auto& asked : node.asked) {
      if (asked.key == key && found.empty()) found = join_path(node.path, key);
      const auto child = node.find(asked.key);
      if (child != nullptr) {
        visit(*child);
      } else if (asked.implicit != nullptr) {
        visit(*asked.implicit);
      }
    }
    for (const auto& item : node.items) visit(*item);
  };
  visit(root);
  return found;
}

const Node::Asked* find_asked(const Node& node, std::string_view key) {
  for (const auto& asked : node.asked) {
    if (asked.key == key) return &asked;
  }
  return nullptr;
}

[[noreturn]] void unknown_key(const Node& node, const std::string& key, const Node& value,
                              const Node& reader, const Node& reader_root) {
  std::vector<std::string> names;
  for (const auto& asked : reader.asked) names.push_back(asked.key);
  const std::string near = nearest_name(key, names);
  std::string advice;
  if (!near.empty()) {
    advice = fmt::format("did you mean '{}'?", join_path(node.path, near));
  } else if (const std::string other = find_elsewhere(reader_root, key); !other.empty()) {
    advice = fmt::format("it belongs at '{}'", other);
  } else if (names.empty()) {
    advice = "no keys are known here";
  } else {
    advice = fmt::format("known here: {}", fmt::join(names, ", "));
  }
  fail(ErrorCode::kInvalidArgument, "{}: {}: unknown key; {}", value.place,
       join_path(node.path, key), advice);
}

/// Compares `node` with what was asked of `reader`, which is the same node or that of an example.
void finish_node(const Node& node, const Node& reader, const Node& reader_root) {
  for (size_t i = 0; i < node.items.size() && !reader.items.empty(); ++i) {
    finish_node(*node.items[i], *reader.items[std::min(i, reader.items.size() - 1)], reader_root);
  }
  for (const auto& [key, value] : node.entries) {
    const Node::Asked* asked = find_asked(reader, key);
    if (asked == nullptr) unknown_key(node, key, *value, reader, reader_root);
    if (asked->delegated) continue;
    const auto given = reader.find(key);
    const auto below = given != nullptr ? given : asked->implicit;
    if (below != nullptr) finish_node(*value, *below, reader_root);
  }
}

/// `key` of `node` as a new map when absent.
std::shared_ptr<Node> child_map(Node& node, const std::string& key, std::string_view assignment) {
  auto child = node.find(key);
  if (child == nullptr || child->kind == Node::Kind::kNull) {
    auto fresh = std::make_shared<Node>();
    fresh->place = "command line";
    fresh->path = join_path(node.path, key);
    if (child == nullptr) {
      node.entries.emplace_back(key, fresh);
      return fresh;
    }
    *child = *fresh;
  }
  if (child->kind == Node::Kind::kScalar) {
    fail(ErrorCode::kInvalidArgument,
         "command line: {}: '{}' is a value, nothing can be set below it", assignment, child->path);
  }
  return child;
}

std::shared_ptr<Node>& list_item(Node& list, const std::string& word, std::string_view assignment) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
  if (error != std::errc() || end != word.data() + word.size() || index >= list.items.size()) {
    fail(ErrorCode::kInvalidArgument,
         "command line: {}: '{}' is a list of {}; name an item by its number, counted from 0",
         assignment, list.path, list.items.size());
  }
  return list.items[index];
}

}  // namespace

Settings::Settings() : node_(std::make_shared<Node>()) { node_->place = "recipe"; }

Settings Settings::parse(std::string_view yaml, std::string name) {
  if (yaml.find('\0') != std::string_view::npos) {
    fail(ErrorCode::kInvalidArgument, "{}: not a text file; expected a recipe in YAML", name);
  }
  auto node = parse_yaml(yaml, name);
  if (node->kind == Node::Kind::kNull) {
    fail(ErrorCode::kInvalidArgument,
         "{}: empty; expected a recipe with keys such as data, model, train", name);
  }
  if (node->kind != Node::Kind::kMap) {
    fail(ErrorCode::kInvalidArgument, "{}: expected 'key: value' lines, found {}", node->place,
         describe(*node));
  }
  set_path(*node, "");
  return Settings(std::move(node));
}

Settings Settings::load(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail(ErrorCode::kNotFound, "no recipe at {}", path);
  if (std::filesystem::is_directory(status)) {
    fail(ErrorCode::kInvalidArgument, "{} is a folder, expected a recipe file in YAML", path);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kPermission, "cannot open the recipe {}", path);
  std::string text(kLargestRecipe + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLargestRecipe) {
    fail(ErrorCode::kInvalidArgument, "{}: larger than 1 MiB; expected a recipe in YAML", path);
  }
  return parse(text, path);
}

void Settings::override_with(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  const std::string dotted(assignment.substr(0, equals));
  std::vector<std::string> words;
  std::stringstream stream(dotted + ".");
  for (std::string word; std::getline(stream, word, '.');) words.push_back(word);
  const bool has_empty = std::any_of(words.begin(), words.end(), [](auto& w) { return w.empty(); });
  if (equals == std::string_view::npos || words.empty() || has_empty) {
    fail(ErrorCode::kInvalidArgument, "command line: '{}': expected KEY=VALUE, e.g. train.steps=20",
         assignment);
  }
  auto value = parse_yaml(assignment.substr(equals + 1), "command line", "command line");
  std::shared_ptr<Node> node = node_;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    node = node->kind == Node::Kind::kList ? list_item(*node, words[i], assignment)
                                           : child_map(*node, words[i], assignment);
  }
  if (node->kind == Node::Kind::kList) {
    auto& item = list_item(*node, words.back(), assignment);
    set_path(*value, item->path);
    item = value;
    return;
  }
  if (node->kind != Node::Kind::kMap) {
    fail(ErrorCode::kInvalidArgument,
         "command line: {}: '{}' is a value, nothing can be set below it", assignment, node->path);
  }
  set_path(*value, join_path(node->path, words.back()));
  for (auto& [key, old] : node->entries) {
    if (key == words.back()) {
      old = value;
      return;
    }
  }
  node->entries.emplace_back(words.back(), value);
}

bool Settings::has(std::string_view key) const { return node_->find(key) != nullptr; }

int64_t Settings::integer(std::string_view key, int64_t fallback) const {
  node_->ask(key, "integer", fmt::format("{}", fallback));
  const auto node = node_->find(key);
  return node == nullptr ? fallback : to_integer(*node);
}

double Settings::number(std::string_view key, double fallback) const {
  node_->ask(key, "number", number_as_yaml(fallback));
  const auto node = node_->find(key);
  return node == nullptr ? fallback : to_number(*node);
}

bool Settings::boolean(std::string_view key, bool fallback) const {
  node_->ask(key, "boolean", fallback ? "true" : "false");
  const auto node = node_->find(key);
  return node == nullptr ? fallback : to_boolean(*node);
}

std::string Settings::text(std::string_view key, std::string_view fallback) const {
  node_->ask(key, "text", quote(fallback, true));
  const auto node = node_->find(key);
  return node == nullptr ? std::string(fallback) : to_text(*node);
}

std::string Settings::choice(std::string_view key, std::string_view fallback,
                             const std::vector<std::string>& names) const {
  node_->ask(key, fmt::format("choice of {}", fmt::join(names, ", ")), quote(fallback, true));
  const auto node = node_->find(key);
  if (node == nullptr) return std::string(fallback);
  const std::string value = to_text(*node);
  if (std::find(names.begin(), names.end(), value) == names.end()) {
    const std::string near = nearest_name(value, names);
    fail(ErrorCode::kInvalidArgument, "{}: {}: expected one of {}; found '{}'{}", node->place,
         node->path, fmt::join(names, ", "), value,
         near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
  }
  return value;
}

uint64_t Settings::bytes(std::string_view key, uint64_t fallback) const {
  const auto as_yaml = [](uint64_t count) {
    static constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (unit < 4 && count > 0 && count % 1024 == 0) {
      count /= 1024;
      ++unit;
    }
    return fmt::format("{}{}", count, kUnits[unit]);
  };
  node_->ask(key, "bytes", as_yaml(fallback));
  const auto node = node_->find(key);
  if (node == nullptr) return fallback;
  if (node->kind != Node::Kind::kScalar || node->scalar.empty() ||
      !std::isdigit(static_cast<unsigned char>(node->scalar[0]))) {
    wrong_type(*node, "a number of bytes, e.g. 64MiB");
  }
  try {
    return parse_bytes(node->scalar);
  } catch (const Error&) {
    wrong_type(*node, "a number of bytes, e.g. 64MiB");
  }
}

std::vector<int64_t> Settings::integers(std::string_view key,
                                        const std::vector<int64_t>& fallback) const {
  node_->ask(key, "list of integers",
             list_as_yaml(fallback, [](int64_t value) { return fmt::format("{}", value); }));
  const auto node = node_->find(key);
  return node == nullptr
             ? fallback
             : to_list<int64_t>(*node, "a list of whole numbers such as [1, 2]", to_integer);
}

std::vector<double> Settings::numbers(std::string_view key,
                                      const std::vector<double>& fallback) const {
  node_->ask(key, "list of numbers", list_as_yaml(fallback, number_as_yaml));
  const auto node = node_->find(key);
  return node == nullptr
             ? fallback
             : to_list<double>(*node, "a list of numbers such as [0.9, 0.95]", to_number);
}

std::vector<std::string> Settings::texts(std::string_view key,
                                         const std::vector<std::string>& fallback) const {
  node_->ask(key, "list of texts",
             list_as_yaml(fallback, [](const std::string& value) { return quote(value, true); }));
  const auto node = node_->find(key);
  return node == nullptr ? fallback
                         : to_list<std::string>(*node, "a list of texts such as [a, b]", to_text);
}

std::map<int64_t, double> Settings::table(std::string_view key) const {
  static constexpr std::string_view kExpected =
      "whole numbers with a number each, such as {2: 0.5, 4: 1}";
  node_->ask(key, "table of numbers", "").delegated = true;
  std::map<int64_t, double> out;
  const auto node = node_->find(key);
  if (node == nullptr) return out;
  const auto add = [&](const Node& name, const Node& value) {
    if (!out.emplace(to_integer(name), to_number(value)).second)
      fail(ErrorCode::kInvalidArgument, "{}: {}: {} is given twice", name.place, node->path,
           name.scalar);
  };
  if (node->kind == Node::Kind::kMap) {
    for (const auto& [text, value] : node->entries) {
      Node name;
      name.kind = Node::Kind::kScalar;
      name.place = value->place;
      name.path = node->path;
      name.scalar = text;
      add(name, *value);
    }
    return out;
  }
  if (node->kind != Node::Kind::kList) wrong_type(*node, kExpected);
  for (const auto& pair : node->items) {
    if (pair->kind != Node::Kind::kList || pair->items.size() != 2) wrong_type(*pair, kExpected);
    add(*pair->items[0], *pair->items[1]);
  }
  return out;
}

Settings Settings::section(std::string_view key) const {
  Node::Asked& asked = node_->ask(key, "section", "");
  auto node = node_->find(key);
  if (node == nullptr) {
    if (asked.implicit == nullptr) {
      asked.implicit = std::make_shared<Node>();
      asked.implicit->place = node_->place;
      asked.implicit->path = join_path(node_->path, key);
    }
    return Settings(asked.implicit);
  }
  // "train:" with every line below it commented out.
  if (node->kind == Node::Kind::kNull) node->kind = Node::Kind::kMap;
  if (node->kind != Node::Kind::kMap) wrong_type(*node, "a section of 'key: value' lines");
  return Settings(node);
}

Settings Settings::delegate(std::string_view key) const {
  Settings out = section(key);
  node_->ask(key, "section", "").delegated = true;
  return out;
}

std::vector<Settings> Settings::sections(std::string_view key) const {
  node_->ask(key, "list of sections", "");
  const auto node = node_->find(key);
  if (node == nullptr) return {};
  if (node->kind != Node::Kind::kList) wrong_type(*node, "a list of sections, each behind a '-'");
  std::vector<Settings> out;
  for (const auto& item : node->items) {
    if (item->kind != Node::Kind::kMap) wrong_type(*item, "a section of 'key: value' lines");
    out.push_back(Settings(item));
  }
  return out;
}

void Settings::reject(std::string_view key, std::string_view why) const {
  const auto node = node_->find(key);
  fail(ErrorCode::kInvalidArgument, "{}: {}: {}", node == nullptr ? node_->place : node->place,
       key.empty() ? node_->path : join_path(node_->path, key), why);
}

void Settings::finish() const { finish_node(*node_, *node_, *node_); }

void Settings::finish(const Settings& reader) const {
  finish_node(*node_, *reader.node_, *reader.node_);
}

}  // namespace craton::recipe
