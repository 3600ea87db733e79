#include "craton/store/http/message.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>

namespace craton::store::http {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

void Headers::add(std::string_view name, std::string_view value) {
  fields_.emplace_back(name, value);
}

void Headers::set(std::string_view name, std::string_view value) {
  remove(name);
  add(name, value);
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const auto& field) { return same_name(field.first, name); });
}

std::string_view Headers::get(std::string_view name) const {
  const auto it = std::ranges::find_if(
      fields_, [&](const auto& field) { return same_name(field.first, name); });
  return it == fields_.end() ? std::string_view() : std::string_view(it->second);
}

bool Headers::has(std::string_view name) const {
  return std::ranges::any_of(fields_,
                             [&](const auto& field) { return same_name(field.first, name); });
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || last != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::optional<std::chrono::system_clock::time_point> parse_http_date(std::string_view text) {
  std::tm parts{};
  const std::string date(text);
  const char* end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  if (parts.tm_year < 70 || parts.tm_year > 300) return std::nullopt;  // more than the clock holds
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

std::optional<uint64_t> Response::content_length() const {
  return parse_number(headers.get("content-length"));
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const size_t slash = text.find('/');
  if (slash == text.npos) return std::nullopt;
  ContentRange out;
  const std::string_view total = text.substr(slash + 1), range = text.substr(0, slash);
  if (total != "*" && !(out.total = parse_number(total))) return std::nullopt;
  if (range == "*") return out.total ? std::optional(out) : std::nullopt;
  const size_t dash = range.find('-');
  if (dash == range.npos) return std::nullopt;
  out.first = parse_number(range.substr(0, dash));
  out.last = parse_number(range.substr(dash + 1));
  if (!out.first || !out.last || *out.last < *out.first) return std::nullopt;
  if (out.total && *out.last >= *out.total) return std::nullopt;
  return out;
}

}  // namespace craton::store::http
