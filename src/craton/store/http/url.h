#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace craton::store::http {

/// A URL in parts. `path` and `query` are as sent: already percent-encoded.
struct Url {
  std::string scheme = "https", host;
  uint16_t port = 0;  ///< 0: the scheme's own
  std::string path = "/";
  std::string query;

  /// "host" or "host:port", the port only when it is not the scheme's own: the Host header.
  std::string authority() const;
  /// "scheme://host[:port]", without path and query: may be shown.
  std::string origin() const;
  std::string text() const;
  bool same_origin(const Url& other) const;
};

/// "http://host[:port][/path][?query]" and https; kInvalidArgument for anything else. A name and
/// password before the host are refused, since they would end up in messages.
Url parse_url(std::string_view text);

/// Everything but A-Z a-z 0-9 - . _ ~ becomes %XX (RFC 3986, 2.3); "/" is kept when asked for.
std::string percent_encode(std::string_view text, bool keep_slash = false);
/// %XX and, when asked for, "+" back to bytes; a broken %XX stays as it is.
std::string percent_decode(std::string_view text, bool plus_is_space = false);

/// "a=1&b" to decoded pairs, in order; a name without "=" has the value "".
std::vector<std::pair<std::string, std::string>> parse_query(std::string_view query);

}  // namespace craton::store::http
