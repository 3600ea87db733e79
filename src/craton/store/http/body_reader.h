#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "craton/store/http/message.h"
#include "craton/store/http/retry.h"

namespace craton::store::http {

/// Where the body of a 2xx answer goes. Called on a reactor thread.
class Sink {
 public:
  virtual ~Sink() = default;
  /// The head of the answer; anything but kNone ends the transfer with this fault.
  virtual Fault begin(const Response& head) = 0;
  virtual Fault write(std::span<const std::byte> bytes) = 0;
};

/// One object, or one byte range of it, read over as many answers as it takes. Pure: it asks for
/// what is missing, checks each answer against that, and keeps what has arrived.
///
/// Checked are: 206 for a range; Content-Range (first byte, last byte, total); Content-Length; the
/// ETag against the first answer's; no byte too many and none too few. A server that answers the
/// whole object to a range request is believed only where the whole object was wanted.
class BodyReader final : public Sink {
 public:
  /// Into `buffer`, which only ever grows.
  static BodyReader whole(std::vector<std::byte>& buffer);
  static BodyReader range(std::vector<std::byte>& buffer, uint64_t offset, uint64_t length);
  static BodyReader suffix(std::vector<std::byte>& buffer, uint64_t length);
  /// A part of an object that is known to be this long. `etag`: only of this version.
  static BodyReader part(std::span<std::byte> target, uint64_t offset, std::string etag);

  /// Range and If-Match for the next attempt.
  void add_headers(Headers& headers) const;
  /// Bytes that the next answer will bring, as far as known.
  uint64_t expected() const;

  Fault begin(const Response& head) override;
  Fault write(std::span<const std::byte> bytes) override;

  /// Everything has arrived. A body of unknown length is complete when its answer ended in order.
  bool complete() const;
  uint64_t received() const { return received_; }
  const std::string& etag() const { return etag_; }
  /// The object's whole size, once an answer has told it.
  std::optional<uint64_t> total() const { return total_; }
  /// The object ends before the range does; nothing was read.
  bool past_end() const { return past_end_; }
  /// What was wrong with the last answer.
  const std::string& complaint() const { return complaint_; }

  /// The object has changed: from the start again, with the new version. False when the version was
  /// the caller's.
  bool restart();
  /// "bytes 8 to 15 of" for messages.
  std::string describe() const;

 private:
  enum class Kind { kWhole, kRange, kSuffix };
  BodyReader(Kind kind, uint64_t offset, uint64_t length)
      : kind_(kind), offset_(offset), length_(length) {}
  Fault begin_whole(const Response& head);
  Fault begin_partial(const Response& head);
  Fault refuse(std::string complaint);
  void make_room(uint64_t size);

  Kind kind_;
  uint64_t offset_ = 0, length_ = 0;  ///< kWhole: length_ is known once `sized_`
  bool sized_ = false;
  std::vector<std::byte>* buffer_ = nullptr;
  std::span<std::byte> target_;
  uint64_t received_ = 0;
  std::string etag_;
  bool etag_is_callers_ = false;
  std::optional<uint64_t> total_;
  bool past_end_ = false;
  std::string complaint_;
};

}  // namespace craton::store::http
