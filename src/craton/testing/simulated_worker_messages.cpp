// What a simulated worker hears from others, and how it answers.
#include "craton/testing/simulated_worker.h"

namespace craton::testing {

using namespace cluster;  // NOLINT: the words of the protocol

void SimulatedWorker::receive(PeerMessage message) {
  if (message.generation < membership_.generation) return;
  if (message.generation > membership_.generation || !decision_) {
    later_.push_back(std::move(message));
    return;
  }
  std::visit([&](const auto& what) { handle(message.from, what); }, message.what);
  advance();
}

void SimulatedWorker::handle(Rank from, const PartialSums& m) {
  for (const auto& [shard, sum] : m.sums) {
    Reduction& reduction = reductions_[{m.step, shard}];
    if (reduction.micro_batches & m.micro_batches)
      world_.violate("a micro-batch is counted twice in one step");
    reduction.micro_batches |= m.micro_batches;
    reduction.sum += sum;
  }
}

bool SimulatedWorker::try_store(Rank from, const StoreSlot& m) {
  const auto it = copies_.find(m.shard);
  const bool fits =
      it != copies_.end() && may_acknowledge(state_of(m.shard, it->second), m.slot.tag);
  if (!fits && !mutated(Mutation::kAcknowledgeAnything)) return false;
  if (fits) it->second.slot = m.slot;
  send(from, SlotStored{m.shard, m.slot.tag});
  return true;
}

void SimulatedWorker::handle(Rank from, const StoreSlot& m) {
  if (!try_store(from, m)) early_slots_.push_back({from, m});
}

void SimulatedWorker::handle(Rank from, const SlotStored& m) {
  reductions_[{m.tag.step.value(), m.shard}].acknowledged.insert(from);
}

void SimulatedWorker::handle(Rank from, const EnterCommit& m) {
  entered_[{m.step, m.recovery}].emplace(from, m);
}

void SimulatedWorker::handle(Rank from, const GiveParameters& m) {
  for (const auto& [shard, value] : m.values) given_[m.version][shard] = value;
}

void SimulatedWorker::handle(Rank from, const FetchCopy& m) {
  const auto it = copies_.find(m.shard);
  if (it == copies_.end()) return;
  SimulatedCopy half = it->second, whole = it->second;
  half.slot.reset();
  if (!mutated(Mutation::kRestoreWithoutSlot)) half.value = ~half.value;  // half of the bytes
  if (decision().kind == DecisionKind::kRecompute)
    whole.slot.reset();  // this attempt's slot comes from the primary
  send(from, CopyBytes{m.shard, false, half});
  send(from, CopyBytes{m.shard, true, whole});
}

void SimulatedWorker::handle(Rank from, const CopyBytes& m) {
  const auto it = copies_.find(m.shard);
  if (it != copies_.end() && it->second.complete && it->second.version >= m.copy.version) {
    if (m.last && it->second.version == m.copy.version && !it->second.slot &&
        !mutated(Mutation::kRestoreWithoutSlot)) {
      it->second.slot = m.copy.slot;
    }
    return;
  }
  copies_[m.shard] = m.copy;
  copies_[m.shard].complete = m.last || mutated(Mutation::kRestoreWithoutSlot);
}

}  // namespace craton::testing
