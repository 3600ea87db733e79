#include "craton/store/http/body_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace craton::store::http {

namespace {

/// Memory that a server's word alone is good for; what is longer grows with the bytes that arrive.
constexpr uint64_t kTrustedLength = 64ull << 20;

bool is_strong(std::string_view etag) { return !etag.empty() && !etag.starts_with("W/"); }

}  // namespace

BodyReader BodyReader::whole(std::vector<std::byte>& buffer) {
  BodyReader reader(Kind::kWhole, 0, 0);
  reader.buffer_ = &buffer;
  return reader;
}

BodyReader BodyReader::range(std::vector<std::byte>& buffer, uint64_t offset, uint64_t length) {
  BodyReader reader(Kind::kRange, offset, length);
  reader.buffer_ = &buffer;
  return reader;
}

BodyReader BodyReader::suffix(std::vector<std::byte>& buffer, uint64_t length) {
  BodyReader reader(Kind::kSuffix, 0, length);
  reader.buffer_ = &buffer;
  return reader;
}

BodyReader BodyReader::part(std::span<std::byte> target, uint64_t offset, std::string etag) {
  BodyReader reader(Kind::kRange, offset, target.size());
  reader.target_ = target;
  reader.etag_is_callers_ = !etag.empty();
  reader.etag_ = std::move(etag);
  return reader;
}

void BodyReader::add_headers(Headers& headers) const {
  if (kind_ == Kind::kSuffix) {
    headers.set("Range", fmt::format("bytes=-{}", length_));
  } else if (kind_ == Kind::kRange) {
    headers.set("Range", fmt::format("bytes={}-{}", offset_ + received_, offset_ + length_ - 1));
  } else if (received_ > 0) {
    headers.set("Range", fmt::format("bytes={}-", received_));
  }
  if (is_strong(etag_) && (received_ > 0 || etag_is_callers_)) headers.set("If-Match", etag_);
}

uint64_t BodyReader::expected() const {
  if (kind_ == Kind::kWhole && !sized_) return 1 << 20;
  return length_ - received_;
}

Fault BodyReader::refuse(std::string complaint) {
  complaint_ = std::move(complaint);
  return Fault::kWrongAnswer;
}

void BodyReader::make_room(uint64_t size) {
  if (buffer_ != nullptr && buffer_->size() < size)
    buffer_->resize(static_cast<size_t>(std::min(size, std::max(kTrustedLength, received_))));
}

Fault BodyReader::begin(const Response& head) {
  complaint_.clear();
  past_end_ = false;
  const std::string etag = head.etag();
  if (!etag.empty() && !etag_.empty() && etag != etag_ && (received_ > 0 || etag_is_callers_)) {
    complaint_ = fmt::format("ETag {} instead of {}", etag, etag_);
    return Fault::kChanged;
  }
  if (!etag_is_callers_) etag_ = etag;
  if (head.status == 206) return begin_partial(head);
  if (head.status == 200) return begin_whole(head);
  return refuse(fmt::format("status {}", head.status));
}

Fault BodyReader::begin_whole(const Response& head) {
  const auto length = head.content_length();
  if (kind_ == Kind::kWhole) {
    received_ = 0;  // a server without ranges sends all of it again
    sized_ = length.has_value();
    length_ = length.value_or(0);
  } else if (kind_ == Kind::kSuffix) {
    if (!length || *length > length_)
      return refuse("the whole object in answer to a range request");
    kind_ = Kind::kRange;  // all of it: a resumed read asks by offset
    length_ = *length;
    received_ = 0;
  } else if (received_ > 0 || offset_ > 0 || length != length_) {
    return refuse("the whole object in answer to a range request");
  }
  total_ = length;
  if (length) make_room(length_);
  return Fault::kNone;
}

Fault BodyReader::begin_partial(const Response& head) {
  const std::string_view text = head.headers.get("content-range");
  const auto range = parse_content_range(text);
  if (!range || !range->first)
    return refuse(
        fmt::format("Content-Range \"{}\" in an answer with status 206", text.substr(0, 100)));
  const uint64_t first = *range->first, last = *range->last;
  if (kind_ == Kind::kSuffix) {
    if (!range->total) return refuse("a range of an object of unknown size");
    const uint64_t wanted = std::min(length_, *range->total);
    if (last + 1 != *range->total || last - first + 1 != wanted)
      return refuse(
          fmt::format("Content-Range \"{}\" for the last {} bytes", text.substr(0, 100), length_));
    kind_ = Kind::kRange;
    offset_ = first;
    length_ = wanted;
  } else if (kind_ == Kind::kWhole) {
    if (received_ == 0 || first != received_ || !range->total || last + 1 != *range->total)
      return refuse(fmt::format("Content-Range \"{}\" for the object from byte {} on",
                                text.substr(0, 100), received_));
    sized_ = true;
    length_ = *range->total;
  } else {
    const uint64_t end = offset_ + length_ - 1;
    if (first != offset_ + received_ || last > end)
      return refuse(fmt::format("Content-Range \"{}\" for bytes {} to {}", text.substr(0, 100),
                                offset_ + received_, end));
    if (last < end) {
      total_ = range->total;
      past_end_ = range->total && last + 1 == *range->total;
      return refuse(fmt::format("Content-Range \"{}\" for bytes {} to {}", text.substr(0, 100),
                                offset_ + received_, end));
    }
  }
  if (const auto length = head.content_length(); length && *length != last - first + 1)
    return refuse(
        fmt::format("Content-Length {} with Content-Range \"{}\"", *length, text.substr(0, 100)));
  if (range->total) total_ = range->total;
  make_room(length_);
  return Fault::kNone;
}

Fault BodyReader::write(std::span<const std::byte> bytes) {
  const bool sized = kind_ != Kind::kWhole || sized_;
  if (bytes.empty()) return Fault::kNone;
  if (sized && bytes.size() > length_ - received_)
    return refuse(fmt::format("more than the {} bytes that were announced", length_));
  const uint64_t end = received_ + bytes.size();
  std::byte* to = nullptr;
  if (buffer_ != nullptr) {
    if (buffer_->size() < end) {
      const uint64_t grown = std::max<uint64_t>(end, buffer_->size() * 2);
      buffer_->resize(static_cast<size_t>(sized ? std::min(grown, length_) : grown));
    }
    to = buffer_->data();
  } else {
    to = target_.data();
  }
  std::memcpy(to + received_, bytes.data(), bytes.size());
  received_ = end;
  return Fault::kNone;
}

bool BodyReader::complete() const {
  return kind_ == Kind::kWhole && !sized_ ? true : received_ == length_;
}

bool BodyReader::restart() {
  received_ = 0;
  return !etag_is_callers_;
}

std::string BodyReader::describe() const {
  switch (kind_) {
    case Kind::kWhole:
      return "";
    case Kind::kSuffix:
      return fmt::format("last {}", length_);
    case Kind::kRange:
      return fmt::format("{}-{}", offset_, offset_ + length_ - 1);
  }
  return "";
}

}  // namespace craton::store::http
