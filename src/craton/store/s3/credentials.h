#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "craton/store/environment.h"
#include "craton/store/s3/profile.h"
#include "craton/store/s3/sigv4.h"

namespace craton::store::s3 {

/// One place that credentials come from.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  /// "environment", "profile default", "web identity", ... for people.
  virtual std::string name() const = 0;
  /// Asks the place again, each time. May block for a few seconds; Error when it gives none.
  virtual Credentials fetch() = 0;
};

/// The first place in the usual order that is set up: environment, web identity token, profile,
/// container, instance metadata. Looks at variables and files only; no request is made. nullptr
/// when there is none; `missing` then says what was looked for. Which place it is never depends on
/// whether a server answers: a job must not change its identity because one was slow.
std::unique_ptr<CredentialSource> choose_source(const Profile& profile,
                                                const Environment& environment,
                                                std::string& missing);

/// Credentials of one source for the whole process, fetched by one thread while the others wait.
/// They are fetched again five minutes before they end (or after half of a shorter life), or once
/// when a server says that they have ended.
class CredentialProvider {
 public:
  using Now = std::function<std::chrono::system_clock::time_point()>;
  explicit CredentialProvider(
      std::unique_ptr<CredentialSource> source,
      Now now = [] { return std::chrono::system_clock::now(); });

  /// One provider per profile in this process. Error kPermission when no source is set up.
  static std::shared_ptr<CredentialProvider> shared(const std::string& profile);

  Credentials get();
  /// A server refused `used` (its access key and session token) as expired. True when there are
  /// newer ones now.
  bool replace(const Credentials& used);
  std::string name() const { return source_->name(); }

 private:
  void fetch_locked();
  std::unique_ptr<CredentialSource> source_;
  Now now_;
  std::mutex mutex_;
  std::optional<Credentials> current_;
  std::chrono::system_clock::time_point refresh_at_;
};

/// {"AccessKeyId": ..., "SecretAccessKey": ..., "Token" or "SessionToken": ..., "Expiration": ...}.
/// The error says what is missing and never repeats the text.
Credentials parse_credentials_json(std::string_view text, std::string_view from);
/// The answer of STS AssumeRoleWithWebIdentity.
Credentials parse_credentials_xml(std::string_view text);
/// "2026-01-31T12:00:00Z", with or without a fraction; nullopt for anything else.
std::optional<std::chrono::system_clock::time_point> parse_time(std::string_view text);

}  // namespace craton::store::s3
