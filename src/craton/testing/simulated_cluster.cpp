#include "craton/testing/simulated_cluster.h"

#include <algorithm>

#include "craton/testing/simulation.h"

namespace craton::testing {

void Simulation::committed(WorkerId worker, const Decision& decision, SlotTag slot, double norm) {
  if (decision.generation < history_from_) return;
  const size_t t = static_cast<size_t>(slot.step.value());
  trace("w{} completes the commit of step {} attempt {} in g{}", worker.value(), t,
        slot.generation.value(), decision.generation.value());
  if (t <= history_.size()) {
    if (history_[t - 1] != slot.generation) {
      violate(fmt::format("step {} is committed twice, as attempt {} and as attempt {}", t,
                          history_[t - 1].value(), slot.generation.value()));
    }
  } else if (t != history_.size() + 1) {
    return violate(fmt::format("step {} is committed after step {}", t, history_.size()));
  } else {
    note_size(decision, slot.step);
    history_.push_back(slot.generation);
    ++result_.commits;
  }
  if (norm != golden_[t].norm)
    violate(fmt::format("step {} is committed with another norm than in a quiet run", t));
  // The first commit of each generation: whatever its holders lose later must be on the others.
  if (t != history_.size() || decision.generation <= committed_in_) return;
  committed_in_ = decision.generation;
  const Membership& membership = processes_.at(worker)->worker.membership();
  std::vector<std::string> nodes;
  for (const Member& m : membership.members) nodes.push_back(m.worker.node);
  const std::vector<int32_t> domain = failure_domains(nodes);
  size_t copies = membership.members.size();
  for (size_t s = 0; s < decision.placement.holders.size(); ++s) {
    const auto& holders = decision.placement.holders[s];
    std::set<int32_t> domains;
    for (Rank r : holders) {
      domains.insert(domain[r.value()]);
      const auto holder = processes_.find(membership.members[r.value()].worker.id);
      if (holder == processes_.end()) continue;
      const auto& all = holder->second->worker.copies();
      const auto copy = all.find(static_cast<int>(s));
      const bool has = copy != all.end() && copy->second.complete &&
                       (copy->second.version >= slot.step.value() ||
                        (copy->second.slot && copy->second.slot->tag == slot));
      if (!has)
        violate(fmt::format("step {} is committed, but w{} has no slot of shard {}", t,
                            holder->first.value(), s));
    }
    copies = std::min(copies, domains.size());
  }
  committed_members_ = membership;
  committed_copies_ = copies;
}

/// The first commit of a step: what an undisturbed run of steps of these sizes would have now.
void Simulation::note_size(const Decision& decision, Step step) {
  StepSizes sizes;
  note_sizes(decision, sizes);
  const auto size = sizes.at(step);
  golden_.resize(static_cast<size_t>(step.value()));
  const ToyTraining::State& before = golden_.back();
  if (!size || size->position != before.position) {
    return violate(
        fmt::format("step {} does not begin at micro-batch {}, where the one before ended",
                    step.value(), before.position));
  }
  const int64_t last = golden_.size() > 1 ? before.position - golden_[golden_.size() - 2].position
                                          : size->micro_batches;
  if (last != size->micro_batches) ++result_.resized_steps;
  golden_.push_back(job_.training.after(before, step.value(), size->micro_batches));
}

void Simulation::begun(WorkerStep step) {
  if (step.generation < last_decision_.generation) return;  // nobody will commit that
  const int before = begun_.emplace(step.step, step.micro_batches).first->second;
  if (before != step.micro_batches) {
    violate(fmt::format("w{} begins step {} with {} micro-batches, it was begun with {}",
                        step.worker.value(), step.step, step.micro_batches, before));
  }
}

void Simulation::applied(WorkerId worker, int shard, SlotTag slot, uint64_t value) {
  if (processes_.at(worker)->worker.generation() < history_from_) return;
  const size_t t = static_cast<size_t>(slot.step.value());
  if (t > history_.size()) {
    violate(fmt::format("w{} applies step {} of shard {} before it is committed", worker.value(), t,
                        shard));
  } else if (history_[t - 1] != slot.generation) {
    violate(fmt::format("w{} applies attempt {} of step {}, history has attempt {}", worker.value(),
                        slot.generation.value(), t, history_[t - 1].value()));
  } else if (value != golden_[t].values[shard]) {
    violate(fmt::format("shard {} on w{} differs from a quiet run after step {}", shard,
                        worker.value(), t));
  }
}

// The world.

bool Simulation::advance_world() {
  reap();
  candidates_.clear();
  enum { kReady, kLocal, kHear, kDeliver, kOperator, kTick, kRestart, kZombie };
  for (auto& [id, process] : processes_) {
    if (process->paused_until && now_ >= *process->paused_until) process->paused_until.reset();
    if (process->paused_until) {
      if (process->suspect_at && now_ >= *process->suspect_at) {
        process->suspect_at.reset();
        to_operator_[id].push_back({{}, WorkersSuspected{{id}, "silent"}});
      }
      continue;
    }
    process->suspect_at.reset();
    if (process->worker.phase() == WorkerPhase::kStarting) candidates_.push_back({kReady, id});
    if (process->worker.can_step()) candidates_.push_back({kLocal, id});
    if (!process->from_operator.empty()) candidates_.push_back({kHear, id});
  }
  for (size_t i = 0; i < std::min(network_.size(), 2 * processes_.size()); ++i)
    candidates_.push_back({kDeliver, {}});
  if (operator_) {
    for (auto it = to_operator_.begin(); it != to_operator_.end();) {
      if (it->second.empty()) {
        it = to_operator_.erase(it);
        continue;
      }
      candidates_.push_back({kOperator, it->first});
      ++it;
    }
    if (wake_at_ && now_ >= *wake_at_) candidates_.push_back({kTick, {}});
  } else if (now_ >= *restart_at_) {
    candidates_.push_back({kRestart, {}});
  }
  if (zombie_at_ && now_ >= *zombie_at_) candidates_.push_back({kZombie, {}});
  if (candidates_.empty()) return wait_for_something();

  const auto [kind, id] = candidates_[random(candidates_.size())];
  switch (kind) {
    case kReady:
      processes_.at(id)->worker.become_ready();
      break;
    case kLocal:
      processes_.at(id)->worker.step();
      break;
    case kHear:
      hear(*processes_.at(id));
      break;
    case kDeliver:
      deliver_message();
      break;
    case kOperator:
      take_event(id);
      break;
    case kTick:
      wake_at_.reset();
      feed(*operator_, Tick{});
      break;
    case kRestart:
      start_operator();
      break;
    default:
      wake_zombie_operator();
  }
  return true;
}

/// Lets time pass until the next thing is due.
bool Simulation::wait_for_something() {
  std::optional<Instant> next;
  const auto consider = [&](std::optional<Instant> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  for (const auto& [id, process] : processes_) {
    consider(process->paused_until);
    if (process->paused_until) consider(process->suspect_at);
  }
  if (operator_) consider(wake_at_);
  consider(restart_at_);
  consider(zombie_at_);
  if (!next) return false;
  now_ = std::max(now_, *next);
  return true;
}

void Simulation::deliver_message() {
  const size_t i = random(network_.size());
  const auto it = processes_.find(network_[i].first);
  if (it != processes_.end() && it->second->paused_until) return;  // in the socket's buffer
  std::swap(network_[i], network_.back());
  PeerMessage message = std::move(network_.back().second);
  network_.pop_back();
  if (it != processes_.end()) it->second->worker.receive(std::move(message));
}

void Simulation::hear(Process& process) {
  auto message = std::move(process.from_operator.front());
  process.from_operator.pop_front();
  if (const auto* announce = std::get_if<Announce>(&message)) {
    trace("w{} hears of g{}", process.worker.info().id.value(),
          announce->membership.generation.value());
    process.worker.hear(*announce);
  } else if (const auto* decision = std::get_if<SendDecision>(&message)) {
    process.worker.hear(*decision);
  } else {
    const bool readmit = mutated(Mutation::kReadmitWithCopies) && !ended_;
    if (readmit) {
      start_process();
      processes_.at(WorkerId(next_id_ - 1))->worker.take_copies(process.worker);
    }
    end_process(process.worker.info().id, ExitKind::kStopped);
  }
}

void Simulation::start_process() {
  start_process_on(fmt::format("n{}", next_id_ % static_cast<uint64_t>(options_.nodes)));
}

void Simulation::start_process_on(const std::string& node) {
  const WorkerId id(next_id_++);
  const WorkerInfo info{id, node, "", "same"};
  processes_[id] =
      std::make_unique<Process>(Process{SimulatedWorker(job_, *this, info), {}, {}, {}});
}

/// A left-over worker: its process says so, and then introduces itself as a new one.
void Simulation::begin_anew(WorkerId id) {
  trace("w{} stays beside the job", id.value());
  ++result_.rests;
  const std::string node = processes_.at(id)->worker.info().node;
  processes_.erase(id);
  gone_[id] = ExitKind::kStopped;  // all that an operator that did not hear it will know
  auto said = std::move(to_operator_[id]);
  said.push_back({{}, WorkerExited{id, ExitKind::kRests, ""}});
  to_operator_.erase(id);
  to_operator_[WorkerId(next_id_)] = std::move(said);
  start_process_on(node);
}

void Simulation::end_process(WorkerId id, ExitKind kind) {
  trace("w{} ends ({})", id.value(),
        kind == ExitKind::kCrash     ? "crash"
        : kind == ExitKind::kDrained ? "drained"
                                     : "stopped");
  const bool was_ready = processes_.at(id)->worker.phase() != WorkerPhase::kStarting;
  processes_.erase(id);
  gone_[id] = kind;
  if (was_ready) {
    to_operator_[id].push_back({{}, WorkerExited{id, kind, ""}});
  } else {
    to_operator_[id].push_back({{}, StartFailed{1, "died while starting"}});
  }
}

void Simulation::reap() {
  for (const auto& [id, role] : leaving_now_) {
    if (!processes_.contains(id)) continue;
    if (role == Role::kLeftOver) {
      begin_anew(id);
    } else {
      end_process(id, ExitKind::kDrained);
    }
  }
  leaving_now_.clear();
}

void Simulation::take_event(WorkerId source) {
  auto& queue = to_operator_[source];
  Event event = std::move(queue.front());
  queue.pop_front();
  feed(*operator_, std::move(event.what));
  if (mutated(Mutation::kDecideEarly) && operator_) forge_reports();
}

SimulationResult simulate(const SimulationOptions& options) { return Simulation(options).run(); }

}  // namespace craton::testing
