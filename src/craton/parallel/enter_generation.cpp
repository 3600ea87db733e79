// How a worker gets from the operator's decision to the first step of a generation: the recovery
// half of StepEngine.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/cluster/recovery_decision.h"
#include "craton/parallel/operations.h"
#include "craton/parallel/step_engine.h"
#include "craton/parallel/wire.h"
#include "craton/tensor/adamw.h"

namespace craton::parallel {
namespace {

/// What members tell each other at the start of a generation: it fills in newcomers, and the loss
/// of a step that is rolled forward.
struct Entry {
  int64_t step = 0, updates = 0;
  double loss = 0;  ///< of step `decision.step`, if known
  uint8_t knows_loss = 0;
};

/// In front of a copy of a shard on its way.
struct CopyHeader {
  int64_t version = 0;
  uint64_t digest = 0;
  int64_t slot_step = 0;
  uint64_t slot_generation = 0;
  uint8_t has_slot = 0;
};

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

cluster::Report make_report(const ShardedState& state, const GradientBuffers& gradients,
                            const StepProgress& progress, Strategy strategy) {
  cluster::Report report;
  report.copies = state.copies();
  report.last_commit = progress.last_commit;
  report.parameters = progress.parameters;
  if (keeps_sums(strategy)) {
    report.held.step = progress.step.next();
    report.held.micro_batches = gradients.micro_batches();
    for (int32_t m : gradients.held()) report.held.ranges.push_back({m, m + 1});
  }
  return report;
}

void StepEngine::hold_shards() {
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (assignment_.holds(rank(), ShardId(s))) state_.hold(ShardId(s));
  }
}

void StepEngine::restored(Step step, int64_t updates) {
  progress_ = {};
  progress_.step = step;
  progress_.updates = updates;
  progress_.position = decision_.position;
  progress_.parameters = step;
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (!state_.holds(ShardId(s))) continue;
    cluster::CopyState& copy = state_.copy(ShardId(s));
    copy = {};
    copy.shard = ShardId(s);
    copy.version = step;
  }
}

std::optional<StepResult> StepEngine::enter(const UpdateRule& rule) {
  if (progress_.losses.size() != static_cast<size_t>(micro_batches_))
    progress_.losses.assign(static_cast<size_t>(micro_batches_), std::nullopt);
  set_fault_step(decision_.step.value());
  const bool forward = decision_.kind == cluster::DecisionKind::kRollForward;
  Entry own;
  own.step = progress_.step.value();
  own.updates = progress_.updates;
  const bool complete = std::all_of(progress_.losses.begin(), progress_.losses.end(),
                                    [](const auto& loss) { return loss.has_value(); });
  if (forward && progress_.step.next() == decision_.step && complete) {
    own.loss = mean_loss(progress_.losses);
    own.knows_loss = 1;
  } else if (forward && progress_.step == decision_.step) {
    own.loss = progress_.last_loss;
    own.knows_loss = 1;
  }
  Writer mine;
  mine.put(own);
  const auto all = exchange(operation(decision_.step, Phase::kEnter), mine.bytes());

  // Everybody is to stand at `base`, or (roll-forward) one step further already.
  const int64_t base = decision_.kind == cluster::DecisionKind::kRestore
                           ? decision_.step.value()
                           : decision_.step.value() - 1;
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::optional<int64_t> base_updates, next_updates;
  for (const auto& bytes : all) {
    const auto entry = Reader(bytes).take<Entry>();
    if (entry.knows_loss) loss = entry.loss;
    if (entry.step == base) base_updates = entry.updates;
    if (forward && entry.step == base + 1) next_updates = entry.updates;
  }
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (!state_.holds(ShardId(s))) continue;
    cluster::CopyState& copy = state_.copy(ShardId(s));
    if (!cluster::keeps_slot(decision_, copy)) copy.slot.reset();
    if (!assignment_.holds(rank(), ShardId(s)) && !cluster::keeps_copy(decision_, copy))
      state_.drop(ShardId(s));
  }
  if (decision_.kind == cluster::DecisionKind::kRestore) {
    gradients_.clear();
    gradients_.set_micro_batches(micro_batches_);
    if (windows_) windows_->open(Step(base), Phase::kParameters, training_);
    return std::nullopt;
  }
  transfer();
  progress_.position = decision_.position;
  if (!forward) {
    CRATON_CHECK(base_updates.has_value(), "nobody stands at step {}", base);
    if (progress_.step.value() != base) progress_.step = Step(base);
    progress_.updates = *base_updates;
    keep_sums();
    give_parameters(Phase::kParameters, Step(base), decision_.needs_parameters);
    return std::nullopt;
  }
  gradients_.clear();
  gradients_.set_micro_batches(micro_batches_);
  return roll_forward(rule, loss, base_updates, next_updates);
}

void StepEngine::keep_sums() {
  const auto& kept = assignment_.keeps[static_cast<size_t>(rank().value())];
  if (!keeps_sums(strategy_) || kept.empty()) {
    gradients_.clear();
  } else {
    gradients_.keep_only(kept);
    CRATON_CHECK(gradients_.held() == kept,
                 "the decision keeps other sums than those that are here");
  }
  gradients_.set_micro_batches(micro_batches_);
  for (int32_t m = 0; m < micro_batches_; ++m) {
    if (!std::binary_search(kept.begin(), kept.end(), m))
      progress_.losses[static_cast<size_t>(m)].reset();
  }
}

void StepEngine::transfer() {
  for (const auto& transfer : decision_.transfers) {
    for (Rank receiver : transfer.receivers) send_copies(transfer, receiver);
  }
  for (const auto& transfer : decision_.transfers) {
    if (std::find(transfer.receivers.begin(), transfer.receivers.end(), rank()) !=
        transfer.receivers.end())
      receive_copies(transfer);
  }
  for (auto& send : parameter_sends_) send->wait();
  parameter_sends_.clear();
}

void StepEngine::send_copies(const cluster::Transfer& transfer, Rank receiver) {
  const auto own = std::find(transfer.donors.begin(), transfer.donors.end(), rank());
  if (own == transfer.donors.end()) return;
  const cluster::CopyState& copy = state_.copy(transfer.shard);
  CRATON_CHECK(copy.complete, "shard {} is to be given away but is not complete",
               transfer.shard.value());
  if (copy.digest != 0 && transfer.donors.size() == 1 &&
      state_.digest(transfer.shard) != copy.digest) {
    fail(ErrorCode::kCorrupt,
         "the only copy of shard {} contradicts its own record: silent data corruption on this "
         "worker",
         transfer.shard.value());
  }
  CopyHeader header;
  header.version = copy.version.value();
  header.digest = copy.digest;
  if (copy.slot) {
    header.has_slot = 1;
    header.slot_step = copy.slot->step.value();
    header.slot_generation = copy.slot->generation.value();
  }
  // Chunk k of the shard comes from donor k mod n.
  Writer front;
  front.put(header);
  std::vector<std::span<const std::byte>> data;
  const auto chunks = state_.chunks(transfer.shard);
  for (size_t k = static_cast<size_t>(own - transfer.donors.begin()); k < chunks.size();
       k += transfer.donors.size()) {
    CRATON_FAULT_POINT("transfer.chunk");
    const auto length = static_cast<size_t>(layout_.chunk(chunks[k]).length);
    for (const float* part : {state_.parameters(chunks[k]), state_.exp_avg(chunks[k]),
                              state_.exp_avg_sq(chunks[k]), state_.slot(chunks[k])}) {
      if (part == state_.slot(chunks[k]) && !header.has_slot) continue;
      data.push_back(std::as_bytes(std::span(part, length)));
      front.put(checksum(data.back()));
    }
  }
  data.insert(data.begin(), front.bytes());
  parameter_sends_.push_back(communicator_.send(
      receiver, operation(decision_.step, Phase::kTransfer, 0, transfer.shard.value()), data));
}

void StepEngine::receive_copies(const cluster::Transfer& transfer) {
  // What this worker has of the shard stays as it is until all of the new copy is here and
  // verified: if the donors are lost before that, it may be the last copy (R2).
  state_.hold(transfer.shard);
  const auto chunks = state_.chunks(transfer.shard);
  std::vector<std::pair<float*, std::vector<float>>> arrived;
  cluster::CopyState restored;
  restored.shard = transfer.shard;
  for (size_t donor = 0; donor < transfer.donors.size(); ++donor) {
    const auto message = communicator_.receive(
        transfer.donors[donor],
        operation(decision_.step, Phase::kTransfer, 0, transfer.shard.value()));
    const auto& pieces = message->pieces();
    CRATON_CHECK(!pieces.empty());
    Reader front(pieces[0]);
    const auto header = front.take<CopyHeader>();
    size_t piece = 1;
    for (size_t k = donor; k < chunks.size(); k += transfer.donors.size()) {
      const auto length = static_cast<size_t>(layout_.chunk(chunks[k]).length);
      for (float* part : {state_.parameters(chunks[k]), state_.exp_avg(chunks[k]),
                          state_.exp_avg_sq(chunks[k]), state_.slot(chunks[k])}) {
        if (part == state_.slot(chunks[k]) && !header.has_slot) continue;
        CRATON_CHECK(piece < pieces.size() && pieces[piece].size() == length * sizeof(float));
        std::vector<float> values(length);
        std::memcpy(values.data(), pieces[piece].data(), pieces[piece].size());
        if (CRATON_FAULT_POINT("transfer.received")) flip_a_bit(values.data());
        if (checksum(std::as_bytes(std::span(values))) != front.take<uint64_t>()) {
          fail(ErrorCode::kCorrupt, "a copy of shard {} arrived from rank {} with a wrong checksum",
               transfer.shard.value(), transfer.donors[donor].value());
        }
        arrived.emplace_back(part, std::move(values));
        ++piece;
      }
    }
    message->release();
    CRATON_CHECK(donor == 0 || restored.version == Step(header.version),
                 "parts of shard {} come from copies of different steps", transfer.shard.value());
    restored.version = Step(header.version);
    restored.digest = header.digest;
    if (header.has_slot)
      restored.slot = cluster::SlotTag{Step(header.slot_step), Generation(header.slot_generation)};
  }
  for (const auto& [part, values] : arrived) std::copy(values.begin(), values.end(), part);
  state_.copy(transfer.shard) = restored;  // version, state and slot as one unit
}

void StepEngine::drop_unassigned() {
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (!assignment_.holds(rank(), ShardId(s))) state_.drop(ShardId(s));
  }
}

std::vector<double> StepEngine::slot_squares() {
  std::vector<double> squares(static_cast<size_t>(layout_.chunk_count()), 0);
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    const ShardId shard = layout_.shard_of(c);
    if (assignment_.primary(shard) == rank() && state_.copy(shard).slot) {
      squares[static_cast<size_t>(c)] =
          tensor::sum_of_squares(state_.slot(c), static_cast<size_t>(layout_.chunk(c).length));
    }
  }
  return squares;
}

StepResult StepEngine::roll_forward(const UpdateRule& rule, double loss,
                                    std::optional<int64_t> base_updates,
                                    std::optional<int64_t> next_updates) {
  StepResult result;
  result.step = decision_.step;
  result.micro_batches = micro_batches_;
  result.position = decision_.position;
  result.loss = loss;
  result.contributed = progress_.contributed;
  commit(decision_.step, 0, slot_squares(), false, result);
  drop_unassigned();
  if (decision_.commit) {
    // Somebody knows what was decided; the slots of those who applied are gone.
    result.gradient_norm = decision_.commit->norm / micro_batches_;
    result.applied = decision_.commit->finite;
    progress_.last_commit = decision_.commit;
  }
  CRATON_FAULT_POINT("commit.after");
  if (base_updates) {
    progress_.updates = *base_updates;
  } else {
    CRATON_CHECK(next_updates.has_value());
    progress_.updates = *next_updates - (result.applied ? 1 : 0);
  }
  apply(rule, result);
  progress_.last_loss = result.loss;
  progress_.losses.assign(static_cast<size_t>(micro_batches_), std::nullopt);
  gather(decision_.step);
  after_first_commit();
  return result;
}

}  // namespace craton::parallel
