#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/cluster/node_choice.h"
#include "craton/control/job_folder.h"
#include "craton/control/job_operator.h"

namespace craton::control {
namespace {

constexpr cluster::Duration kHeartbeat{500};

std::string host_name() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

/// Of this process. For tests of what happens to nodes, CRATON_NODES=N lets workers act as if they
/// ran on N of them.
std::vector<std::string> local_nodes() {
  const char* count = std::getenv("CRATON_NODES");
  const int nodes = count != nullptr ? std::max(1, std::atoi(count)) : 1;
  if (nodes == 1) return {host_name()};
  std::vector<std::string> names;
  for (int k = 0; k < nodes; ++k) names.push_back(fmt::format("node-{}", k));
  return names;
}

}  // namespace

void JobOperator::open_service() {
  try {
    service_ = std::make_unique<OperatorService>(
        recipe_.run_folder, options_.listen,
        [this](const std::string& method, const std::string& request) {
          return handle_request(method, request);
        });
    write_operator_address(recipe_.run_folder,
                           {service_->address(), ::getpid(), service_->agents()});
  } catch (const Error& e) {
    if (!options_.listen.empty()) throw;
    log_warning("`craton status`, `scale` and `drain` will not reach this job: {}", e.what());
  }
  if (options_.listen.empty()) return;
  const std::string port = service_->agents().substr(service_->agents().rfind(':'));
  fmt::print("agents     on each node: craton agent {}{}\n", host_name(), port);
  std::fflush(stdout);
}

void JobOperator::begin_local_agent() {
  const std::vector<std::string> names = local_nodes();
  AgentOptions options;
  options.node = names.front();
  options.worker_program = options_.worker_program;
  options.folder = recipe_.run_folder;
  local_ = std::make_unique<Agent>(
      recipe_, options,
      [this, node = names.front()](const protocol::AgentEvent& e) { handle_agent(node, e); });
  for (const std::string& name : names) {
    nodes_[name].send = [this](const protocol::AgentCommand& c) { local_->carry_out(c); };
  }
  local_->begin(options_.take_over);
}

/// Takes in new agents, and what the attached ones have said.
void JobOperator::listen_to_agents() {
  if (options_.listen.empty()) return;
  const std::string offer = protocol::encode(protocol::JobOffer{
      recipe_.name, recipe_.settings.dump(), std::filesystem::current_path().string(),
      fmt::format("{} {}", service_->address(), ::getpid())});
  for (auto& stream : service_->take_streams()) {
    stream->send(offer);
    strangers_.push_back(std::move(stream));
  }
  for (const auto& stream : std::vector(strangers_)) {
    const auto bytes = stream->receive();
    if (!bytes && !stream->ended()) continue;
    std::erase(strangers_, stream);
    if (!bytes) continue;
    try {
      const protocol::AgentEvent first = protocol::decode_agent_event(*bytes);
      if (const auto* hello = std::get_if<protocol::AgentHello>(&first)) attach(stream, *hello);
    } catch (const Error& e) {
      log_warning("who called where agents attach is none: {}", e.what());
    }
  }
  const bool beat = now() - heartbeat_at_ >= kHeartbeat;
  if (beat) heartbeat_at_ = now();
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_) names.push_back(name);
  for (const std::string& name : names) {
    const auto stream = nodes_[name].stream;
    if (!stream) continue;
    if (beat) stream->send(protocol::encode(protocol::Heartbeat{}));
    bool sound = true;
    while (const auto bytes = sound ? stream->receive() : std::nullopt) {
      std::optional<protocol::AgentEvent> said;
      try {
        said = protocol::decode_agent_event(*bytes);
      } catch (const Error& e) {
        log_warning("the agent of node {} is let go: {}", name, e.what());
        sound = false;
        continue;
      }
      nodes_[name].heard = now();
      handle_agent(name, *said);
    }
    if (!sound || stream->ended()) detach(name);
  }
  give_up_silent_nodes();
}

void JobOperator::attach(std::shared_ptr<RpcStream> stream, const protocol::AgentHello& hello) {
  Node& node = nodes_[hello.node];
  if (node.stream && node.agent_pid != hello.pid) {
    stream->send(protocol::encode(protocol::EndAgent{
        true, fmt::format("node {} has an agent already (process {}); if this is another node, "
                          "give it another name with --node",
                          hello.node, node.agent_pid)}));
    strangers_.push_back(std::move(stream));  // until it has read that and gone
    return;
  }
  node.slots = hello.slots;
  node.agent_pid = hello.pid;
  node.stream = stream;
  node.send = [stream](const protocol::AgentCommand& c) { stream->send(protocol::encode(c)); };
  node.heard = now();
  node.leaving = false;
  record({"node", state_.log.membership.generation, std::nullopt,
          fmt::format("the agent of node {} is attached", hello.node)});
  handle_agent(hello.node, hello);
}

void JobOperator::handle_agent(const std::string& node, const protocol::AgentEvent& event) {
  if (const auto* hello = std::get_if<protocol::AgentHello>(&event)) {
    std::vector<int> lost;
    for (const auto& worker : workers_) {
      const bool lives = std::any_of(hello->live.begin(), hello->live.end(),
                                     [&](const auto& w) { return w.number == worker->number; });
      if (worker->agent == node && !lives) lost.push_back(worker->number);
    }
    for (int number : lost) handle_end(number, "was lost with its agent", "");
    for (const protocol::LiveWorker& live : hello->live) {
      if (find(live.number) != nullptr) continue;
      Worker& worker = add_worker(live.number, node);
      worker.pid = live.pid;
      worker.before = live.id;
    }
  } else if (const auto* started = std::get_if<protocol::WorkerStarted>(&event)) {
    if (Worker* worker = find(started->number)) worker->pid = started->pid;
  } else if (const auto* said = std::get_if<protocol::WorkerSaid>(&event)) {
    Worker* worker = find(said->number);
    if (worker == nullptr) worker = &add_worker(said->number, node);
    worker->node = said->node;
    worker->pid = said->pid;
    handle(*worker, said->message);
  } else if (const auto* ended = std::get_if<protocol::WorkerEnded>(&event)) {
    handle_end(ended->number, ended->how, ended->last_words);
  } else if (const auto* progress = std::get_if<protocol::AgentProgress>(&event)) {
    for (const auto& w : progress->workers) {
      Worker* worker = find(w.number);
      if (worker == nullptr) continue;
      worker->progress = w.word;
      worker->progress_since = now() - w.unchanged;
    }
  } else if (const auto* leaving = std::get_if<protocol::NodeLeaving>(&event)) {
    nodes_[node].leaving = true;
    const auto deadline = now() + cluster::Duration(leaving->grace_milliseconds);
    if (!cluster::is_terminal(state_.log.phase))
      answer_drain(cluster::DrainRequested{node, std::nullopt, deadline});
  }
}

/// Its agent is gone; its workers may live, and another agent may come for them.
void JobOperator::detach(const std::string& name) {
  Node& node = nodes_[name];
  node.stream.reset();
  node.send = nullptr;
  record({"node", state_.log.membership.generation, std::nullopt,
          fmt::format("the agent of node {} is gone", name)});
}

void JobOperator::give_up_silent_nodes() {
  std::vector<std::string> over;
  for (const auto& [name, node] : nodes_) {
    const bool runs_something = std::any_of(workers_.begin(), workers_.end(),
                                            [&](const auto& w) { return w->agent == name; });
    if (node.leaving && !runs_something && node.send)
      node.send(protocol::EndAgent{false, "all its workers have left"});
    if (now() - node.heard > state_.options.lease) over.push_back(name);
  }
  for (const std::string& name : over) {
    if (nodes_[name].stream) detach(name);
    std::vector<int> lost;
    for (const auto& worker : workers_) {
      if (worker->agent == name) lost.push_back(worker->number);
    }
    for (int number : lost) handle_end(number, fmt::format("was lost with node {}", name), "");
    nodes_.erase(name);
  }
}

/// The job is over: agents end their workers and themselves.
void JobOperator::end_agents() {
  constexpr cluster::Duration kPatience{5000};
  local_.reset();
  if (!service_) return;
  const bool failed = end_->phase == cluster::JobPhase::kFailed;
  for (auto& [name, node] : nodes_) {
    if (node.stream) node.send(protocol::EndAgent{failed, end_->reason});
  }
  const auto until = now() + kPatience;
  const auto all_gone = [&] {
    return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
      const auto& stream = entry.second.stream;
      while (stream && stream->receive()) {
      }
      return !stream || stream->ended();
    });
  };
  while (!all_gone() && now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  nodes_.clear();
  strangers_.clear();
  service_.reset();
}

JobOperator::Worker& JobOperator::add_worker(int number, const std::string& agent) {
  Worker& worker = *workers_.emplace_back(std::make_unique<Worker>());
  worker.number = number;
  worker.node = worker.agent = agent;
  worker.progress_since = now();  // it had no reason yet to move
  started_ = std::max(started_, number + 1);
  return worker;
}

void JobOperator::start_worker(const std::vector<std::string>& avoid_nodes) {
  waiting_starts_.emplace_back(now() + state_.options.start_timeout, avoid_nodes);
  start_waiting_workers();
}

void JobOperator::start_waiting_workers() {
  const auto time = now();
  std::erase_if(waiting_starts_, [&](const auto& start) { return start.first <= time; });
  while (!waiting_starts_.empty()) {
    std::vector<cluster::NodeLoad> loads;
    for (const auto& [name, node] : nodes_) {
      if (!node.send || node.leaving) continue;
      const auto workers = std::count_if(workers_.begin(), workers_.end(),
                                         [&](const auto& worker) { return worker->node == name; });
      loads.push_back({name, node.slots, static_cast<int>(workers)});
    }
    const auto chosen = cluster::choose_node(loads, waiting_starts_.front().second);
    if (!chosen) return;
    waiting_starts_.erase(waiting_starts_.begin());
    Worker& worker = add_worker(started_, local_ ? nodes_.begin()->first : *chosen);
    worker.node = *chosen;
    command(worker, protocol::StartWorker{worker.number, worker.node});
  }
}

/// What the log calls members and no agent has named.
void JobOperator::forget_those_who_are_nowhere() {
  if (!expected_until_) return;
  const bool more_may_come = !options_.listen.empty() && now() < *expected_until_;
  if (more_may_come) return;
  expected_until_.reset();
  std::vector<cluster::WorkerId> gone;
  for (const auto& [id, record] : state_.workers) {
    const bool known = std::any_of(workers_.begin(), workers_.end(),
                                   [&](const auto& w) { return !w->hello && w->before == id; });
    if (!known && find(id) == nullptr) gone.push_back(id);
  }
  for (cluster::WorkerId id : gone)
    event(cluster::WorkerExited{id, cluster::ExitKind::kStopped, "lost with its operator"});
}

void JobOperator::watch_progress() {
  constexpr cluster::Duration kInterval{50};
  constexpr cluster::Duration kAsleep{1000};
  const cluster::Instant time = now();
  if (time - looked_at_ < kInterval) return;
  // An operator that did not run itself has no reason to think that others were silent.
  const bool slept = time - looked_at_ > kAsleep;
  looked_at_ = time;
  if (slept) {
    for (auto& [name, node] : nodes_) node.heard = time;
  }
  std::vector<cluster::WorkerObservation> members;
  for (const auto& worker : workers_) {
    if (!worker->hello) continue;
    const auto rank = cluster::rank_of(state_.log.membership.members, worker->hello->worker.id);
    if (!rank) continue;
    if (slept) worker->progress_since = time;
    const auto node = nodes_.find(worker->agent);
    const bool here = local_ != nullptr || node == nodes_.end();
    members.push_back({worker->hello->worker.id, worker->node, here ? time : node->second.heard,
                       worker->progress, worker->progress_since});
  }
  const bool trains = state_.log.phase == cluster::JobPhase::kTraining ||
                      state_.log.phase == cluster::JobPhase::kBoundary;
  // Those who have left are in the membership until the next one.
  const auto& all = state_.log.membership.members;
  const auto present = std::count_if(all.begin(), all.end(), [&](const cluster::Member& member) {
    return state_.workers.contains(member.worker.id);
  });
  if (!trains || static_cast<std::ptrdiff_t>(members.size()) < present) return;
  cluster::FailureDetectorOptions options;
  // A model whose steps are long by nature does not hang.
  const double hang = std::max(recipe_.recovery.hang_seconds, 5 * seconds_per_step_);
  options.hang_timeout = cluster::Duration(static_cast<int64_t>(hang * 1000));
  const cluster::Suspicion suspicion = cluster::find_suspects(options, members, time);
  if (suspicion.stalled) {
    event(cluster::Stalled{suspicion.reason});
  } else if (!suspicion.workers.empty()) {
    event(cluster::WorkersSuspected{suspicion.workers, suspicion.reason});
  }
}

}  // namespace craton::control
