#include "craton/testing/simulated_worker.h"

#include <algorithm>

namespace craton::testing {

using namespace cluster;  // NOLINT: the words of the protocol

const char* mutation_name(Mutation mutation) {
  static constexpr const char* kNames[] = {"None",
                                           "NoAcknowledgement",
                                           "NoFence",
                                           "ApplyBeforeHeal",
                                           "RestoreWithoutSlot",
                                           "DropUnready",
                                           "ReportIncomplete",
                                           "DecideEarly",
                                           "ReadmitWithCopies",
                                           "LeaverDropsEarly",
                                           "ForgetCommit",
                                           "ResultStaysWithItsOwner",
                                           "AcknowledgeAnything",
                                           "KeepOldSlots",
                                           "NoPersist",
                                           "NoCompareAndSwap",
                                           "NoLease",
                                           "JoinWithoutGather",
                                           "CountTwice"};
  static_assert(std::size(kNames) == kMutations);
  return kNames[static_cast<int>(mutation)];
}

void SimulatedWorker::become_ready() {
  phase_ = WorkerPhase::kIdle;
  say_hello();
}

void SimulatedWorker::say_hello() {
  if (phase_ == WorkerPhase::kStarting) return;
  world_.tell_operator(
      info_.id, {{},
                 WorkerReady{info_, mutated(Mutation::kReadmitWithCopies) ? Generation()
                                                                          : newest_generation_}});
  if (phase_ == WorkerPhase::kDone) world_.tell_operator(info_.id, {{}, WorkerFinished{info_.id}});
}

void SimulatedWorker::hear(const Announce& announce) {
  const Membership& membership = announce.membership;
  Generation known = membership_.generation;
  if (pending_) known = std::max(known, pending_->generation);
  if (unfenced_) known = std::max(known, unfenced_->generation);
  if (membership.generation <= known) return;
  if (running() && rank_of(membership.members, info_.id)) {
    if (membership.planned) {
      pending_ = membership;
      return;
    }
    if (mutated(Mutation::kNoFence)) {
      unfenced_ = membership;
      report(membership.generation);
      return;
    }
  }
  fence(membership);
}

void SimulatedWorker::fence(const Membership& membership) {
  if (phase_ == WorkerPhase::kApply) {  // goes on to its end, or stops at a shard's end (R3)
    for (auto& [shard, copy] : copies_) {
      if (world_.random(3) == 0) break;
      apply_copy(shard, copy);
    }
  }
  membership_ = membership;
  in_ = rank_of(membership.members, info_.id);
  if (in_) {
    rank_ = *in_;
    newest_generation_ = membership.generation;
  }
  phase_ = WorkerPhase::kFenced;
  decision_.reset();
  pending_.reset();
  unfenced_.reset();
  reductions_.clear();
  early_slots_.clear();
  entered_.clear();
  given_.clear();
  owed_parameters_.clear();
  switch_after_apply_ = false;
  report(membership.generation);
}

CopyState SimulatedWorker::state_of(int shard, const SimulatedCopy& copy) const {
  CopyState state{ShardId(shard), Step(copy.version), std::nullopt,
                  copy.complete || mutated(Mutation::kReportIncomplete)};
  if (copy.slot) {
    state.slot = copy.slot->tag;
    if (mutated(Mutation::kKeepOldSlots)) state.slot->generation = Generation(1);
  }
  return state;
}

void SimulatedWorker::report(Generation generation) {
  Report report{.worker = info_.id, .generation = generation};
  for (const auto& [shard, copy] : copies_) report.copies.push_back(state_of(shard, copy));
  if (!mutated(Mutation::kForgetCommit)) report.last_commit = last_commit_;
  if (job_.keeps_sums) {
    report.held.step = Step(sums_step_);
    report.held.micro_batches = sums_of_;
    for (const auto& [m, sums] : sums_) report.held.ranges.push_back({m, m + 1});
  }
  report.parameters = Step(parameters_version_);
  world_.tell_operator(info_.id, {{}, ReportReceived{report}});
}

void SimulatedWorker::hear(const SendDecision& message) {
  if (unfenced_ && message.decision.generation == unfenced_->generation) {
    const Membership membership = *unfenced_;
    fence(membership);
  }
  if (message.decision.generation != membership_.generation || decision_ ||
      phase_ != WorkerPhase::kFenced || !in_)
    return;
  begin(message.decision);
}

void SimulatedWorker::begin(const Decision& decision) {
  decision_ = decision;
  first_commit_ = true;
  position_ = decision.position;
  micro_batches_ = decision.micro_batches;
  // Those who know the result may be lost next, so it is everybody's from here on (R5).
  if (decision.commit && !mutated(Mutation::kResultStaysWithItsOwner))
    last_commit_ = decision.commit;
  if (decision.kind == DecisionKind::kRestore) {
    begin_restore();
  } else {
    for (auto it = copies_.begin(); it != copies_.end();) {
      const CopyState state = state_of(it->first, it->second);
      const bool early = mutated(Mutation::kLeaverDropsEarly) &&
                         !holds_after_commit(decision, ShardId(it->first), rank_);
      const bool keep =
          mutated(Mutation::kDropUnready) ? is_ready(decision, state) : keeps_copy(decision, state);
      if (!keep || early) {
        it = copies_.erase(it);
        continue;
      }
      if (!keeps_slot(decision, state) && !mutated(Mutation::kKeepOldSlots))
        it->second.slot.reset();
      ++it;
    }
    fetch_missing();
    if (decision.kind == DecisionKind::kRecompute) {
      begin_recompute();
    } else {
      begin_roll_forward();
    }
  }
  std::vector<PeerMessage> arrived;
  arrived.swap(later_);
  for (PeerMessage& message : arrived) receive(std::move(message));
  advance();
}

void SimulatedWorker::begin_restore() {
  const int64_t step = decision().step.value();
  const ToyTraining::Values& values = world_.checkpoint_of(step);
  copies_.clear();
  for (int s = 0; s < job_.shape.shards; ++s) {
    if (holds_after_commit(decision(), ShardId(s), rank_))
      copies_[s] = {.version = step, .value = values[s]};
  }
  parameters_ = values;
  parameters_version_ = step;
  last_commit_.reset();
  step_ = step;
  if (step >= job_.steps) return become_done();
  ++step_;
  begin_step();
}

void SimulatedWorker::begin_recompute() {
  const int64_t step = decision().step.value();
  const auto& needing = decision().needs_parameters;
  const bool needs = std::find(needing.begin(), needing.end(), rank_) != needing.end();
  owed_parameters_ = needing;
  step_ = step;
  if (step > job_.steps) {
    if (needs) {
      phase_ = WorkerPhase::kParameters;
    } else {
      become_done();
    }
    return;
  }
  const MicroBatchShare& share = decision().shares[rank_.value()];
  world_.begun({info_.id, membership_.generation, step_, position_, micro_batches_});
  if (sums_step_ != step || sums_of_ != micro_batches_) sums_.clear();
  sums_step_ = step;
  sums_of_ = micro_batches_;
  to_compute_.clear();
  std::set<int> keep;
  for (const MicroBatchRange& range : share.keep) {
    for (int m = range.begin; m < range.end; ++m) keep.insert(m);
  }
  if (!mutated(Mutation::kCountTwice))
    std::erase_if(sums_, [&](const auto& entry) { return !keep.contains(entry.first); });
  for (const MicroBatchRange& range : share.compute) {
    for (int m = range.begin; m < range.end; ++m) to_compute_.push_back(m);
  }
  if (mutated(Mutation::kCountTwice) && training()) {  // forgets that others kept what they have
    for (int m : regular_share()) {
      if (std::find(to_compute_.begin(), to_compute_.end(), m) == to_compute_.end())
        to_compute_.push_back(m);
    }
  }
  phase_ = needs ? WorkerPhase::kParameters : WorkerPhase::kCompute;
  if (needs && mutated(Mutation::kJoinWithoutGather)) {
    phase_ = WorkerPhase::kCompute;
    if (parameters_.empty()) parameters_ = job_.training.initial();
  }
}

void SimulatedWorker::begin_roll_forward() {
  step_ = decision().step.value();
  phase_ = WorkerPhase::kHeal;
  sums_.clear();
  if (!mutated(Mutation::kApplyBeforeHeal)) return;
  ToyTraining::State quiet = job_.training.start();
  for (int64_t t = 1; t <= step_; ++t) quiet = job_.training.after(quiet, t, micro_batches_);
  const double norm = decision().commit ? decision().commit->norm : quiet.norm;
  last_commit_ =
      CommitResult{{decision().step, decision().slot_generation}, norm, ToyTraining::finite(norm)};
  for (auto& [shard, copy] : copies_) apply_copy(shard, copy);
}

void SimulatedWorker::become_done() {
  phase_ = WorkerPhase::kDone;
  if (training()) world_.tell_operator(info_.id, {{}, WorkerFinished{info_.id}});
  if (pending_) {
    const Membership membership = *pending_;
    fence(membership);  // after the last step every moment is a boundary
  }
}

std::vector<int> SimulatedWorker::regular_share() const {
  std::vector<int> mine;
  if (!training()) return mine;
  const MicroBatchRange range =
      micro_batch_ranges(micro_batches_, training_members(membership_.members))[rank_.value()];
  for (int m = range.begin; m < range.end; ++m) mine.push_back(m);
  return mine;
}

void SimulatedWorker::begin_step() {
  world_.begun({info_.id, membership_.generation, step_, position_, micro_batches_});
  sums_step_ = step_;
  sums_of_ = micro_batches_;
  sums_.clear();
  to_compute_ = regular_share();
  phase_ = WorkerPhase::kCompute;
  std::erase_if(reductions_, [&](const auto& entry) { return entry.first.first < step_; });
  std::erase_if(entered_, [&](const auto& entry) { return entry.first.first < step_; });
}

void SimulatedWorker::fetch_missing() {
  for (const Transfer& transfer : decision().transfers) {
    const auto& to = transfer.receivers;
    if (std::find(to.begin(), to.end(), rank_) == to.end()) continue;
    send(transfer.donors[world_.random(transfer.donors.size())], FetchCopy{transfer.shard.value()});
  }
}

bool SimulatedWorker::can_step() const {
  return (phase_ == WorkerPhase::kCompute && !to_compute_.empty()) || phase_ == WorkerPhase::kApply;
}

void SimulatedWorker::step() {
  if (phase_ == WorkerPhase::kCompute) {
    const int m = to_compute_.back();
    to_compute_.pop_back();
    std::vector<uint64_t>& sums = sums_[m];
    sums.clear();
    for (int s = 0; s < job_.shape.shards; ++s)
      sums.push_back(job_.training.gradient(parameters_, step_, position_ + m, s));
  } else {
    for (auto& [shard, copy] : copies_) {
      if (!copy.slot || copy.slot->tag.step.value() != step_) continue;
      apply_copy(shard, copy);
      return;
    }
    end_apply();
  }
  advance();
}

void SimulatedWorker::apply_copy(int shard, SimulatedCopy& copy) {
  if (!copy.slot || copy.slot->tag.step.value() != step_ || copy.version != step_ - 1) return;
  const SimulatedSlot slot = *copy.slot;
  copy.value =
      ToyTraining::apply(copy.value, slot.gradient, last_commit_->norm, last_commit_->finite);
  copy.version = step_;
  copy.slot.reset();
  world_.applied(info_.id, shard, slot.tag, copy.value);
}

void SimulatedWorker::end_apply() {
  if (switch_after_apply_ && pending_) {
    const Membership membership = *pending_;
    fence(membership);  // between apply and gather: the step boundary (R11)
    return;
  }
  phase_ = WorkerPhase::kGather;
  std::vector<Rank> everybody;
  for (int r = 0; r < training_members(membership_.members); ++r) everybody.push_back(Rank(r));
  give(step_, everybody);
}

void SimulatedWorker::give(int64_t version, const std::vector<Rank>& to) {
  GiveParameters message{version, {}};
  for (const auto& [shard, copy] : copies_) {
    if (primary(shard) == rank_) message.values.push_back({shard, copy.value});
  }
  if (message.values.empty()) return;
  for (Rank r : to) send(r, message);
}

void SimulatedWorker::advance() {
  for (size_t i = 0; i < early_slots_.size();) {
    if (try_store(early_slots_[i].first, early_slots_[i].second)) {
      early_slots_.erase(early_slots_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  while (decision_ && advance_once()) {
  }
}

bool SimulatedWorker::holds_now(int shard) const {
  if (holds_after_commit(decision(), ShardId(shard), rank_)) return true;
  const auto& extras = decision().extras;
  return first_commit_ && std::find(extras.begin(), extras.end(),
                                    ExtraHolder{ShardId(shard), rank_}) != extras.end();
}

/// Leaving members take part in the first commit of the generation only; they have the last ranks.
size_t SimulatedWorker::participants() const {
  return first_commit_ ? membership_.members.size()
                       : static_cast<size_t>(training_members(membership_.members));
}

bool SimulatedWorker::all_entered(bool recovery) const {
  const auto it = entered_.find({step_, recovery});
  return it != entered_.end() && it->second.size() == participants();
}

bool SimulatedWorker::advance_once() {
  if (!owed_parameters_.empty()) {
    bool have_all = true;
    for (int s = 0; s < job_.shape.shards; ++s) {
      if (primary(s) != rank_) continue;
      const auto it = copies_.find(s);
      have_all &= it != copies_.end() && it->second.complete && it->second.version == step_ - 1;
    }
    if (have_all) {
      give(step_ - 1, owed_parameters_);
      owed_parameters_.clear();
    }
  }
  switch (phase_) {
    case WorkerPhase::kHeal:
      for (int s = 0; s < job_.shape.shards; ++s) {
        if (!holds_now(s)) continue;
        const auto it = copies_.find(s);
        const bool ready = it != copies_.end() &&
                           (is_ready(decision(), state_of(s, it->second)) ||
                            (mutated(Mutation::kRestoreWithoutSlot) && it->second.complete));
        if (!ready) return false;
      }
      enter(true);
      phase_ = WorkerPhase::kBarrier;
      return true;
    case WorkerPhase::kBarrier:
    case WorkerPhase::kCommit:
      if (!all_entered(phase_ == WorkerPhase::kBarrier)) return false;
      complete_commit();
      return phase_ != WorkerPhase::kApply;
    case WorkerPhase::kParameters:
      if (!adopt_parameters(step_ - 1)) return false;
      if (step_ > job_.steps) {
        become_done();
      } else {
        phase_ = WorkerPhase::kCompute;
      }
      return true;
    case WorkerPhase::kCompute:
      if (!to_compute_.empty()) return false;
      send_partials();
      phase_ = WorkerPhase::kReduce;
      return true;
    case WorkerPhase::kReduce:
      if (!reduce_and_store() || !may_enter()) return false;
      enter(false);
      phase_ = WorkerPhase::kCommit;
      return true;
    case WorkerPhase::kGather:
      if (!adopt_parameters(step_)) return false;
      finish_step();
      return true;
    default:
      return false;
  }
}

void SimulatedWorker::send_partials() {
  std::map<Rank, PartialSums> messages;
  uint64_t bits = 0;
  for (const auto& [m, sums] : sums_) bits |= uint64_t{1} << m;
  for (int s = 0; s < job_.shape.shards && bits; ++s) {
    uint64_t sum = 0;
    for (const auto& [m, sums] : sums_) sum += sums[s];
    PartialSums& message = messages[primary(s)];
    message.step = step_;
    message.micro_batches = bits;
    message.sums.push_back({s, sum});
  }
  for (auto& [rank, message] : messages) send(rank, std::move(message));
  if (!job_.keeps_sums) sums_.clear();
}

/// True when all shards that this worker leads are reduced and in its slot.
bool SimulatedWorker::reduce_and_store() {
  const SlotTag tag{Step(step_), membership_.generation};
  bool all = true;
  for (int s = 0; s < job_.shape.shards; ++s) {
    if (primary(s) != rank_) continue;
    Reduction& reduction = reductions_[{step_, s}];
    if (!reduction.stored) {
      const auto it = copies_.find(s);
      if (reduction.micro_batches == all_micro_batches() && it != copies_.end() &&
          may_acknowledge(state_of(s, it->second), tag)) {
        it->second.slot = {tag, reduction.sum};
        reduction.stored = true;
        for (Rank r : acknowledging(decision(), ShardId(s), first_commit_))
          send(r, StoreSlot{s, *it->second.slot});
      }
    }
    all &= reduction.stored;
  }
  return all;
}

bool SimulatedWorker::may_enter() const {
  if (mutated(Mutation::kNoAcknowledgement)) return true;
  for (int s = 0; s < job_.shape.shards; ++s) {
    if (primary(s) != rank_) continue;
    const Reduction& reduction = reductions_.at({step_, s});
    for (Rank r : acknowledging(decision(), ShardId(s), first_commit_)) {
      if (!reduction.acknowledged.contains(r)) return false;
    }
  }
  return true;
}

void SimulatedWorker::enter(bool recovery) {
  EnterCommit message{step_, recovery, pending_ ? pending_->generation : membership_.generation, 0};
  for (const auto& [shard, copy] : copies_) {
    if (primary(shard) != rank_ || (recovery && decision().commit)) continue;
    if (copy.slot) {
      message.norm_part += ToyTraining::norm_part(copy.slot->gradient);
    } else if (!mutated(Mutation::kRestoreWithoutSlot) && !mutated(Mutation::kApplyBeforeHeal)) {
      world_.violate(
          "the norm of a step cannot be computed again: a holder has applied it and freed its "
          "slot");
    }
  }
  for (size_t r = 0; r < membership_.members.size(); ++r)
    send(Rank(static_cast<int32_t>(r)), message);
}

void SimulatedWorker::complete_commit() {
  const bool recovery = phase_ == WorkerPhase::kBarrier;
  const auto& all = entered_[{step_, recovery}];
  double norm = 0;
  Generation seen = all.begin()->second.seen;
  for (const auto& [rank, message] : all) {
    norm += message.norm_part;
    seen = std::min(seen, message.seen);
  }
  if (recovery && decision().commit) norm = decision().commit->norm;
  const SlotTag slot{Step(step_), recovery ? decision().slot_generation : membership_.generation};
  last_commit_ = CommitResult{slot, norm, ToyTraining::finite(norm)};
  world_.committed(info_.id, decision(), slot, norm);
  switch_after_apply_ = seen > membership_.generation;
  sums_.clear();
  if (first_commit_)
    std::erase_if(copies_, [&](const auto& c) {
      return !holds_after_commit(decision(), ShardId(c.first), rank_);
    });
  first_commit_ = false;
  if (rank_ == Rank(0)) world_.tell_operator(info_.id, {{}, StepCommitted{Step(step_)}});
  phase_ = WorkerPhase::kApply;
  if (!training()) world_.left(info_.id, role());
}

bool SimulatedWorker::adopt_parameters(int64_t version) {
  const auto it = given_.find(version);
  if (it == given_.end() || it->second.size() != static_cast<size_t>(job_.shape.shards))
    return false;
  parameters_.clear();
  for (const auto& [shard, value] : it->second) parameters_.push_back(value);
  parameters_version_ = version;
  given_.erase(given_.begin(), std::next(it));
  return true;
}

void SimulatedWorker::finish_step() {
  if (rank_ == Rank(0) && step_ % job_.checkpoint_every == 0) {
    world_.checkpoint(step_, parameters_);
    world_.tell_operator(info_.id,
                         {{}, CheckpointPublished{{Step(step_), position_ + micro_batches_}}});
  }
  if (step_ == job_.steps) return become_done();
  ++step_;
  position_ += micro_batches_;
  micro_batches_ = decision().later_micro_batches;
  begin_step();
}

}  // namespace craton::testing
