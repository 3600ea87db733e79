#include "craton/store/s3/location.h"

#include <algorithm>
#include <map>

#include "craton/base/error.h"

namespace craton::store::s3 {

namespace {

using Options = std::map<std::string, std::string>;

bool flag_of(std::string_view name, std::string_view value) {
  if (value == "1" || value == "true" || value == "yes") return true;
  if (value == "0" || value == "false" || value == "no" || value.empty()) return false;
  fail(ErrorCode::kInvalidArgument, "{}={}: expected 1 or 0", name, value);
}

void check_bucket(std::string_view bucket, std::string_view uri) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_';
  };
  if (bucket.empty() || bucket.size() > 255 || !std::ranges::all_of(bucket, fits))
    fail(ErrorCode::kInvalidArgument, "\"{}\" names no bucket: expected s3://bucket/prefix", uri);
}

/// Whether the bucket can be the first part of a host name under a certificate for "*.s3...".
bool fits_into_host(std::string_view bucket) {
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return bucket.size() <= 63 && std::ranges::all_of(bucket, fits);
}

Options parse_options(std::string_view query, std::string_view uri) {
  static const Options kKnown = {{"endpoint", ""},
                                 {"region", ""},
                                 {"style", ""},
                                 {"profile", ""},
                                 {"anonymous", ""},
                                 {"requester_pays", ""},
                                 {"forbidden_is_missing", ""}};
  Options out;
  for (auto& [name, value] : http::parse_query(query)) {
    if (!kKnown.contains(name))
      fail(ErrorCode::kInvalidArgument,
           "{}: unknown option \"{}\"; expected endpoint, region, style, profile, anonymous, "
           "requester_pays or forbidden_is_missing",
           uri.substr(0, uri.find('?')), name);
    out[name] = value;
  }
  return out;
}

std::string first_of(const Options& options, const std::string& option,
                     const Environment& environment, std::initializer_list<const char*> variables,
                     std::string_view otherwise) {
  if (const auto it = options.find(option); it != options.end() && !it->second.empty())
    return it->second;
  for (const char* variable : variables)
    if (auto value = environment(variable)) return *value;
  return std::string(otherwise);
}

bool choose_path_style(const Location& location, std::string style,
                       std::string_view profile_style) {
  if (style.empty() && (profile_style == "path" || profile_style == "virtual"))
    style = profile_style;
  if (style == "path") return true;
  if (style == "virtual") return false;
  if (!style.empty())
    fail(ErrorCode::kInvalidArgument, "style={}: expected path or virtual", style);
  return location.endpoint_is_given || !fits_into_host(location.bucket);
}

}  // namespace

http::Url aws_endpoint(const std::string& region) {
  http::Url url;
  url.host = "s3." + region + (region.starts_with("cn-") ? ".amazonaws.com.cn" : ".amazonaws.com");
  return url;
}

Location parse_location(std::string_view uri, const Environment& environment) {
  Location out;
  std::string_view rest = uri;
  if (rest.starts_with("s3://")) rest.remove_prefix(5);
  const size_t question = rest.find('?');
  if (question != rest.npos) {
    out.options = rest.substr(question + 1);
    rest = rest.substr(0, question);
  }
  const size_t slash = rest.find('/');
  out.bucket = rest.substr(0, slash);
  check_bucket(out.bucket, uri.substr(0, uri.find('?')));
  std::string_view prefix = slash == rest.npos ? std::string_view() : rest.substr(slash + 1);
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  if (!prefix.empty()) out.prefix = std::string(prefix) + "/";

  const Options options = parse_options(out.options, uri);
  out.profile = first_of(options, "profile", environment, {}, "");
  const Profile profile = read_profile(out.profile, environment);
  if (!out.profile.empty() && !profile.found)
    fail(ErrorCode::kNotFound, "there is no profile \"{}\" in the AWS config and credentials files",
         out.profile);
  const std::string region = first_of(options, "region", environment,
                                      {"AWS_REGION", "AWS_DEFAULT_REGION"}, profile.get("region"));
  if (!region.empty()) out.region = region;
  const auto odd = [](unsigned char c) { return !std::isalnum(c) && c != '-'; };
  if (std::ranges::any_of(out.region, odd))
    fail(ErrorCode::kInvalidArgument, "\"{}\" is no region", out.region);
  const std::string endpoint =
      first_of(options, "endpoint", environment,
               {"CRATON_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"},
               profile.get("endpoint_url"));
  out.endpoint_is_given = !endpoint.empty();
  out.endpoint = endpoint.empty() ? aws_endpoint(out.region) : http::parse_url(endpoint);
  out.endpoint.query.clear();
  while (out.endpoint.path.ends_with('/')) out.endpoint.path.pop_back();
  out.path_style =
      choose_path_style(out, first_of(options, "style", environment, {"CRATON_S3_STYLE"}, ""),
                        profile.get("s3.addressing_style"));
  const auto flag = [&](const char* option, const char* variable) {
    return flag_of(option, first_of(options, option, environment, {variable}, ""));
  };
  out.anonymous = flag("anonymous", "CRATON_S3_ANONYMOUS");
  out.requester_pays = flag("requester_pays", "CRATON_S3_REQUESTER_PAYS");
  out.forbidden_is_missing = flag("forbidden_is_missing", "CRATON_S3_FORBIDDEN_IS_MISSING");
  return out;
}

std::string Location::uri() const {
  std::string out = "s3://" + bucket;
  if (!prefix.empty()) out += "/" + prefix.substr(0, prefix.size() - 1);
  return options.empty() ? out : out + "?" + options;
}

http::Url Location::url_of_bucket() const {
  http::Url url = endpoint;
  if (path_style) {
    url.path += "/" + bucket;
  } else {
    url.host = bucket + "." + url.host;
    if (url.path.empty()) url.path = "/";
  }
  return url;
}

http::Url Location::url_of(std::string_view key) const {
  http::Url url = url_of_bucket();
  if (!url.path.ends_with('/')) url.path += "/";
  url.path += http::percent_encode(prefix + std::string(key), true);
  return url;
}

}  // namespace craton::store::s3
