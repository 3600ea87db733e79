#include <sys/epoll.h>

#include <cerrno>
#include <cstring>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/comm/links.h"
#include "craton/comm/shared_memory_connection.h"
#include "craton/comm/tcp_connection.h"
#include "craton/runtime/socket.h"

// Everything here runs on the loop's thread.
namespace craton::comm {
namespace {
constexpr std::chrono::milliseconds kRetry{5};
constexpr std::chrono::milliseconds kBreather{50};
constexpr size_t kMaxDialogs = 4096;
}  // namespace

void Links::accept_all(Listener& listener) {
  while (dialogs_.size() < kMaxDialogs) {
    auto socket = runtime::accept_connection(listener.socket.get());
    if (!socket.valid()) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      break;
    }
    auto dialog = std::make_shared<Dialog>();
    dialog->socket = std::move(socket);
    dialog->local = listener.local;
    begin_dialog(dialog, EPOLLIN | EPOLLRDHUP);
  }
  // Out of descriptors, or too many callers at once: they wait a moment in the backlog.
  loop_->modify(listener.watch_id, 0);
  loop_->after(kBreather, [self = shared_from_this(), &listener] {
    self->loop_->modify(listener.watch_id, EPOLLIN);
  });
}

void Links::begin_dialog(const DialogPtr& dialog, uint32_t events) {
  dialogs_[dialog.get()] = dialog;
  dialog->watch_id = loop_->add(dialog->socket.get(), events,
                                [self = shared_from_this(), dialog](uint32_t happened) {
                                  self->on_dialog(dialog, happened);
                                });
  loop_->after(options_.connect_timeout,
               [self = shared_from_this(), weak = std::weak_ptr<Dialog>(dialog)] {
                 const auto late = weak.lock();
                 if (!late || !self->dialogs_.contains(late.get())) return;
                 self->end_dialog(late);
                 if (late->calling) self->lose(late->peer, "it did not answer a connection");
               });
}

void Links::end_dialog(const DialogPtr& dialog) {
  if (dialog->watch_id != 0) loop_->remove(dialog->watch_id);
  dialog->watch_id = 0;
  dialogs_.erase(dialog.get());
  const auto it = calls_.find(dialog->peer);
  if (it != calls_.end() && it->second == dialog) calls_.erase(it);
}

void Links::call(uint64_t incarnation) {
  PeerAddress address;
  {
    std::lock_guard lock(mutex_);
    const auto it = links_.find(incarnation);
    if (it == links_.end() || it->second.stage != Stage::kCalling) return;
    address = it->second.address;
  }
  if (calls_.contains(incarnation)) return;
  auto dialog = std::make_shared<Dialog>();
  dialog->peer = incarnation;
  dialog->calling = true;
  dialog->local = uses_shared_memory(address);
  int error = 0;
  dialog->socket = dialog->local ? runtime::connect_local(address.local_socket, error)
                                 : runtime::connect_tcp(address.tcp_host, address.tcp_port, error);
  if (!dialog->socket.valid()) {
    if (error == EAGAIN) {
      loop_->after(kRetry, [self = shared_from_this(), incarnation] { self->call(incarnation); });
    } else {
      lose(incarnation, fmt::format("nobody answers at its address ({})", std::strerror(error)));
    }
    return;
  }
  calls_[incarnation] = dialog;
  begin_dialog(dialog, EPOLLOUT | EPOLLRDHUP);
}

bool Links::say(const DialogPtr& dialog, HelloKind kind, uint64_t to) {
  const bool share = dialog->local && (kind == HelloKind::kHello || kind == HelloKind::kWelcome);
  if (share && !dialog->shared) dialog->shared = std::make_shared<SharedMemoryConnection>(segment_);
  const Hello hello{kHelloMagic,
                    kHelloVersion,
                    static_cast<uint32_t>(kind),
                    options_.incarnation,
                    to,
                    share ? dialog->shared->head_offset() : 0,
                    0};
  // A fresh socket takes 48 bytes at once, or is broken.
  const auto sent = runtime::send_some(dialog->socket.get(), std::as_bytes(std::span(&hello, 1)),
                                       share ? shared_descriptor_.get() : -1);
  return sent && *sent == sizeof(hello);
}

bool Links::hear(const DialogPtr& dialog) {
  const auto n =
      runtime::receive_some(dialog->socket.get(), std::span(dialog->input).subspan(dialog->filled),
                            dialog->local ? &dialog->segment : nullptr);
  if (!n) return false;
  dialog->filled += *n;
  return true;
}

void Links::on_dialog(const DialogPtr& dialog, uint32_t events) {
  if (!dialogs_.contains(dialog.get())) return;
  if (dialog->calling && !dialog->said_hello) {
    const int error = runtime::take_socket_error(dialog->socket.get());
    if (error != 0 || !say(dialog, HelloKind::kHello, dialog->peer)) {
      end_dialog(dialog);
      lose(dialog->peer, fmt::format("nobody answers at its address ({})", std::strerror(error)));
      return;
    }
    dialog->said_hello = true;
    loop_->modify(dialog->watch_id, EPOLLIN | EPOLLRDHUP);
    return;
  }
  if (!hear(dialog)) {
    end_dialog(dialog);
    if (dialog->calling) lose(dialog->peer, "it ended while connecting");
    return;
  }
  if (dialog->filled < sizeof(Hello)) return;
  Hello hello;
  std::memcpy(&hello, dialog->input.data(), sizeof(hello));
  if (hello.magic != kHelloMagic || hello.version != kHelloVersion) {
    end_dialog(dialog);
    if (dialog->calling) lose(dialog->peer, "something else answers at its address");
    return;
  }
  if (dialog->calling)
    on_reply(dialog, hello);
  else
    on_hello(dialog, hello);
}

void Links::on_hello(const DialogPtr& dialog, const Hello& hello) {
  HelloKind answer = HelloKind::kWelcome;
  if (hello.to != options_.incarnation || hello.kind != static_cast<uint32_t>(HelloKind::kHello)) {
    answer = HelloKind::kStale;
  } else {
    std::lock_guard lock(mutex_);
    const auto it = links_.find(hello.from);
    if (it != links_.end() && it->second.stage == Stage::kConnected) {
      answer = HelloKind::kAlready;
    } else if (calls_.contains(hello.from) && hello.from > options_.incarnation) {
      answer = HelloKind::kYield;
    }
  }
  if (!say(dialog, answer, hello.from) || answer != HelloKind::kWelcome) {
    end_dialog(dialog);
    return;
  }
  if (const auto own = calls_.find(hello.from); own != calls_.end()) {
    const DialogPtr call = own->second;
    end_dialog(call);
  }
  dialog->peer = hello.from;
  establish(dialog, hello.log_head);
}

void Links::on_reply(const DialogPtr& dialog, const Hello& reply) {
  switch (static_cast<HelloKind>(reply.kind)) {
    case HelloKind::kWelcome:
      if (reply.from == dialog->peer) {
        establish(dialog, reply.log_head);
        return;
      }
      break;
    case HelloKind::kYield:
      end_dialog(dialog);
      return;
    case HelloKind::kAlready:
      end_dialog(dialog);
      loop_->after(kRetry, [self = shared_from_this(), peer = dialog->peer] { self->call(peer); });
      return;
    default:
      break;
  }
  end_dialog(dialog);
  lose(dialog->peer,
       fmt::format("its address belongs to another process now (incarnation {:x})", reply.from));
}

void Links::establish(const DialogPtr& dialog, uint64_t log_head) {
  end_dialog(dialog);
  const uint64_t peer = dialog->peer;
  std::shared_ptr<Connection> connection;
  try {
    if (dialog->local) {
      if (!dialog->segment.valid()) fail(ErrorCode::kCorrupt, "it handed out no memory");
      dialog->shared->attach(std::move(dialog->segment), log_head, peer);
      connection = dialog->shared;
    } else {
      TcpConnection::Limits limits{
          options_.landing_limit_bytes, landing_,
          [segment = segment_](std::span<const std::byte> piece) {
            return std::shared_ptr<void>(segment->memory().find(piece.data(), piece.size()));
          },
          [staging = staging_](size_t bytes) { return staging->take(bytes); }};
      connection = std::make_shared<TcpConnection>(
          std::move(dialog->socket), loop_, std::move(limits),
          [weak = weak_from_this(), peer](const Connection* lost, const std::string& why) {
            if (const auto self = weak.lock()) self->lose_connection(peer, lost, why);
          });
    }
  } catch (const Error& error) {
    lose(peer, error.what());
    return;
  }
  std::shared_ptr<Connection> previous;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    connection->drop_below(floor_);
    Link& link = links_[peer];
    previous = std::exchange(link.connection, connection);
    link.stage = Stage::kConnected;
  }
  if (previous) previous->close("it connected anew");
  if (dialog->local)
    watch_peer_process(dialog, connection);
  else
    std::static_pointer_cast<TcpConnection>(connection)->start();
  changed_.notify_all();
}

void Links::watch_peer_process(const DialogPtr& dialog, std::shared_ptr<Connection> connection) {
  // Nothing more is said on this socket: it only ends, when the peer's process does.
  const auto socket = std::make_shared<runtime::FileDescriptor>(std::move(dialog->socket));
  const auto id = std::make_shared<uint64_t>(0);
  *id =
      loop_->add(socket->get(), EPOLLIN | EPOLLRDHUP,
                 [weak = weak_from_this(), peer = dialog->peer, connection, socket, id](uint32_t) {
                   const auto self = weak.lock();
                   if (!self) return;
                   connection->close("its process ended");
                   self->lose_connection(peer, connection.get(), "its process ended");
                   self->loop_->remove(*id);
                 });
}

void Links::lose(uint64_t incarnation, const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    const auto it = links_.find(incarnation);
    if (it == links_.end() || it->second.stage != Stage::kCalling) return;
    it->second.stage = Stage::kLost;
    it->second.why = why;
  }
  changed_.notify_all();
}

void Links::lose_connection(uint64_t incarnation, const Connection* connection,
                            const std::string& why) {
  std::shared_ptr<Connection> last;
  {
    std::lock_guard lock(mutex_);
    const auto it = links_.find(incarnation);
    if (it == links_.end() || it->second.connection.get() != connection) return;
    last = std::move(it->second.connection);
    it->second.connection = nullptr;
    it->second.stage = Stage::kLost;
    it->second.why = why;
  }
  changed_.notify_all();
}

}  // namespace craton::comm
