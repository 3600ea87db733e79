#include "craton/control/remote_agent.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "craton/base/error.h"
#include "craton/control/agent.h"
#include "craton/control/job_folder.h"
#include "craton/control/rpc.h"
#include "craton/recipe/recipe.h"
#include "craton/runtime/file.h"

namespace craton::control {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kConnect{1000};
constexpr milliseconds kOffer{10000};

milliseconds of_seconds(double seconds) {
  return milliseconds(static_cast<int64_t>(1000 * seconds));
}

/// One connection to an operator, from its offer to its end.
class Session {
 public:
  Session(const RemoteAgentOptions& options, std::unique_ptr<RpcStream> stream, int wake)
      : options_(options), stream_(std::move(stream)), wake_(wake) {}

  /// False when the connection ends before there is an offer.
  bool take_offer() {
    const auto until = Clock::now() + kOffer;
    while (Clock::now() < until) {
      if (const auto bytes = stream_->receive()) {
        const auto command = protocol::decode_agent_command(*bytes);
        if (const auto* offer = std::get_if<protocol::JobOffer>(&command)) {
          begin(*offer);
          return true;
        }
      }
      if (stream_->ended()) return false;
      wait({});
    }
    return false;
  }

  const recipe::Recipe& recipe() const { return *recipe_; }

  /// Until the operator ends this agent; nothing when it is gone.
  std::optional<protocol::EndAgent> serve() {
    auto heard = Clock::now();
    const milliseconds lease = of_seconds(recipe_->recovery.lease_seconds);
    std::optional<Clock::time_point> leave_by;
    while (true) {
      wait({agent_->fd()});
      while (const auto bytes = stream_->receive()) {
        heard = Clock::now();
        const auto command = protocol::decode_agent_command(*bytes);
        if (const auto* end = std::get_if<protocol::EndAgent>(&command)) return *end;
        agent_->carry_out(command);
      }
      agent_->handle_ready();
      if (!leave_by && options_.told_to_go()) {
        leave_by = Clock::now() + options_.grace;
        stream_->send(protocol::encode(protocol::NodeLeaving{options_.grace.count()}));
        options_.say("asked to go: workers leave at a step boundary");
      }
      if (leave_by && Clock::now() >= *leave_by)
        return protocol::EndAgent{true, "the time to leave is over"};
      if (stream_->ended() || Clock::now() - heard > lease) {
        agent_->let_go();
        return std::nullopt;
      }
    }
  }

 private:
  void begin(const protocol::JobOffer& offer) {
    if (::chdir(offer.folder.c_str()) != 0)
      fail(
          ErrorCode::kNotFound,
          "the job works in {}, which this node does not have; run it from a folder that all nodes "
          "share",
          offer.folder);
    recipe_ = recipe::Recipe::read(recipe::Settings::parse(offer.recipe, "the job's recipe"));
    const auto there = read_operator_address(recipe_->run_folder);
    if (!there || fmt::format("{} {}", there->calls, there->pid) != offer.operator_id)
      fail(
          ErrorCode::kNotFound,
          "{} on this node is not the folder of the running job {}; give the job a run.folder that "
          "all nodes share",
          fs::absolute(recipe_->run_folder).string(), offer.name);
    AgentOptions options;
    options.node = options_.node;
    options.slots = options_.slots > 0 ? options_.slots : slots_of_this_machine();
    options.worker_program = find_worker_program();
    options.folder = fs::path(recipe_->run_folder) / "nodes" / options_.node;
    options.host =
        options_.host.empty() ? address_towards(options_.operator_address) : options_.host;
    options.progress_interval = milliseconds(250);
    fs::create_directories(options.folder);
    runtime::write_file_atomically((options.folder / "recipe.yaml").string(), offer.recipe);
    agent_.emplace(*recipe_, options,
                   [this](const protocol::AgentEvent& e) { stream_->send(protocol::encode(e)); });
    agent_->begin(true);
    options_.say(fmt::format("attached to {} as node {}", offer.name, options_.node));
  }

  /// As many workers as the processors of this process can run side by side.
  int slots_of_this_machine() const {
    const auto processors = static_cast<int64_t>(std::thread::hardware_concurrency());
    return static_cast<int>(std::max<int64_t>(1, processors / recipe_->threads));
  }

  void wait(std::vector<int> fds) {
    std::vector<pollfd> entries = {{wake_, POLLIN, 0}};
    for (int fd : fds) entries.push_back({fd, POLLIN, 0});
    ::poll(entries.data(), entries.size(), 50);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_, &count, sizeof(count));
  }

  const RemoteAgentOptions& options_;
  const std::unique_ptr<RpcStream> stream_;
  const int wake_;
  std::optional<recipe::Recipe> recipe_;
  std::optional<Agent> agent_;
};

}  // namespace

std::string address_towards(const std::string& address) {
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    fail(ErrorCode::kNotFound, "{}: {}", address, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  for (const addrinfo* to = found; to != nullptr; to = to->ai_next) {
    // Nothing is sent: connecting picks the route, and with it the address.
    const runtime::FileDescriptor socket(::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    auto* own_address = reinterpret_cast<sockaddr*>(&own);
    char text[NI_MAXHOST];
    if (::connect(socket.get(), to->ai_addr, to->ai_addrlen) == 0 &&
        ::getsockname(socket.get(), own_address, &size) == 0 &&
        ::getnameinfo(own_address, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0)
      return text;
  }
  fail(ErrorCode::kNotFound, "there is no route to {}", address);
}

protocol::EndAgent run_remote_agent(const RemoteAgentOptions& options) {
  const auto wake =
      std::make_shared<runtime::FileDescriptor>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake->valid()) fail_errno("cannot make an event descriptor", errno);
  auto until = Clock::now() + options.patience;
  bool attached = false;
  while (Clock::now() < until) {
    if (options.told_to_go()) return {false, "asked to go"};
    const std::string method(protocol::kAttachMethod);
    auto stream = rpc_module().open(options.operator_address, method, kConnect, [wake] {
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t n = ::write(wake->get(), &one, sizeof(one));
    });
    if (!stream) continue;
    Session session(options, std::move(stream), wake->get());
    if (!session.take_offer()) {
      std::this_thread::sleep_for(milliseconds(100));
      continue;
    }
    attached = true;
    if (const auto end = session.serve()) return *end;
    options.say("the operator is gone: workers go on for a while; looking for it");
    until = Clock::now() + of_seconds(session.recipe().recovery.orphan_seconds);
  }
  fail(ErrorCode::kPeerLost, "no operator {} {}{}", attached ? "came back at" : "answers at",
       options.operator_address,
       attached ? "" : "; it is started with `craton train RECIPE --listen PORT`");
}

}  // namespace craton::control
