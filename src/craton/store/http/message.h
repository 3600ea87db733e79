#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "craton/store/http/url.h"

namespace craton::store::http {

/// Header fields in order. Names compare without case.
class Headers {
 public:
  void add(std::string_view name, std::string_view value);
  /// Replaces all fields of this name.
  void set(std::string_view name, std::string_view value);
  void remove(std::string_view name);
  /// The first field of this name; "" when there is none.
  std::string_view get(std::string_view name) const;
  bool has(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }
  void clear() { fields_.clear(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct Request {
  std::string method = "GET";
  Url url;
  Headers headers;
  std::span<const std::byte> body;  ///< the caller's, until the answer is there
};

struct Response {
  int status = 0;
  Headers headers;
  std::string text;  ///< the body, where it went into no sink; cut at kMaxText

  std::optional<uint64_t> content_length() const;
  std::string etag() const { return std::string(headers.get("etag")); }
};

/// The longest body that is kept as text: a page of 1,000 keys of 1,024 characters fits.
inline constexpr size_t kMaxText = 16 << 20;

/// "bytes 3-6/10"; `total` is absent for "/*". For "bytes */10" first and last are absent.
struct ContentRange {
  std::optional<uint64_t> first, last, total;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// Whole decimal digits only; nullopt for anything else and for what does not fit.
std::optional<uint64_t> parse_number(std::string_view text);

/// "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7); nullopt for anything else.
std::optional<std::chrono::system_clock::time_point> parse_http_date(std::string_view text);

}  // namespace craton::store::http
