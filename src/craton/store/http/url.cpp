#include "craton/store/http/url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "craton/base/error.h"

namespace craton::store::http {

namespace {

uint16_t default_port(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_unreserved(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

}  // namespace

std::string Url::authority() const {
  if (port == 0 || port == default_port(scheme)) return host;
  return host + ":" + std::to_string(port);
}

std::string Url::origin() const { return scheme + "://" + authority(); }

std::string Url::text() const { return origin() + path + (query.empty() ? "" : "?" + query); }

bool Url::same_origin(const Url& other) const {
  return scheme == other.scheme && authority() == other.authority();
}

Url parse_url(std::string_view text) {
  // The text may hold a signature or a password: no message repeats it.
  Url url;
  const size_t colon = text.find("://");
  url.scheme = lower(text.substr(0, colon == text.npos ? 0 : colon));
  if (url.scheme != "http" && url.scheme != "https")
    fail(ErrorCode::kInvalidArgument,
         "a URL begins with \"{}\"; expected http://host or https://host",
         text.substr(0, std::min<size_t>(text.size(), 8)));
  std::string_view rest = text.substr(colon + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t end = rest.find_first_of("/?");
  std::string_view host = rest.substr(0, end);
  rest = end == rest.npos ? std::string_view() : rest.substr(end);
  if (host.find('@') != host.npos)
    fail(ErrorCode::kInvalidArgument,
         "a URL holds a name or password before its host; leave it out");
  const size_t bracket = host.rfind(']');
  const size_t port_at = host.find(':', bracket == host.npos ? 0 : bracket);
  if (port_at != host.npos) {
    const std::string_view digits = host.substr(port_at + 1);
    const auto [last, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (error != std::errc() || last != digits.data() + digits.size() || url.port == 0)
      fail(ErrorCode::kInvalidArgument, "\"{}\": expected a port from 1 to 65535 behind the host",
           host);
    host = host.substr(0, port_at);
  }
  url.host = lower(host);
  const auto odd = [](char c) { return !is_unreserved(c) && c != '[' && c != ']' && c != ':'; };
  if (url.host.empty() || std::ranges::any_of(url.host, odd))
    fail(ErrorCode::kInvalidArgument, "\"{}\" is no host name", host);
  const size_t question = rest.find('?');
  url.path = rest.substr(0, question);
  if (url.path.empty()) url.path = "/";
  if (question != rest.npos) url.query = rest.substr(question + 1);
  const auto unsafe = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; };
  if (std::ranges::any_of(url.path, unsafe) || std::ranges::any_of(url.query, unsafe))
    fail(ErrorCode::kInvalidArgument,
         "the URL of {} holds blanks or control characters; write them as %XX", url.host);
  return url;
}

std::string percent_encode(std::string_view text, bool keep_slash) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
        hex_value(text[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    out.emplace_back(percent_decode(part.substr(0, equals)),
                     equals == part.npos ? "" : percent_decode(part.substr(equals + 1)));
  }
  return out;
}

}  // namespace craton::store::http
