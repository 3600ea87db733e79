#pragma once

#include <string>
#include <string_view>

#include "craton/store/environment.h"
#include "craton/store/http/url.h"
#include "craton/store/s3/profile.h"

namespace craton::store::s3 {

/// Where a bucket is and how it is spoken to.
struct Location {
  std::string bucket, prefix;  ///< `prefix`: "" or ending in "/"
  std::string options;         ///< the query of the URI, for `uri`
  http::Url endpoint;
  bool endpoint_is_given = false;  ///< not derived from the region: no region is probed
  std::string region = "us-east-1";
  bool path_style = false;
  bool anonymous = false, requester_pays = false;
  /// A key that may not be read counts as missing. A bucket that may be read but not listed answers
  /// 403 for a missing chunk; without this the error says so.
  bool forbidden_is_missing = false;
  std::string profile;

  /// "s3://bucket/prefix?options"; `prefix` without its last "/".
  std::string uri() const;
  /// The URL of a key below the prefix ("": the bucket itself), at `endpoint`.
  http::Url url_of(std::string_view key) const;
  http::Url url_of_bucket() const;
};

/// Parses "s3://bucket[/prefix][?option=value&...]" with the options endpoint, region, style
/// (path, virtual), anonymous, requester_pays, forbidden_is_missing (1 or 0) and profile.
/// What the URI leaves open comes, in this order, from CRATON_S3_ENDPOINT, AWS_ENDPOINT_URL_S3 or
/// AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, CRATON_S3_ANONYMOUS,
/// CRATON_S3_REQUESTER_PAYS, CRATON_S3_STYLE, and the profile's endpoint_url, region and
/// s3.addressing_style. With an endpoint of one's own the style is path, at AWS it is virtual where
/// the bucket's name fits into a certificate.
Location parse_location(std::string_view uri, const Environment& environment);

/// AWS's endpoint of a region.
http::Url aws_endpoint(const std::string& region);

}  // namespace craton::store::s3
