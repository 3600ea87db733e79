#include "craton/store/s3/s3_store.h"

#include <algorithm>

#include "craton/base/error.h"
#include "craton/store/s3/s3_upload.h"
#include "craton/store/s3/xml.h"

namespace craton::store::s3 {

using http::Call;

namespace {

constexpr size_t kOnePut = 64 << 20;  ///< a larger object goes up in parts
constexpr size_t kMostPages = 1'000'000;

}  // namespace

std::string make_query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string out;
  for (const auto& [name, value] : parameters)
    out +=
        (out.empty() ? "" : "&") + http::percent_encode(name) + "=" + http::percent_encode(value);
  return out;
}

S3Store::S3Store(Location location, const http::Limits& limits,
                 std::shared_ptr<CredentialProvider> credentials)
    : S3Store(std::make_shared<S3Service>(std::move(location), std::move(credentials)), limits) {}

S3Store::S3Store(std::shared_ptr<S3Service> service, const http::Limits& limits)
    : RemoteStore(service, limits), service_(std::move(service)) {
  const Location location = service_->location();
  uri_ = location.uri();
  prefix_ = location.prefix;
  forbidden_is_missing_ = location.forbidden_is_missing;
}

std::shared_ptr<S3Store> S3Store::open(std::string_view uri) {
  const Environment environment = process_environment();
  return std::make_shared<S3Store>(parse_location(uri, environment),
                                   http::limits_from(environment));
}

std::string S3Store::identity() const {
  const Location location = service_->location();
  return (location.endpoint_is_given ? location.endpoint.origin() + " " : std::string()) + uri_;
}

Call S3Store::make_call(std::string_view method, std::string_view key) const {
  if (key.empty()) fail(ErrorCode::kInvalidArgument, "an object key may not be empty");
  const std::string full = prefix_ + std::string(key);
  if (full.size() > 1024)
    fail(ErrorCode::kInvalidArgument, "{}: an object key may have 1024 bytes, this has {}", uri_,
         full.size());
  Call call;
  call.request.method = method;
  // Only for reading: a write that is refused has failed.
  if (forbidden_is_missing_ && (method == "GET" || method == "HEAD")) call.also_answers = {403};
  call.request.url.path = fmt::format("/{}", http::percent_encode(full, true));
  const char* verb = method == "PUT" || method == "POST" ? "write"
                     : method == "DELETE"                ? "remove"
                                                         : "read";
  call.what = fmt::format("cannot {} {}", verb, join_uri(uri_, key));
  return call;
}

Call S3Store::make_bucket_call(
    const std::vector<std::pair<std::string, std::string>>& parameters) const {
  Call call;
  call.request.url.path.clear();
  call.request.url.query = make_query(parameters);
  call.what = "cannot list " + uri_;
  return call;
}

bool S3Store::is_missing(const Call& call) const {
  if (call.response.status == 403 && forbidden_is_missing_) return true;
  if (call.response.status != 404) return false;
  const http::ServiceError error = service_->explain(call.response);
  if (error.code == "NoSuchBucket")
    fail(ErrorCode::kNotFound, "{}: there is no such bucket", call.what);
  return true;
}

void S3Store::add_hint(Error& error) const {
  error.with("hint",
             "where the bucket may not be listed, a missing object answers 403 as well; "
             "?forbidden_is_missing=1 behind the URI takes it as missing");
}

S3Store::Page S3Store::list_page(const std::string& prefix, const char* delimiter,
                                 const std::string& token) {
  std::vector<std::pair<std::string, std::string>> parameters = {
      {"encoding-type", "url"}, {"list-type", "2"}, {"prefix", prefix_ + prefix}};
  if (*delimiter != '\0') parameters.emplace_back("delimiter", delimiter);
  if (!token.empty()) parameters.emplace_back("continuation-token", token);
  Call call = make_bucket_call(parameters);
  client_.run(call);
  const XmlElement root = parse_xml(call.response.text);
  if (root.name != "ListBucketResult")
    fail(ErrorCode::kIo, "{}: the server answered with {}", call.what, root.name);
  const bool encoded = root.value("EncodingType") == "url";
  const auto relative = [&](std::string_view text) {
    const std::string key = encoded ? http::percent_decode(text, true) : std::string(text);
    if (!key.starts_with(prefix_))
      fail(ErrorCode::kIo, "{}: the server listed a key outside of \"{}\"", call.what, prefix_);
    return key.substr(prefix_.size());
  };
  Page page;
  for (const XmlElement& element : root.children) {
    if (element.name == "Contents") {
      const auto size = http::parse_number(element.value("Size"));
      std::string key = relative(element.value("Key"));
      // "folder/" of no bytes is how some tools mark a folder; no store makes an object of it.
      if (key.empty() || key.ends_with('/')) continue;
      page.objects.push_back(
          {std::move(key), size.value_or(0), std::string(element.value("ETag"))});
    } else if (element.name == "CommonPrefixes") {
      page.folders.push_back(relative(element.value("Prefix")));
    }
  }
  if (root.value("IsTruncated") == "true") {
    page.next = root.value("NextContinuationToken");
    if (page.next.empty() || page.next == token)
      fail(ErrorCode::kIo, "{}: the server has more pages but names no next one", call.what);
  }
  return page;
}

std::vector<ObjectInfo> S3Store::list(std::string_view prefix) {
  std::vector<ObjectInfo> out;
  std::string token;
  for (size_t page_number = 0; page_number < kMostPages; ++page_number) {
    Page page = list_page(std::string(prefix), "", token);
    std::ranges::move(page.objects, std::back_inserter(out));
    token = std::move(page.next);
    if (token.empty()) break;
  }
  std::ranges::sort(out, {}, &ObjectInfo::key);
  return out;
}

std::vector<std::string> S3Store::list_children(std::string_view folder) {
  while (folder.ends_with('/')) folder.remove_suffix(1);
  const std::string prefix = folder.empty() ? "" : std::string(folder) + "/";
  std::vector<std::string> out;
  std::string token;
  for (size_t page_number = 0; page_number < kMostPages; ++page_number) {
    Page page = list_page(prefix, "/", token);
    for (const ObjectInfo& object : page.objects) out.push_back(object.key.substr(prefix.size()));
    for (const std::string& name : page.folders) out.push_back(name.substr(prefix.size()));
    token = std::move(page.next);
    if (token.empty()) break;
  }
  std::erase(out, "");
  std::ranges::sort(out);
  return out;
}

bool S3Store::put_once(std::string_view key, std::span<const std::byte> bytes,
                       bool only_if_absent) {
  Call call = make_call("PUT", key);
  call.request.body = bytes;
  if (only_if_absent) {
    call.request.headers.set("If-None-Match", "*");
    call.also_answers = {412};
  }
  client_.run(call);
  if (call.response.status != 412) return true;
  // The refusal may be of our own object, when the answer to an earlier attempt was lost.
  if (!call.ambiguous) return false;
  const auto there = get(key);
  return there && std::ranges::equal(*there, bytes);
}

void S3Store::put(std::string_view key, std::span<const std::byte> bytes) {
  if (bytes.size() <= kOnePut) {
    put_once(key, bytes, false);
    return;
  }
  const auto upload = start_upload(key);
  upload->append(bytes);
  upload->finish();
}

bool S3Store::put_if_absent(std::string_view key, std::span<const std::byte> bytes) {
  return put_once(key, bytes, true);
}

std::unique_ptr<Upload> S3Store::start_upload(std::string_view key) {
  return std::make_unique<S3Upload>(service_, client_.limits(), std::string(key));
}

void S3Store::remove(std::string_view key) {
  Call call = make_call("DELETE", key);
  call.also_answers = {404};
  client_.run(call);
  is_missing(call);  // throws when the bucket is what is missing
}

std::vector<S3Store::UnfinishedUpload> S3Store::unfinished_uploads() {
  std::vector<UnfinishedUpload> out;
  std::string key_marker, id_marker;
  for (size_t page_number = 0; page_number < kMostPages; ++page_number) {
    Call call = make_bucket_call({{"key-marker", key_marker},
                                  {"prefix", prefix_},
                                  {"upload-id-marker", id_marker},
                                  {"uploads", ""}});
    client_.run(call);
    const XmlElement root = parse_xml(call.response.text);
    for (const XmlElement& upload : root.children) {
      const std::string_view key = upload.value("Key");
      if (upload.name != "Upload" || !key.starts_with(prefix_)) continue;
      out.push_back({std::string(key.substr(prefix_.size())), std::string(upload.value("UploadId")),
                     parse_time(upload.value("Initiated"))});
    }
    if (root.value("IsTruncated") != "true") break;
    const std::string_view next = root.value("NextKeyMarker");
    if (next.empty() || (next == key_marker && root.value("NextUploadIdMarker") == id_marker))
      break;
    key_marker = next;
    id_marker = root.value("NextUploadIdMarker");
  }
  return out;
}

size_t S3Store::abort_uploads(std::chrono::system_clock::time_point before) {
  size_t aborted = 0;
  for (const UnfinishedUpload& upload : unfinished_uploads()) {
    if (!upload.started || *upload.started >= before) continue;
    Call call = make_call("DELETE", upload.key);
    call.request.url.query = make_query({{"uploadId", upload.id}});
    call.also_answers = {404};
    client_.run(call);
    ++aborted;
  }
  return aborted;
}

http::Response S3Store::probe() {
  Call call = make_bucket_call({{"list-type", "2"}, {"max-keys", "1"}, {"prefix", prefix_}});
  client_.run(call);
  return std::move(call.response);
}

}  // namespace craton::store::s3
