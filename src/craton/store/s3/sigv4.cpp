#include "craton/store/s3/sigv4.h"

#include <fmt/chrono.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "craton/base/check.h"
#include "craton/base/sha256.h"

namespace craton::store::s3 {

namespace {

using Digest = std::array<std::byte, 32>;

Digest hmac(std::span<const std::byte> key, std::string_view text) {
  Digest out;
  unsigned int size = out.size();
  CRATON_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                    reinterpret_cast<unsigned char*>(out.data()), &size) != nullptr);
  return out;
}

std::string hash_of(std::string_view text) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(text)));
  return sha.hex_digest();
}

/// Trimmed, with each run of blanks as one.
std::string squeezed(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const bool blank = c == ' ' || c == '\t';
    if (blank && (out.empty() || out.back() == ' ')) continue;
    out += blank ? ' ' : c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::map<std::string, std::string> canonical_headers(const http::Headers& headers) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : headers.all()) {
    std::string low(name);
    std::ranges::transform(low, low.begin(), [](unsigned char c) { return std::tolower(c); });
    if (low == "authorization" || low == "user-agent") continue;
    const auto [it, is_new] = out.try_emplace(low, squeezed(value));
    if (!is_new) it->second += "," + squeezed(value);
  }
  return out;
}

std::string signed_names(const std::map<std::string, std::string>& headers) {
  std::string out;
  for (const auto& [name, value] : headers) out += (out.empty() ? "" : ";") + name;
  return out;
}

std::string canonical_query(std::string_view query) {
  // Decoded and encoded again, so that "*", "+" or lower-case hex that came in sign as they should.
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const auto& [name, value] : http::parse_query(query))
    parameters.emplace_back(http::percent_encode(name), http::percent_encode(value));
  std::ranges::sort(parameters);
  std::string out;
  for (const auto& [name, value] : parameters) out += (out.empty() ? "" : "&") + name + "=" + value;
  return out;
}

std::string scope_of(const SigningContext& context) {
  return fmt::format("{}/{}/{}/aws4_request", amz_date(context.time).substr(0, 8), context.region,
                     context.service);
}

}  // namespace

std::string amz_date(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string payload_hash(std::span<const std::byte> body) {
  if (body.empty()) return std::string(kEmptyPayload);
  Sha256 sha;
  sha.update(body);
  return sha.hex_digest();
}

std::string canonical_request(const http::Request& request, std::string_view payload_hash) {
  const auto headers = canonical_headers(request.headers);
  std::string out =
      request.method + "\n" + request.url.path + "\n" + canonical_query(request.url.query) + "\n";
  for (const auto& [name, value] : headers) out += name + ":" + value + "\n";
  out += "\n" + signed_names(headers) + "\n";
  return out += payload_hash;
}

std::string string_to_sign(std::string_view canonical_request, const SigningContext& context) {
  return fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", amz_date(context.time), scope_of(context),
                     hash_of(canonical_request));
}

void sign(http::Request& request, const Credentials& credentials, const SigningContext& context,
          std::string_view payload_hash) {
  http::Headers& headers = request.headers;
  headers.remove("Authorization");
  headers.set("Host", request.url.authority());
  headers.set("x-amz-date", amz_date(context.time));
  if (context.service == "s3") headers.set("x-amz-content-sha256", payload_hash);
  if (!credentials.session_token.empty())
    headers.set("x-amz-security-token", credentials.session_token);

  const std::string to_sign = string_to_sign(canonical_request(request, payload_hash), context);
  const std::string secret = "AWS4" + credentials.secret_key;
  const Digest date = hmac(std::as_bytes(std::span(secret)), amz_date(context.time).substr(0, 8));
  const Digest key = hmac(hmac(hmac(date, context.region), context.service), "aws4_request");
  headers.set("Authorization",
              fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                          credentials.access_key, scope_of(context),
                          signed_names(canonical_headers(headers)), to_hex(hmac(key, to_sign))));
}

}  // namespace craton::store::s3
