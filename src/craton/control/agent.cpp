#include "craton/control/agent.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "craton/base/error.h"
#include "craton/control/worker_list.h"
#include "craton/runtime/socket.h"

namespace craton::control {
namespace {

/// What is ready, as epoll keeps it: a worker's number with one of the two, or the listener.
enum Source : uint64_t { kMessages = 0, kEnd = 1 };
constexpr uint64_t kListener = ~uint64_t{0};

uint64_t key(int number, Source source) { return static_cast<uint64_t>(number) * 2 + source; }

void add_to(int poll, int fd, uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) fail_errno("cannot watch a worker", errno);
}

cluster::ProgressWord read_word(const runtime::ProgressPage& page) {
  cluster::ProgressWord word;
  const uint32_t phase = page.phase.load(std::memory_order_relaxed);
  if (phase <= static_cast<uint32_t>(cluster::StepPhase::kFenced))
    word.phase = static_cast<cluster::StepPhase>(phase);
  word.step = Step(page.step.load(std::memory_order_relaxed));
  word.operation = page.operation.load(std::memory_order_relaxed);
  word.waiting = page.waiting.load(std::memory_order_relaxed) > 0;
  return word;
}

}  // namespace

Agent::Agent(const recipe::Recipe& recipe, AgentOptions options,
             std::function<void(protocol::AgentEvent)> say)
    : recipe_(recipe),
      options_(std::move(options)),
      say_(std::move(say)),
      poll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!poll_.valid()) fail_errno("cannot watch workers", errno);
}

Agent::~Agent() = default;

std::string Agent::log_path(int number) const {
  return (options_.folder / fmt::format("worker-{}.log", number)).string();
}

void Agent::begin(bool take_over) {
  listen_for_workers();
  protocol::AgentHello hello{options_.node, options_.slots, ::getpid(), {}};
  if (take_over) {
    for (const ListedWorker& listed : live_workers(options_.folder)) {
      Worker worker;
      try {
        worker.process = std::make_unique<WorkerProcess>(listed.pid, log_path(listed.number));
      } catch (const Error&) {
        continue;  // gone meanwhile
      }
      worker.id = listed.id;
      watch(listed.number, worker);
      workers_.emplace(listed.number, std::move(worker));
      hello.live.push_back({listed.number, listed.pid, listed.id});
    }
    calls_until_ = Clock::now() + std::chrono::milliseconds(
                                      static_cast<int64_t>(1000 * recipe_.recovery.lease_seconds));
  }
  say_(hello);
}

void Agent::listen_for_workers() {
  const std::string name =
      fmt::format("craton-agent-{}-{}", ::getpid(), Clock::now().time_since_epoch().count());
  listener_ = runtime::listen_local(name);
  add_to(poll_.get(), listener_.get(), kListener);
  runtime::write_file_atomically((options_.folder / "agent.socket").string(), name);
}

void Agent::carry_out(const protocol::AgentCommand& command) {
  if (const auto* wanted = std::get_if<protocol::StartWorker>(&command)) {
    try {
      start(*wanted);
    } catch (const Error& e) {
      say_(protocol::WorkerEnded{wanted->number, e.what(), ""});
    }
  } else if (const auto* told = std::get_if<protocol::TellWorker>(&command)) {
    tell(told->number, told->message);
  } else if (const auto* killed = std::get_if<protocol::KillWorker>(&command)) {
    const auto worker = workers_.find(killed->number);
    if (worker != workers_.end()) worker->second.process->kill();
  }
}

void Agent::start(const protocol::StartWorker& command) {
  WorkerStart start;
  start.number = command.number;
  start.program = options_.worker_program;
  start.folder = options_.folder.string();
  start.log_path = log_path(command.number);
  start.environment = {"CRATON_NODE=" + command.node};
  if (!options_.host.empty()) start.environment.push_back("CRATON_HOST=" + options_.host);
  // Faults are for the workers that a job begins with, and for the first other one: more that
  // failed in the same way would tell nothing new.
  const int64_t joiner = command.number - recipe_.parallel.workers;
  const char* armed = std::getenv(joiner < 0 ? "CRATON_FAULTS" : "CRATON_JOINER_FAULTS");
  if (armed != nullptr && joiner <= 0)
    start.environment.push_back(fmt::format("CRATON_FAULTS={}", armed));
  Worker worker;
  worker.process = std::make_unique<WorkerProcess>(recipe_, start);
  worker.node = command.node;
  worker.progress_since = Clock::now();
  watch(command.number, worker);
  const pid_t pid = worker.process->pid();
  workers_.insert_or_assign(command.number, std::move(worker));
  write_list();
  say_(protocol::WorkerStarted{command.number, pid});
}

void Agent::watch(int number, const Worker& worker) {
  add_to(poll_.get(), worker.process->process_fd(), key(number, kEnd));
  if (worker.process->channel() != nullptr)
    add_to(poll_.get(), worker.process->channel()->fd(), key(number, kMessages));
}

void Agent::tell(int number, const protocol::Message& message) {
  const auto worker = workers_.find(number);
  if (worker == workers_.end() || worker->second.process->channel() == nullptr) return;
  try {
    worker->second.process->channel()->send(protocol::encode(message));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;  // its end is seen through its pidfd
  }
}

void Agent::handle_ready() {
  epoll_event ready[64];
  const int count = ::epoll_wait(poll_.get(), ready, 64, 0);
  std::set<int> ended;
  for (int k = 0; k < count; ++k) {
    if (ready[k].data.u64 == kListener) {
      accept_worker();
      continue;
    }
    const int number = static_cast<int>(ready[k].data.u64 / 2);
    read_messages(number);  // also before its end is handled
    if (ready[k].data.u64 % 2 == kEnd) ended.insert(number);
  }
  for (int number : ended) handle_end(number);
  end_those_who_did_not_call();
  look_at_progress();
}

void Agent::read_messages(int number) {
  const auto found = workers_.find(number);
  if (found == workers_.end() || found->second.process->channel() == nullptr) return;
  Worker& worker = found->second;
  runtime::MessageChannel& channel = *worker.process->channel();
  try {
    while (const auto bytes = channel.receive(std::chrono::milliseconds(0))) {
      protocol::Message message = protocol::decode(*bytes);
      if (const auto* hello = std::get_if<protocol::Hello>(&message)) {
        worker.id = hello->worker.id;
        write_list();
      }
      say_(protocol::WorkerSaid{number, worker.node, worker.process->pid(), std::move(message)});
    }
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;
    ::epoll_ctl(poll_.get(), EPOLL_CTL_DEL, channel.fd(), nullptr);  // its end comes by the pidfd
  }
}

void Agent::accept_worker() {
  auto channel = runtime::MessageChannel::accept(listener_.get());
  if (!channel) return;
  protocol::Hello hello;
  try {
    // A worker says hello with the call; whoever does not is none.
    const auto bytes = channel->receive(std::chrono::milliseconds(1000));
    if (!bytes) return;
    const protocol::Message message = protocol::decode(*bytes);
    if (!std::holds_alternative<protocol::Hello>(message)) return;
    hello = std::get<protocol::Hello>(message);
    if (hello.pid != channel->peer_pid()) return;
    adopt(hello, std::move(channel));
  } catch (const Error&) {
    return;  // gone again, or no worker
  }
  say_(protocol::WorkerSaid{hello.number, hello.worker.node, hello.pid, hello});
  read_messages(hello.number);  // what came with the hello is read already, and wakes nobody
}

void Agent::adopt(const protocol::Hello& hello, std::unique_ptr<runtime::MessageChannel> channel) {
  const auto pid = static_cast<pid_t>(hello.pid);
  auto found = workers_.find(hello.number);
  if (found != workers_.end() && found->second.process->pid() != pid) {
    // Of an operator whose work nobody went on with: its number is another worker's by now.
    WorkerProcess(pid, log_path(hello.number)).kill();
    fail(ErrorCode::kPeerLost, "worker process {} is of an earlier job", pid);
  }
  if (found == workers_.end()) {
    Worker worker;
    worker.process = std::make_unique<WorkerProcess>(pid, log_path(hello.number));
    watch(hello.number, worker);
    found = workers_.emplace(hello.number, std::move(worker)).first;
  }
  Worker& worker = found->second;
  worker.process->connect(std::move(channel), hello.progress_fd);
  add_to(poll_.get(), worker.process->channel()->fd(), key(hello.number, kMessages));
  worker.id = hello.worker.id;
  worker.node = hello.worker.node;
  worker.progress_since = Clock::now();
  write_list();
}

void Agent::handle_end(int number) {
  const auto found = workers_.find(number);
  if (found == workers_.end()) return;
  const std::string how = found->second.process->reap();
  const std::string words = found->second.process->last_lines();
  workers_.erase(found);  // closes what epoll watches
  write_list();
  say_(protocol::WorkerEnded{number, how, words});
}

void Agent::end_those_who_did_not_call() {
  if (calls_until_ == Clock::time_point{} || Clock::now() < calls_until_) return;
  calls_until_ = {};
  for (auto& [number, worker] : workers_)
    if (worker.process->channel() == nullptr) worker.process->kill();
}

void Agent::look_at_progress() {
  constexpr std::chrono::milliseconds kAsleep{1000};
  const auto now = Clock::now();
  if (now - looked_at_ < options_.progress_interval) return;
  // An agent that did not run itself has no reason to think that others stood still.
  const bool slept = now - looked_at_ > options_.progress_interval + kAsleep;
  looked_at_ = now;
  protocol::AgentProgress progress;
  for (auto& [number, worker] : workers_) {
    const runtime::ProgressPage* page = worker.process->progress();
    if (page == nullptr) continue;
    const uint64_t changes = page->changes.load(std::memory_order_relaxed);
    if (changes != std::exchange(worker.changes, changes) || slept) worker.progress_since = now;
    worker.progress = read_word(*page);
    progress.workers.push_back(
        {number, worker.progress,
         std::chrono::duration_cast<cluster::Duration>(now - worker.progress_since)});
  }
  say_(progress);
}

void Agent::write_list() const {
  std::vector<ListedWorker> list;
  for (const auto& [number, worker] : workers_)
    list.push_back({number, worker.process->pid(), worker.id});
  write_worker_list(options_.folder, list);
}

void Agent::let_go() {
  for (auto& [number, worker] : workers_) worker.process->let_go();
  workers_.clear();
  listener_.reset();
}

}  // namespace craton::control
