#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "craton/store/http/remote_store.h"
#include "craton/store/s3/s3_service.h"

namespace craton::store::s3 {

/// Objects of one bucket below a prefix: "s3://bucket/prefix" (location.h has the options).
///
/// A put is one request and so atomic. `start_upload` sends parts of 16 MiB, four at a time, while
/// the caller goes on, and shows the object when `finish` completes it; an upload that is dropped
/// is aborted. What `kill -9` leaves behind is invisible, costs storage, and goes by the bucket's
/// lifecycle rule for incomplete uploads, or by `abort_uploads`.
/// `put_if_absent` is the server's If-None-Match: *.
class S3Store final : public http::RemoteStore {
 public:
  S3Store(Location location, const http::Limits& limits,
          std::shared_ptr<CredentialProvider> credentials = nullptr);
  /// With what the environment says.
  static std::shared_ptr<S3Store> open(std::string_view uri);

  std::string uri() const override { return uri_; }
  /// With the endpoint, where one was given.
  std::string identity() const override;
  std::vector<ObjectInfo> list(std::string_view prefix) override;
  std::vector<std::string> list_children(std::string_view folder) override;
  void put(std::string_view key, std::span<const std::byte> bytes) override;
  bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) override;
  std::unique_ptr<Upload> start_upload(std::string_view key) override;
  void remove(std::string_view key) override;

  /// Multipart uploads below the prefix that are neither finished nor aborted: running now, or left
  /// by a process that was killed.
  struct UnfinishedUpload {
    std::string key, id;
    std::optional<std::chrono::system_clock::time_point> started;
  };
  std::vector<UnfinishedUpload> unfinished_uploads();
  /// Aborts those that were started before `before`; how many.
  size_t abort_uploads(std::chrono::system_clock::time_point before);
  /// The answer to a listing of at most one key: shows whether the bucket can be spoken to.
  http::Response probe();
  S3Service& service() { return *service_; }

 private:
  friend class S3Upload;
  S3Store(std::shared_ptr<S3Service> service, const http::Limits& limits);
  http::Call make_call(std::string_view method, std::string_view key) const override;
  bool is_missing(const http::Call& call) const override;
  void add_hint(Error& error) const override;
  /// A request to the bucket itself with a query in order.
  http::Call make_bucket_call(
      const std::vector<std::pair<std::string, std::string>>& parameters) const;

  struct Page {
    std::vector<ObjectInfo> objects;
    std::vector<std::string> folders;  ///< common prefixes, relative to the store's prefix
    std::string next;                  ///< the token of the next page; "" at the end
  };
  Page list_page(const std::string& prefix, const char* delimiter, const std::string& token);
  bool put_once(std::string_view key, std::span<const std::byte> bytes, bool only_if_absent);

  std::string uri_, prefix_;
  bool forbidden_is_missing_;
  std::shared_ptr<S3Service> service_;
};

/// A query as it is sent: names and values encoded.
std::string make_query(const std::vector<std::pair<std::string, std::string>>& parameters);

}  // namespace craton::store::s3
