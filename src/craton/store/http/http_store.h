#pragma once

#include "craton/store/http/remote_store.h"

namespace craton::store::http {

/// A folder of a web server, to read from: "https://host/folder". A query (a signed link, a token)
/// goes with every request and is not shown. Redirects are followed. Servers have no listing that
/// programs can rely on: `list` is kUnsupported, and so is everything that writes.
class HttpStore final : public RemoteStore {
 public:
  HttpStore(Url root, const Limits& limits, bool no_proxy = false);

  std::string uri() const override;
  std::vector<ObjectInfo> list(std::string_view prefix) override;
  void put(std::string_view key, std::span<const std::byte> bytes) override;
  bool put_if_absent(std::string_view key, std::span<const std::byte> bytes) override;
  std::unique_ptr<Upload> start_upload(std::string_view key) override;
  void remove(std::string_view key) override;

 private:
  Call make_call(std::string_view method, std::string_view key) const override;
  bool is_missing(const Call& call) const override;
  [[noreturn]] void refuse_to_write(std::string_view key) const;
  Url root_;
};

}  // namespace craton::store::http
