#include "craton/protocol/wire.h"

#include "craton/base/error.h"
#include "craton/protocol/messages.h"

namespace craton::wire {
namespace {

void fill(Slot& to, const cluster::SlotTag& from) {
  to.set_step(from.step.value());
  to.set_generation(from.generation.value());
}
cluster::SlotTag read(const Slot& from) {
  return {Step(from.step()), Generation(from.generation())};
}

void fill(CommitResult& to, const cluster::CommitResult& from) {
  fill(*to.mutable_slot(), from.slot);
  to.set_norm(from.norm);
  to.set_finite(from.finite);
}
cluster::CommitResult read(const CommitResult& from) {
  return {read(from.slot()), from.norm(), from.finite()};
}

void fill(Member& to, const cluster::Member& from) {
  fill(*to.mutable_worker(), from.worker);
  to.set_leaving(from.role == cluster::Role::kLeaving);
  to.set_left_over(from.role == cluster::Role::kLeftOver);
}
cluster::Member read(const Member& from) {
  return {read(from.worker()), from.leaving()     ? cluster::Role::kLeaving
                               : from.left_over() ? cluster::Role::kLeftOver
                                                  : cluster::Role::kTraining};
}

template <typename Repeated>
void fill(Repeated& to, const std::vector<cluster::MicroBatchRange>& from) {
  for (const auto& range : from) {
    auto* r = to.Add();
    r->set_begin(range.begin);
    r->set_end(range.end);
  }
}
template <typename Repeated>
std::vector<cluster::MicroBatchRange> read_ranges(const Repeated& from) {
  std::vector<cluster::MicroBatchRange> out;
  for (const auto& r : from) out.push_back({r.begin(), r.end()});
  return out;
}

template <typename Repeated>
std::vector<Rank> read_ranks(const Repeated& from) {
  std::vector<Rank> out;
  for (int32_t r : from) out.push_back(Rank(r));
  return out;
}

std::vector<std::vector<Rank>> read_holders(const Decision& from) {
  std::vector<std::vector<Rank>> out;
  out.reserve(static_cast<size_t>(from.holder_counts_size()));
  int next = 0;
  for (int32_t count : from.holder_counts()) {
    if (count < 0 || count > from.holder_ranks_size() - next)
      fail(ErrorCode::kCorrupt, "a decision whose holders do not add up");
    auto& list = out.emplace_back();
    list.reserve(static_cast<size_t>(count));
    for (const int end = next + count; next < end; ++next)
      list.push_back(Rank(from.holder_ranks(next)));
  }
  return out;
}

}  // namespace

void fill(Worker& to, const cluster::WorkerInfo& from) {
  to.set_id(from.id.value());
  to.set_node(from.node);
  to.set_address(from.address);
  to.set_fingerprint(from.fingerprint);
}

cluster::WorkerInfo read(const Worker& from) {
  return {cluster::WorkerId(from.id()), from.node(), from.address(), from.fingerprint()};
}

void fill(Membership& to, const cluster::Membership& from) {
  to.set_generation(from.generation.value());
  to.set_planned(from.planned);
  for (const auto& member : from.members) fill(*to.add_members(), member);
}

cluster::Membership read(const Membership& from) {
  cluster::Membership out{Generation(from.generation()), from.planned(), {}};
  out.members.reserve(static_cast<size_t>(from.members_size()));
  for (const auto& member : from.members()) out.members.push_back(read(member));
  return out;
}

void fill(Report& to, const cluster::Report& from) {
  to.set_worker(from.worker.value());
  to.set_generation(from.generation.value());
  to.set_took_part_in(from.took_part_in.value());
  for (const auto& copy : from.copies) {
    auto* c = to.add_copies();
    c->set_shard(copy.shard.value());
    c->set_version(copy.version.value());
    if (copy.slot) fill(*c->mutable_slot(), *copy.slot);
    c->set_complete(copy.complete);
    c->set_digest(copy.digest);
  }
  if (from.last_commit) fill(*to.mutable_last_commit(), *from.last_commit);
  to.set_held_step(from.held.step.value());
  fill(*to.mutable_held(), from.held.ranges);
  to.set_held_micro_batches(from.held.micro_batches);
  to.set_parameters(from.parameters.value());
}

cluster::Report read(const Report& from) {
  cluster::Report out;
  out.worker = cluster::WorkerId(from.worker());
  out.generation = Generation(from.generation());
  out.took_part_in = Generation(from.took_part_in());
  for (const auto& c : from.copies()) {
    cluster::CopyState copy;
    copy.shard = ShardId(c.shard());
    copy.version = Step(c.version());
    if (c.has_slot()) copy.slot = read(c.slot());
    copy.complete = c.complete();
    copy.digest = c.digest();
    out.copies.push_back(copy);
  }
  if (from.has_last_commit()) out.last_commit = read(from.last_commit());
  out.held = {Step(from.held_step()), read_ranges(from.held()), from.held_micro_batches()};
  out.parameters = Step(from.parameters());
  return out;
}

void fill(Decision& to, const cluster::Decision& from) {
  to.set_generation(from.generation.value());
  to.set_kind(static_cast<Decision::Kind>(from.kind));
  to.set_step(from.step.value());
  to.set_slot_generation(from.slot_generation.value());
  if (from.commit) fill(*to.mutable_commit(), *from.commit);
  for (const auto& list : from.placement.holders) {
    to.add_holder_counts(static_cast<int32_t>(list.size()));
    for (Rank r : list) to.add_holder_ranks(r.value());
  }
  for (const auto& extra : from.extras) {
    auto* e = to.add_extras();
    e->set_shard(extra.shard.value());
    e->set_rank(extra.rank.value());
  }
  for (const auto& transfer : from.transfers) {
    auto* t = to.add_transfers();
    t->set_shard(transfer.shard.value());
    for (Rank r : transfer.receivers) t->add_receivers(r.value());
    for (Rank r : transfer.donors) t->add_donors(r.value());
  }
  for (const auto& share : from.shares) {
    auto* s = to.add_shares();
    fill(*s->mutable_keep(), share.keep);
    fill(*s->mutable_compute(), share.compute);
  }
  for (Rank r : from.needs_parameters) to.add_needs_parameters(r.value());
  to.set_lost_steps(from.lost_steps);
  to.set_micro_batches(from.micro_batches);
  to.set_later_micro_batches(from.later_micro_batches);
  to.set_position(from.position);
}

cluster::Decision read(const Decision& from) {
  cluster::Decision out;
  out.generation = Generation(from.generation());
  out.kind = static_cast<cluster::DecisionKind>(from.kind());
  out.step = Step(from.step());
  out.slot_generation = Generation(from.slot_generation());
  if (from.has_commit()) out.commit = read(from.commit());
  out.placement.holders = read_holders(from);
  for (const auto& e : from.extras()) out.extras.push_back({ShardId(e.shard()), Rank(e.rank())});
  for (const auto& t : from.transfers())
    out.transfers.push_back(
        {ShardId(t.shard()), read_ranks(t.receivers()), read_ranks(t.donors())});
  for (const auto& s : from.shares())
    out.shares.push_back({read_ranges(s.keep()), read_ranges(s.compute())});
  out.needs_parameters = read_ranks(from.needs_parameters());
  out.lost_steps = from.lost_steps();
  out.micro_batches = from.micro_batches();
  out.later_micro_batches = from.later_micro_batches();
  out.position = from.position();
  return out;
}

void fill(LogRecord& to, const cluster::LogRecord& from) {
  to.set_sequence(from.sequence);
  fill(*to.mutable_membership(), from.membership);
  to.set_decided(from.decision.has_value());
  if (from.decision) fill(*to.mutable_decision(), *from.decision);
  for (const auto& member : from.decided_members) fill(*to.add_decided_members(), member);
  for (cluster::WorkerId id : from.primaries) to.add_primaries(id.value());
  to.set_phase(static_cast<int32_t>(from.phase));
  to.set_reason(from.reason);
  to.set_checkpoint(from.checkpoint.step.value());
  to.set_checkpoint_position(from.checkpoint.position);
  for (const auto& size : from.sizes.entries) {
    auto* s = to.add_sizes();
    s->set_from(size.from.value());
    s->set_position(size.position);
    s->set_micro_batches(size.micro_batches);
  }
  to.set_requested(from.requested);
  to.set_proven(from.proven);
}

cluster::LogRecord read(const LogRecord& from) {
  cluster::LogRecord out;
  out.sequence = from.sequence();
  out.membership = read(from.membership());
  if (from.decided()) out.decision = read(from.decision());
  for (const auto& member : from.decided_members()) out.decided_members.push_back(read(member));
  for (uint64_t id : from.primaries()) out.primaries.push_back(cluster::WorkerId(id));
  out.phase = static_cast<cluster::JobPhase>(from.phase());
  out.reason = from.reason();
  out.checkpoint = {Step(from.checkpoint()), from.checkpoint_position()};
  for (const auto& s : from.sizes())
    out.sizes.entries.push_back({Step(s.from()), s.position(), s.micro_batches()});
  out.requested = from.requested();
  out.proven = from.proven();
  return out;
}

void fill(ProgressWord& to, const cluster::ProgressWord& from, cluster::Duration unchanged) {
  to.set_phase(static_cast<uint32_t>(from.phase));
  to.set_step(from.step.value());
  to.set_operation(from.operation);
  to.set_waiting(from.waiting);
  to.set_unchanged_milliseconds(unchanged.count());
}

std::pair<cluster::ProgressWord, cluster::Duration> read(const ProgressWord& from) {
  if (from.phase() > static_cast<uint32_t>(cluster::StepPhase::kFenced))
    fail(ErrorCode::kCorrupt, "a worker's progress has an unknown phase");
  return {{static_cast<cluster::StepPhase>(from.phase()), Step(from.step()), from.operation(),
           from.waiting()},
          cluster::Duration(from.unchanged_milliseconds())};
}

}  // namespace craton::wire
