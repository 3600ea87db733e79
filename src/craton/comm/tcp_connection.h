#pragma once

#include <sys/uio.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "craton/comm/connection.h"
#include "craton/comm/landing_pool.h"
#include "craton/runtime/event_loop.h"
#include "craton/runtime/shared_segment.h"

namespace craton::comm {

/// On the wire in the byte order of the host (little endian on all supported machines).
struct FrameHeader {
  uint32_t magic;
  uint16_t kind;   // FrameKind
  uint16_t first;  // of its message: a table of piece sizes follows the header
  uint64_t generation, operation;
  uint64_t message_bytes;
  uint64_t offset;  // of this payload within the message
  uint32_t length;  // of this payload
  uint32_t pieces;
};
static_assert(sizeof(FrameHeader) == 48);
enum class FrameKind : uint16_t {
  kData = 1,
  kFloor = 2,  ///< the sender has left the generations below `generation`
};
inline constexpr uint32_t kFrameMagic = 0x43524e46;
inline constexpr size_t kFrameBytes = 256 << 10;  // header, table and payload together
inline constexpr size_t kMaxPieces = 16 << 10;

/// Finds the endpoint's buffer that holds a piece, so that it need not be copied; null otherwise.
using FindBuffer = std::function<std::shared_ptr<void>(std::span<const std::byte>)>;

/// One TCP connection between two workers. Messages go out one behind the other in frames; the
/// caller's thread writes what the socket takes at once, the endpoint's loop the rest, and the loop
/// reads. A message is in landing memory before anyone asks for it.
class TcpConnection : public Connection, public std::enable_shared_from_this<TcpConnection> {
 public:
  using OnLost = std::function<void(const Connection*, const std::string& why)>;
  struct Limits {
    uint64_t landing_bytes;
    std::shared_ptr<LandingPool> pool;
    FindBuffer find_buffer;
    std::function<Landing(size_t)>
        stage;  // memory for copies of pieces; Error when the limit is reached
  };
  TcpConnection(runtime::FileDescriptor socket, std::shared_ptr<runtime::EventLoop> loop,
                Limits limits, OnLost on_lost);
  /// On the loop's thread.
  void start();

  std::unique_ptr<PendingSend> send(const Call& call, Pieces pieces) override;
  std::unique_ptr<Message> receive(const Call& call) override;
  void drop_below(uint64_t floor) override;
  void wake() override;
  void close(const std::string& why) override;

 private:
  friend class TcpSend;
  enum class Progress { kQueued, kTaken, kDropped };
  struct Outgoing {
    uint64_t generation = 0, operation = 0, total = 0;
    std::vector<std::span<const std::byte>> pieces;
    std::vector<std::shared_ptr<void>> keep;  // buffers and copies that the pieces lie in
    size_t piece = 0, in_piece = 0;           // next byte to frame
    uint64_t framed = 0;
    bool begun = false;
    Progress progress = Progress::kQueued;  // under out_mutex_
  };
  struct Arrival {
    Landing landing;
    std::vector<std::span<const std::byte>> pieces;
    uint64_t bytes = 0;
  };
  using Key = std::pair<uint64_t, uint64_t>;

  // Sending; all with out_mutex_ held.
  bool prepare_frame();
  void prepare_floor_frame();
  void prepare_data_frame(Outgoing& out);
  void write_frames();
  void finish_frame();
  void drop_frame_in_flight();
  void wait_taken(const Call& call, Outgoing& outgoing);

  // Reading; all on the loop's thread.
  void on_events(uint32_t events);
  void read_frames();
  size_t fill();  // bytes read; 0: nothing there
  bool parse();
  bool parse_header();
  void begin_message(std::span<const std::byte> table);
  void continue_message();
  void finish_payload();
  bool pause_if_full();
  void resume_if_paused();  // any thread, in_mutex_ held

  void watch();  // tells the loop what to wait for; any thread
  void fail_link(const std::string& why);

  runtime::FileDescriptor socket_;
  const std::shared_ptr<runtime::EventLoop> loop_;
  const Limits limits_;
  const OnLost on_lost_;
  std::atomic<bool> lost_{false}, broken_{false}, want_write_{false}, paused_{false};
  std::string why_;  // set before lost_

  std::mutex out_mutex_;
  std::condition_variable out_wake_;
  std::deque<std::shared_ptr<Outgoing>> queue_;
  std::shared_ptr<Outgoing> current_;  // whose frame is in flight; null for a floor frame
  std::vector<std::byte> frame_head_;  // header and table of the frame in flight
  std::vector<std::byte> frame_copy_;  // its payload, once its message has been dropped
  std::vector<iovec> frame_;           // what of it is still to be written
  bool frame_started_ = false;
  uint64_t pending_floor_ = 0, sent_floor_ = 0;

  std::vector<std::byte> input_;  // loop's thread
  size_t input_begin_ = 0, input_end_ = 0;
  FrameHeader header_{};
  uint64_t payload_left_ = 0;
  bool discarding_ = true;  // the message of the last header is of no interest
  bool hung_up_ = false;    // the peer sends no more: what is there is read to its end
  uint64_t assembled_ = 0;
  Key partial_key_;
  Arrival partial_arrival_;

  std::mutex in_mutex_;
  std::condition_variable in_wake_;
  std::multimap<Key, Arrival> arrivals_;
  uint64_t held_bytes_ = 0;
  int waiters_ = 0;
  uint64_t floor_ = 0;       // below it, what arrives is dropped
  uint64_t peer_floor_ = 0;  // below it, nothing more will arrive

  std::mutex watch_mutex_;
  uint64_t watch_id_ = 0;
};

}  // namespace craton::comm
