#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "craton/store/http/message.h"

namespace craton::store::s3 {

/// Never printed, logged or put into an error.
struct Credentials {
  std::string access_key, secret_key, session_token;
  std::optional<std::chrono::system_clock::time_point> expires;
};

/// Signature version 4 in the Authorization header, from "Signing AWS API requests" (AWS IAM user
/// guide) and "Authenticating requests: using the Authorization header" (Amazon S3 API reference).
/// S3's rules: the path is signed as it is sent, encoded once and never normalised.
struct SigningContext {
  std::string region, service = "s3";
  std::chrono::system_clock::time_point time;
};

/// SHA-256 of nothing: the payload of every GET, HEAD and DELETE.
inline constexpr std::string_view kEmptyPayload =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// For bodies whose integrity TLS covers.
inline constexpr std::string_view kUnsignedPayload = "UNSIGNED-PAYLOAD";

std::string payload_hash(std::span<const std::byte> body);

/// Every header of `request` is signed but Authorization and User-Agent: values are trimmed and
/// inner blanks made one, equal names joined, and query parameters sorted by name, then value, with
/// "=" behind those without a value.
std::string canonical_request(const http::Request& request, std::string_view payload_hash);
std::string string_to_sign(std::string_view canonical_request, const SigningContext& context);

/// Sets Host, x-amz-date, x-amz-content-sha256 (for S3), x-amz-security-token and Authorization.
void sign(http::Request& request, const Credentials& credentials, const SigningContext& context,
          std::string_view payload_hash);

/// "20130524T000000Z".
std::string amz_date(std::chrono::system_clock::time_point time);

}  // namespace craton::store::s3
