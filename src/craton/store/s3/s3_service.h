#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "craton/store/http/client.h"
#include "craton/store/s3/credentials.h"
#include "craton/store/s3/location.h"

namespace craton::store::s3 {

/// Signs requests for one bucket and learns from its answers: the bucket's region (301, or 400 with
/// another region), the server's clock, that the credentials have ended. Thread-safe.
class S3Service final : public http::Service {
 public:
  /// `credentials` null: the process's own for the location's profile, looked up at the first
  /// request that needs them.
  explicit S3Service(Location location, std::shared_ptr<CredentialProvider> credentials = nullptr);

  void prepare(http::Request& request, const std::optional<http::Url>& elsewhere) override;
  http::ServiceError explain(const http::Response& response) override;
  bool learn(const http::Request& sent, const http::Response& response,
             const http::ServiceError& error) override;
  std::vector<std::pair<std::string, std::string>> facts() const override;

  /// As learned so far.
  Location location() const;
  /// "anonymous", or the name of the source.
  std::string credentials_name();
  std::chrono::seconds clock_offset() const;

 private:
  std::shared_ptr<CredentialProvider> credentials();
  bool learn_region(const http::Response& response);
  bool learn_clock(const http::Response& response);

  mutable std::mutex mutex_;
  Location location_;
  std::shared_ptr<CredentialProvider> credentials_;
  std::chrono::seconds clock_offset_{0};
};

}  // namespace craton::store::s3
