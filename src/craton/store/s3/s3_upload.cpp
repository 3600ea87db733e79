#include "craton/store/s3/s3_upload.h"

#include <algorithm>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/store/s3/xml.h"

namespace craton::store::s3 {

using http::Call;

namespace {

constexpr size_t kParallel = 4;
constexpr int kCompletions = 4;

}  // namespace

size_t part_size(size_t number) {
  constexpr size_t kFirst = 16 << 20;
  return number < 8000 ? kFirst : kFirst << std::min<size_t>(8, (number - 8000) / 250 + 1);
}

S3Upload::S3Upload(std::shared_ptr<S3Service> service, const http::Limits& limits, std::string key)
    : store_(new S3Store(std::move(service), limits)), key_(std::move(key)) {
  store_->make_call("PUT", key_);  // refuses what is no key now, not at the end
}

S3Upload::~S3Upload() {
  threads_.reset();  // waits for the parts on their way
  if (!finished_ && !id_.empty()) abort();
}

void S3Upload::append(std::span<const std::byte> bytes) {
  if (finished_) fail(ErrorCode::kInvalidArgument, "{} is finished already", key_);
  size_ += bytes.size();
  while (!bytes.empty()) {
    const size_t room = part_size(etags_.size()) - part_.size();
    const auto piece = bytes.first(std::min(room, bytes.size()));
    part_.insert(part_.end(), piece.begin(), piece.end());
    bytes = bytes.subspan(piece.size());
    if (piece.size() == room) send_part();
  }
}

void S3Upload::start() {
  Call call = store_->make_call("POST", key_);
  call.request.url.query = make_query({{"uploads", ""}});
  store_->client_.run(call);
  id_ = parse_xml(call.response.text).value("UploadId");
  if (id_.empty()) fail(ErrorCode::kIo, "{}: the server gave no upload id", call.what);
  threads_ = std::make_unique<runtime::ThreadPool>(kParallel, 1);
}

void S3Upload::send_part() {
  if (id_.empty()) start();
  take_results(false);
  size_t number = 0;
  {
    std::lock_guard lock(mutex_);
    number = etags_.size();
    etags_.emplace_back();
  }
  auto body = std::make_shared<Bytes>(std::move(part_));
  part_ = {};
  sending_.push_back(threads_->submit([this, body, number] {
    Call call = store_->make_call("PUT", key_);
    call.request.url.query =
        make_query({{"partNumber", std::to_string(number + 1)}, {"uploadId", id_}});
    call.request.body = *body;
    store_->client_.run(call);
    std::string etag = call.response.etag();
    if (etag.empty()) fail(ErrorCode::kIo, "{}: the server gave no ETag for a part", call.what);
    std::lock_guard lock(mutex_);
    etags_[number] = std::move(etag);
  }));
}

/// Throws the first error of a part that has ended; waits for those on their way when asked to.
void S3Upload::take_results(bool all) {
  std::vector<std::future<void>> left;
  std::exception_ptr error;
  for (auto& future : sending_) {
    if (!all && future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      left.push_back(std::move(future));
      continue;
    }
    try {
      future.get();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  sending_ = std::move(left);
  if (error) std::rethrow_exception(error);
}

void S3Upload::finish() {
  if (id_.empty()) {
    store_->put_once(key_, part_, false);
    finished_ = true;
    return;
  }
  if (!part_.empty()) send_part();
  take_results(true);
  complete();
  finished_ = true;
}

void S3Upload::complete() {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags_.size(); ++i)
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                        xml_escape(etags_[i]));
  body += "</CompleteMultipartUpload>";
  for (int attempt = 1;; ++attempt) {
    Call call = store_->make_call("POST", key_);
    call.request.url.query = make_query({{"uploadId", id_}});
    call.request.headers.set("Content-Type", "application/xml");
    call.request.body = std::as_bytes(std::span(body));
    call.also_answers = {404};
    store_->client_.run(call);
    const http::ServiceError error = store_->service_->explain(call.response);
    // S3 begins its 200 before it knows how the joining ends: an error may stand in the body.
    if (call.response.status != 404 && error.code.empty()) return;
    if (call.response.status == 404) {
      // After a lost answer the upload is gone because it has become the object.
      const auto info = call.ambiguous || attempt > 1 ? store_->head(key_) : std::nullopt;
      const std::string parts = fmt::format("-{}\"", etags_.size());
      if (info && info->size == size_ && info->etag.ends_with(parts)) return;
    }
    if (call.response.status == 404 || attempt == kCompletions)
      fail(ErrorCode::kIo, "{}: the parts could not be joined: {} {}", call.what, error.code,
           error.message);
  }
}

void S3Upload::abort() noexcept {
  try {
    Call call = store_->make_call("DELETE", key_);
    call.request.url.query = make_query({{"uploadId", id_}});
    call.also_answers = {404};
    store_->client_.run(call);
  } catch (const std::exception& e) {
    try {
      log_warning("an unfinished upload could not be aborted: {}", e.what());
    } catch (...) {
    }
  }
}

}  // namespace craton::store::s3
