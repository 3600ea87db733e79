#include "craton/store/s3/credentials.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/store/s3/xml.h"

namespace craton::store::s3 {

using std::chrono::system_clock;

std::optional<system_clock::time_point> parse_time(std::string_view text) {
  std::tm parts{};
  const std::string copy(text);
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (rest == nullptr) return std::nullopt;
  if (*rest == '.') {
    ++rest;
    while (*rest >= '0' && *rest <= '9') ++rest;
  }
  const std::string_view zone(rest);
  if (zone != "Z" && zone != "+00:00" && zone != "+0000") return std::nullopt;
  if (parts.tm_year < 70) return std::nullopt;
  // Some servers write the year 9999 for "never": more than the clock holds.
  parts.tm_year = std::min(parts.tm_year, 300);
  return system_clock::from_time_t(::timegm(&parts));
}

Credentials parse_credentials_json(std::string_view text, std::string_view from) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const auto field = [&](const char* name) -> std::string {
    if (!json.is_object() || !json.contains(name) || !json[name].is_string()) return "";
    return json[name].get<std::string>();
  };
  Credentials out{field("AccessKeyId"), field("SecretAccessKey"), field("Token"), std::nullopt};
  if (out.session_token.empty()) out.session_token = field("SessionToken");
  if (out.access_key.empty() || out.secret_key.empty())
    fail(ErrorCode::kPermission, "{} gave no AccessKeyId and SecretAccessKey", from);
  if (const std::string expires = field("Expiration"); !expires.empty()) {
    out.expires = parse_time(expires);
    if (!out.expires)
      fail(ErrorCode::kPermission, "{} gave credentials whose Expiration is no time", from);
  }
  return out;
}

Credentials parse_credentials_xml(std::string_view text) {
  const XmlElement root = parse_xml(text);
  const XmlElement* found = root.find("Credentials");
  if (found == nullptr) fail(ErrorCode::kPermission, "the token service gave no credentials");
  Credentials out{
      std::string(found->value("AccessKeyId")), std::string(found->value("SecretAccessKey")),
      std::string(found->value("SessionToken")), parse_time(found->value("Expiration"))};
  if (out.access_key.empty() || out.secret_key.empty())
    fail(ErrorCode::kPermission, "the token service gave incomplete credentials");
  return out;
}

CredentialProvider::CredentialProvider(std::unique_ptr<CredentialSource> source, Now now)
    : source_(std::move(source)), now_(std::move(now)) {}

std::shared_ptr<CredentialProvider> CredentialProvider::shared(const std::string& profile) {
  static auto* mutex = new std::mutex();
  static auto* providers = new std::map<std::string, std::shared_ptr<CredentialProvider>>();
  std::lock_guard lock(*mutex);
  const Environment environment = process_environment();
  const Profile settings = read_profile(profile, environment);
  std::string missing;
  auto source = choose_source(settings, environment, missing);
  if (!source)
    fail(ErrorCode::kPermission,
         "no credentials: {}; for a public bucket add ?anonymous=1 to its URI", missing);
  auto& provider = (*providers)[source->name()];
  if (!provider) provider = std::make_shared<CredentialProvider>(std::move(source));
  return provider;
}

void CredentialProvider::fetch_locked() {
  const auto now = now_();
  Credentials fresh = source_->fetch();
  refresh_at_ = system_clock::time_point::max();
  if (fresh.expires) {
    const auto life = *fresh.expires - now;
    if (life <= std::chrono::seconds(0))
      fail(ErrorCode::kPermission, "the credentials of {} have expired; renew them",
           source_->name());
    refresh_at_ =
        *fresh.expires - std::min<system_clock::duration>(std::chrono::minutes(5), life / 2);
  }
  current_ = std::move(fresh);
}

Credentials CredentialProvider::get() {
  std::lock_guard lock(mutex_);
  if (current_ && now_() < refresh_at_) return *current_;
  try {
    fetch_locked();
  } catch (const Error& e) {
    if (!current_ || !current_->expires || now_() >= *current_->expires) throw;
    // Still valid: the next attempt is a while away, so that a sick service is not asked per
    // request.
    refresh_at_ = now_() + std::min<system_clock::duration>(std::chrono::seconds(30),
                                                            (*current_->expires - now_()) / 2);
    log_warning("credentials could not be refreshed, the old ones still hold: {}", e.what());
  }
  return *current_;
}

bool CredentialProvider::replace(const Credentials& used) {
  std::lock_guard lock(mutex_);
  const auto newer = [&] {
    return current_ && (current_->access_key != used.access_key ||
                        current_->session_token != used.session_token);
  };
  if (newer()) return true;  // another thread was first
  try {
    fetch_locked();
  } catch (const Error& e) {
    log_warning("expired credentials could not be replaced: {}", e.what());
    return false;
  }
  return newer();
}

}  // namespace craton::store::s3
