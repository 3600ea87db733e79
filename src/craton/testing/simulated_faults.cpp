#include <algorithm>

#include "craton/testing/simulation.h"

namespace craton::testing {

void Simulation::maybe_disturb() {
  if (!operator_ || operator_->log.membership.generation.value() == 0) return;
  if (random(static_cast<uint64_t>(options_.fault_one_in)) != 0) return;
  if (faults_left_ > 0 && (changes_left_ == 0 || random(3))) {
    --faults_left_;
    inject_fault();
  } else if (changes_left_ > 0) {
    --changes_left_;
    request_change();
  }
}

Process* Simulation::random_process(bool members_only) {
  std::vector<Process*> found;
  for (auto& [id, process] : processes_) {
    if (!members_only || rank_of(operator_->log.membership.members, id))
      found.push_back(process.get());
  }
  return found.empty() ? nullptr : found[random(found.size())];
}

void Simulation::inject_fault() {
  Process* process = random_process(random(4) != 0);
  if (!process) return;
  const WorkerId id = process->worker.info().id;
  switch (random(options_.operator_faults ? 7 : 6)) {
    case 0:
    case 1:
      trace("FAULT: kill w{} in phase {}", id.value(), static_cast<int>(process->worker.phase()));
      end_process(id, ExitKind::kCrash);
      break;
    case 2: {
      const std::string node = process->worker.info().node;
      trace("FAULT: node {} is lost", node);
      std::vector<WorkerId> lost;
      for (auto& [other, p] : processes_) {
        if (p->worker.info().node == node) lost.push_back(other);
      }
      for (WorkerId other : lost) end_process(other, ExitKind::kCrash);
      break;
    }
    case 3:
      trace("FAULT: w{} is paused", id.value());
      process->paused_until = now_ + milliseconds(1 + random(random(2) ? 100 : 1500));
      process->suspect_at = now_ + milliseconds(150);
      process->was_paused = true;
      break;
    case 4:
    case 5:
      trace("FAULT: w{} is suspected although it lives", id.value());
      to_operator_[id].push_back({{}, WorkersSuspected{{id}, "a wrong suspicion"}});
      break;
    default:
      crash_operator({});
  }
}

void Simulation::request_change() {
  const WorkerId control;
  switch (random(4)) {
    case 0:
    case 1:
      to_operator_[control].push_back(
          {{},
           ScaleRequested{1 +
                          static_cast<int>(random(static_cast<uint64_t>(options_.max_workers)))}});
      break;
    case 2:
      if (Process* process = random_process(true)) {
        to_operator_[control].push_back(
            {{}, DrainRequested{"", process->worker.info().id, std::nullopt}});
      }
      break;
    default:
      start_process();  // a worker that nobody asked for
  }
}

void Simulation::check_end() {
  if (history_.size() != static_cast<size_t>(options_.steps))
    violate("the job ended before its last step");
  int members = 0;
  for (const Member& member : stored_.membership.members) {
    const auto it = processes_.find(member.worker.id);
    if (it == processes_.end() || member.role != Role::kTraining) continue;
    if (it->second->worker.phase() != WorkerPhase::kDone) continue;
    ++members;
    if (it->second->worker.parameters() != golden_.back().values)
      violate("final parameters differ from those of a quiet run");
  }
  if (members == 0 && faults_left_ == options_.faults) violate("nobody is left at the end");
}

}  // namespace craton::testing
