#include "craton/store/s3/s3_service.h"

#include <algorithm>
#include <cctype>

#include "craton/base/log.h"
#include "craton/store/s3/xml.h"

namespace craton::store::s3 {

using std::chrono::system_clock;

S3Service::S3Service(Location location, std::shared_ptr<CredentialProvider> credentials)
    : location_(std::move(location)), credentials_(std::move(credentials)) {}

std::shared_ptr<CredentialProvider> S3Service::credentials() {
  std::lock_guard lock(mutex_);
  if (location_.anonymous) return nullptr;
  if (!credentials_) {
    credentials_ = CredentialProvider::shared(location_.profile);
    log_debug("s3://{}: endpoint {}, region {}, credentials from {}", location_.bucket,
              location_.endpoint.origin(), location_.region, credentials_->name());
  }
  return credentials_;
}

void S3Service::prepare(http::Request& request, const std::optional<http::Url>& elsewhere) {
  const auto provider = credentials();
  SigningContext context;
  {
    std::lock_guard lock(mutex_);
    context.region = location_.region;
    context.time = system_clock::now() + clock_offset_;
    http::Url url = elsewhere.value_or(location_.url_of_bucket());
    if (!elsewhere) {
      if (!request.url.path.empty() && url.path.ends_with('/')) url.path.pop_back();
      url.path += request.url.path;
      url.query = request.url.query;
    }
    request.url = std::move(url);
    if (location_.requester_pays) request.headers.set("x-amz-request-payer", "requester");
  }
  if (!provider) return;
  const bool by_tls = request.url.scheme == "https" && !request.body.empty();
  sign(request, provider->get(), context,
       by_tls ? std::string(kUnsignedPayload) : payload_hash(request.body));
}

http::ServiceError S3Service::explain(const http::Response& response) {
  http::ServiceError out;
  if (response.text.empty()) return out;
  try {
    const XmlElement root = parse_xml(response.text);
    out.code = root.value("Code");
    out.message = root.value("Message");
  } catch (const Error&) {
    // Proxies answer in HTML: the status alone has to do.
  }
  return out;
}

bool S3Service::learn(const http::Request& sent, const http::Response& response,
                      const http::ServiceError& error) {
  http::Outcome outcome;
  outcome.code = error.code;
  // A HEAD has no body to say why.
  const bool silent = sent.method == "HEAD" && (response.status == 400 || response.status == 403);
  if (http::credentials_expired(outcome) || silent) {
    if (const auto provider = credentials()) {
      Credentials used;
      const std::string_view header = sent.headers.get("Authorization");
      const size_t at = header.find("Credential=");
      if (at != header.npos)
        used.access_key = header.substr(at + 11, header.find('/', at) - at - 11);
      used.session_token = sent.headers.get("x-amz-security-token");
      if (http::credentials_expired(outcome) || provider->get().expires)
        if (provider->replace(used)) return true;
    }
  }
  if (error.code == "RequestTimeTooSkewed" || (silent && response.status == 403))
    if (learn_clock(response)) return true;
  return learn_region(response);
}

bool S3Service::learn_clock(const http::Response& response) {
  const auto date = http::parse_http_date(response.headers.get("date"));
  if (!date) return false;
  const auto offset = std::chrono::duration_cast<std::chrono::seconds>(*date - system_clock::now());
  std::lock_guard lock(mutex_);
  if (std::chrono::abs(offset - clock_offset_) < std::chrono::seconds(60)) return false;
  clock_offset_ = offset;
  log_warning("this host's clock is {} s {} the clock of {}; requests are signed with the latter",
              std::abs(offset.count()), offset.count() > 0 ? "behind" : "ahead of",
              location_.endpoint.origin());
  return true;
}

bool S3Service::learn_region(const http::Response& response) {
  if (response.status != 301 && response.status != 400 && response.status != 307 &&
      response.status != 403)
    return false;
  std::string region(response.headers.get("x-amz-bucket-region"));
  if (region.empty() && !response.text.empty()) {
    try {
      region = parse_xml(response.text).value("Region");
    } catch (const Error&) {
    }
  }
  const auto fits = [](unsigned char c) { return std::isalnum(c) || c == '-'; };
  if (region.empty() || region.size() > 64 || !std::ranges::all_of(region, fits)) return false;
  std::lock_guard lock(mutex_);
  if (region == location_.region) return false;
  log_debug("s3://{} is in region {}", location_.bucket, region);
  location_.region = region;
  if (!location_.endpoint_is_given) {
    location_.endpoint = aws_endpoint(region);
    location_.endpoint.path.clear();
  }
  return true;
}

std::vector<std::pair<std::string, std::string>> S3Service::facts() const {
  std::lock_guard lock(mutex_);
  return {{"endpoint", location_.endpoint.origin()},
          {"region", location_.region},
          {"credentials", location_.anonymous ? "anonymous"
                          : credentials_      ? credentials_->name()
                                              : "none"}};
}

Location S3Service::location() const {
  std::lock_guard lock(mutex_);
  return location_;
}

std::string S3Service::credentials_name() {
  const auto provider = credentials();
  return provider ? provider->name() : "anonymous";
}

std::chrono::seconds S3Service::clock_offset() const {
  std::lock_guard lock(mutex_);
  return clock_offset_;
}

}  // namespace craton::store::s3
