#include "craton/store/http/http_store.h"

#include "craton/store/http/plain_service.h"

namespace craton::store::http {

HttpStore::HttpStore(Url root, const Limits& limits, bool no_proxy)
    : RemoteStore(std::make_shared<PlainService>(root, no_proxy), limits), root_(std::move(root)) {}

std::string HttpStore::uri() const {
  std::string path = root_.path;
  while (path.ends_with('/')) path.pop_back();
  return root_.origin() + path;
}

Call HttpStore::make_call(std::string_view method, std::string_view key) const {
  if (key.empty()) fail(ErrorCode::kInvalidArgument, "an object key may not be empty");
  Call call;
  call.request.method = method;
  call.request.url.path = fmt::format("/{}", percent_encode(key, true));
  call.what = "cannot read " + join_uri(uri(), key);
  return call;
}

bool HttpStore::is_missing(const Call& call) const {
  return call.response.status == 404 || call.response.status == 410;
}

std::vector<ObjectInfo> HttpStore::list(std::string_view prefix) {
  fail(ErrorCode::kUnsupported, "{} cannot be listed: a web server has no list of objects",
       join_uri(uri(), prefix));
}

void HttpStore::refuse_to_write(std::string_view key) const {
  fail(ErrorCode::kUnsupported, "{} cannot be written: http:// and https:// are for reading",
       join_uri(uri(), key));
}

void HttpStore::put(std::string_view key, std::span<const std::byte>) { refuse_to_write(key); }

bool HttpStore::put_if_absent(std::string_view key, std::span<const std::byte>) {
  refuse_to_write(key);
}

std::unique_ptr<Upload> HttpStore::start_upload(std::string_view key) { refuse_to_write(key); }

void HttpStore::remove(std::string_view key) { refuse_to_write(key); }

}  // namespace craton::store::http
