#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/control/job_folder.h"
#include "craton/control/job_operator.h"

namespace craton::control {

std::string JobOperator::handle_request(const std::string& method, const std::string& request) {
  if (method == protocol::kStatusMethod) return protocol::encode_status(status());
  return protocol::encode_answer(answer(protocol::decode_request(method, request, now())));
}

protocol::Answer JobOperator::answer(const protocol::EventBody& request) {
  if (cluster::is_terminal(state_.log.phase))
    return {false, "the job has ended: " + state_.log.reason};
  if (const auto* scale = std::get_if<cluster::ScaleRequested>(&request))
    return answer_scale(*scale);
  if (const auto* drain = std::get_if<cluster::DrainRequested>(&request))
    return answer_drain(*drain);
  if (std::holds_alternative<cluster::StopRequested>(request)) {
    stopping_ = true;
    return {true, fmt::format("{} finishes its step, saves and ends", recipe_.name)};
  }
  event(request);
  return {true, "done"};
}

protocol::Answer JobOperator::answer_scale(const cluster::ScaleRequested& request) {
  if (const std::string why = cluster::why_not_size(state_.options, request.workers); !why.empty())
    return {false, why};
  const int before = state_.log.requested;
  event(request);
  if (before == request.workers)
    return {true, fmt::format("{} has {} workers already", recipe_.name, before)};
  return {true, fmt::format("{} goes from {} to {} workers at a step boundary", recipe_.name,
                            before, request.workers)};
}

protocol::Answer JobOperator::answer_drain(const cluster::DrainRequested& request) {
  std::set<std::string> nodes, left;
  int matching = 0;
  for (const auto& [id, record] : state_.workers) {
    nodes.insert(record.info.node);
    const bool matches =
        request.node.empty() ? id == request.worker : record.info.node == request.node;
    if (matches) ++matching;
    if (!state_.drained_nodes.contains(record.info.node) && record.info.node != request.node)
      left.insert(record.info.node);
  }
  if (matching == 0) {
    if (request.node.empty()) return {false, "this worker is not there any more"};
    return {false, fmt::format("no worker runs on node {}; the job's nodes are: {}", request.node,
                               fmt::join(nodes, ", "))};
  }
  if (!request.node.empty() && left.empty()) {
    stopping_ = true;
    return {true, fmt::format("{} is the last node of {}: the job finishes its step, saves and "
                              "ends; the same command goes on from there",
                              request.node, recipe_.name)};
  }
  event(request);
  return {true, fmt::format("{} of {} leave{} at a step boundary",
                            matching == 1 ? "1 worker" : fmt::format("{} workers", matching),
                            recipe_.name, matching == 1 ? "s" : "")};
}

protocol::JobStatus JobOperator::status() const {
  protocol::JobStatus out;
  out.name = recipe_.name;
  out.strategy = recipe_.parallel.strategy;
  out.phase = state_.log.phase;
  out.generation = state_.log.membership.generation.value();
  out.step = journal_.last_step();
  out.steps = recipe_.train.steps;
  out.checkpoint = state_.log.checkpoint.step.value();
  out.requested = state_.log.requested;
  out.min_workers = state_.options.elastic.min_workers;
  out.max_workers = cluster::most_workers(state_.options);
  out.spares = state_.options.spares;
  out.loss = loss_;
  out.batch = batch_;
  out.learning_rate = learning_rate_;
  out.seconds_per_step = seconds_per_step_;
  out.elapsed_seconds = journal_.elapsed();
  out.pid = ::getpid();
  const auto& members = state_.log.membership.members;
  for (const auto& worker : workers_) {
    protocol::JobStatus::Worker w;
    w.number = worker->number;
    w.node = worker->node;
    w.pid = worker->pid;
    w.state = "starts";
    w.progress = worker->progress;
    w.unchanged = now() - worker->progress_since;
    if (worker->hello) {
      w.id = worker->hello->worker.id;
      const auto record = state_.workers.find(w.id);
      const auto rank = cluster::rank_of(members, w.id);
      using State = cluster::WorkerRecord::State;
      if (record == state_.workers.end()) {
        w.state = "ends";
      } else if (record->second.state == State::kReady) {
        w.state = "spare";
      } else if (record->second.state == State::kFenced) {
        w.state = "fenced";
      } else if (rank) {
        w.rank = rank->value();
        const cluster::Role role = members[rank->value()].role;
        w.state = role == cluster::Role::kLeaving || record->second.draining ? "leaves"
                  : role == cluster::Role::kLeftOver                         ? "spare"
                                                                             : "trains";
      }
    }
    out.workers.push_back(std::move(w));
  }
  std::sort(out.workers.begin(), out.workers.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.rank < 0, a.rank, a.number) < std::tuple(b.rank < 0, b.rank, b.number);
  });
  return out;
}

}  // namespace craton::control
