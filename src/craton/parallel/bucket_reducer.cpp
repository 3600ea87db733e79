#include "craton/parallel/bucket_reducer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/parallel/operations.h"
#include "craton/runtime/progress_page.h"
#include "craton/tensor/adamw.h"

namespace craton::parallel {
namespace {

/// Sent buckets whose receivers have not all let go; more would only hold memory.
constexpr size_t kBucketsInFlight = 2;

/// Buckets that are handed over and cannot be collected yet, since others are behind.
constexpr size_t kBucketsAhead = 8;

std::span<const std::byte> bytes_of(const float* data, int64_t count) {
  return {reinterpret_cast<const std::byte*>(data), static_cast<size_t>(count) * sizeof(float)};
}

}  // namespace

BucketReducer::BucketReducer(const std::vector<Bucket>& buckets, ShardedState& state,
                             StepProgress& progress, comm::Communicator& communicator,
                             const Assignment& assignment)
    : buckets_(buckets),
      state_(state),
      progress_(progress),
      communicator_(communicator),
      assignment_(assignment),
      layout_(state.layout()),
      self_(communicator.rank()) {
  own_index_.assign(static_cast<size_t>(layout_.chunk_count()), -1);
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    if (assignment_.primary(layout_.shard_of(c)) == self_)
      own_index_[static_cast<size_t>(c)] = own_chunks_++;
  }
  squares_.assign(static_cast<size_t>(layout_.chunk_count()), 0);
  plan_rounds();
  thread_ = std::thread([this] { run(); });
}

BucketReducer::~BucketReducer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BucketReducer::plan_rounds() {
  std::vector<TreeNode> carried;
  for (int round = 0; round < assignment_.rounds(); ++round) {
    RoundPlan plan;
    plan.carried = carried;
    std::vector<TreeNode> inputs = carried;
    for (int r = 0; r < assignment_.world_size(); ++r) {
      plan.contributions.push_back(assignment_.contributions(Rank(r), round));
      inputs.insert(inputs.end(), plan.contributions.back().begin(),
                    plan.contributions.back().end());
    }
    plan.merges = plan_merges(inputs, assignment_.micro_batches);
    carried.clear();
    for (const auto& result : plan.merges.results) carried.push_back(result.node);
    plan.last = round + 1 == assignment_.rounds();
    rounds_.push_back(std::move(plan));
  }
  CRATON_CHECK(carried.size() == 1, "{} subtrees are left over", carried.size());
}

std::vector<int64_t> BucketReducer::chunks_of(size_t bucket, Rank primary) const {
  std::vector<int64_t> out;
  const Bucket& b = buckets_[bucket];
  for (int64_t c = b.first_chunk; c < b.first_chunk + b.chunk_count; ++c) {
    if (assignment_.primary(layout_.shard_of(c)) == primary) out.push_back(c);
  }
  return out;
}

void BucketReducer::begin(Step step) {
  std::lock_guard lock(mutex_);
  CRATON_CHECK(!active_);
  for (int32_t shard = 0; shard < layout_.shard_count(); ++shard) {
    if (state_.holds(ShardId(shard))) state_.copy(ShardId(shard)).slot.reset();
  }
  step_ = step;
  waiting_.clear();
  missing_.reset();
  active_ = true;
  changed_.notify_all();
}

void BucketReducer::ready(int round, size_t bucket, std::vector<const float*> sums,
                          std::function<void()> release) {
  Task task{round, bucket, std::move(sums), {}, std::move(release)};
  const bool bounded = task.release != nullptr;
  std::exception_ptr error;
  try {
    CRATON_FAULT_POINT("reduce.send");
    for (int r = 0; r < assignment_.world_size() && !task.sums.empty(); ++r) {
      const std::vector<int64_t> chunks = chunks_of(bucket, Rank(r));
      if (Rank(r) == self_ || chunks.empty()) continue;
      std::vector<std::span<const std::byte>> pieces;
      for (const float* sum : task.sums) {
        for (int64_t c : chunks) {
          const Extent extent = layout_.chunk(c);
          pieces.push_back(
              bytes_of(sum + extent.offset - buckets_[bucket].extent.offset, extent.length));
        }
      }
      task.sends.push_back(communicator_.send(
          Rank(r), operation(step_, Phase::kReduce, round, static_cast<int64_t>(bucket)), pieces));
    }
  } catch (...) {
    error = std::current_exception();
  }
  std::unique_lock lock(mutex_);
  if (error && !error_) error_ = error;
  waiting_.push_back(std::move(task));
  if (missing_ == std::pair(round, bucket)) missing_.reset();
  changed_.notify_all();
  // Never while a bucket of this worker is what everybody waits for: of all threads that wait, the
  // one that is furthest behind waits for a worker that does not wait here.
  const auto may_go_on = [&] {
    return !bounded || error_ || stop_ || missing_ || waiting_.size() <= kBucketsAhead;
  };
  if (may_go_on()) return;
  const runtime::ProgressWait wait(
      operation(step_, Phase::kReduce, round, static_cast<int64_t>(bucket)));
  changed_.wait(lock, may_go_on);
}

void BucketReducer::finish() {
  std::vector<std::byte> mine;
  for (int32_t m = 0; m < assignment_.micro_batches; ++m) {
    const double loss =
        progress_.losses[static_cast<size_t>(m)].value_or(std::numeric_limits<double>::quiet_NaN());
    const auto bytes = std::as_bytes(std::span(&loss, 1));
    mine.insert(mine.end(), bytes.begin(), bytes.end());
  }
  const std::span<const std::byte> piece(mine);
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) != self_)
      loss_sends_.push_back(
          communicator_.send(Rank(r), operation(step_, Phase::kLosses), std::span(&piece, 1)));
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !active_ || error_; });
  if (error_) std::rethrow_exception(error_);
  lock.unlock();
  for (auto& send : loss_sends_) send->wait();
  loss_sends_.clear();
}

void BucketReducer::check() {
  std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

bool BucketReducer::idle() {
  std::lock_guard lock(mutex_);
  return !active_;
}

void BucketReducer::run() {
  while (true) {
    Step step;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || (active_ && !error_); });
      if (stop_) return;
      step = step_;
    }
    std::exception_ptr error;
    try {
      run_step(step);
    } catch (...) {
      error = std::current_exception();
    }
    {
      std::lock_guard lock(mutex_);
      active_ = false;
      error_ = error;
    }
    changed_.notify_all();
  }
}

void BucketReducer::run_step(Step) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Clock::duration awaited{0};
  const auto awaited_task = [&](int round, size_t bucket) {
    const auto asked = Clock::now();
    Task task = await(round, bucket);
    awaited += Clock::now() - asked;
    return task;
  };
  partials_.clear();
  for (int round = 0; round < static_cast<int>(rounds_.size()); ++round) {
    const RoundPlan& plan = rounds_[static_cast<size_t>(round)];
    begin_round(plan);
    size_t previous = buckets_.size();
    for (size_t b = buckets_.size(); b-- > 0;) {
      collect(awaited_task(round, b));
      if (!plan.last) continue;
      send_slots(b);
      // One bucket behind, so that the others have had time to reduce theirs.
      if (previous < buckets_.size()) receive_slots(previous);
      previous = b;
    }
    if (plan.last && previous < buckets_.size()) receive_slots(previous);
    end_round();
  }
  settle(0);
  receive_losses();
  mark_slots();
  acknowledge();
  partials_.clear();
  busy_ = Clock::now() - begin - awaited;
}

void BucketReducer::begin_round(const RoundPlan& plan) {
  next_partials_.clear();
  if (plan.last) return;
  for (const auto& result : plan.merges.results) {
    const bool untouched = result.operand < static_cast<int32_t>(plan.carried.size());
    next_partials_.push_back(
        {result.node,
         std::vector<float>(untouched ? 0 : static_cast<size_t>(own_chunks_ * kChunkElements))});
  }
}

void BucketReducer::end_round() {
  for (Partial& next : next_partials_) {
    if (!next.values.empty()) continue;
    for (Partial& old : partials_) {
      if (old.node == next.node) next.values = std::move(old.values);
    }
  }
  partials_ = std::move(next_partials_);
  next_partials_.clear();
}

BucketReducer::Task BucketReducer::await(int round, size_t bucket) {
  std::unique_lock lock(mutex_);
  std::vector<Task>::iterator found;
  changed_.wait(lock, [&] {
    found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Task& task) {
      return task.round == round && task.bucket == bucket;
    });
    if (found == waiting_.end() && !missing_) {
      missing_ = {round, bucket};
      changed_.notify_all();
    }
    return stop_ || error_ || found != waiting_.end();
  });
  if (error_) std::rethrow_exception(error_);
  if (stop_) fail(ErrorCode::kCancelled, "the step was given up");
  Task task = std::move(*found);
  waiting_.erase(found);
  changed_.notify_all();
  return task;
}

void BucketReducer::collect(Task task) {
  const RoundPlan& plan = rounds_[static_cast<size_t>(task.round)];
  const std::vector<int64_t> chunks = chunks_of(task.bucket, self_);
  const int64_t base = buckets_[task.bucket].extent.offset;
  std::vector<std::unique_ptr<comm::Message>> messages(
      static_cast<size_t>(assignment_.world_size()));
  if (!chunks.empty()) {
    for (int r = 0; r < assignment_.world_size(); ++r) {
      const auto& nodes = plan.contributions[static_cast<size_t>(r)];
      if (Rank(r) == self_ || nodes.empty()) continue;
      auto& message = messages[static_cast<size_t>(r)];
      message = communicator_.receive(
          Rank(r), operation(step_, Phase::kReduce, task.round, static_cast<int64_t>(task.bucket)));
      CRATON_CHECK(message->pieces().size() == nodes.size() * chunks.size(),
                   "{} pieces from rank {}", message->pieces().size(), r);
    }
  }
  std::vector<const float*> inputs;
  std::vector<float*> results;
  for (size_t k = 0; k < chunks.size(); ++k) {
    const int64_t c = chunks[k];
    const Extent extent = layout_.chunk(c);
    const int64_t own = own_index_[static_cast<size_t>(c)] * kChunkElements;
    inputs.clear();
    for (const Partial& partial : partials_) inputs.push_back(partial.values.data() + own);
    for (int r = 0; r < assignment_.world_size(); ++r) {
      for (size_t n = 0; n < plan.contributions[static_cast<size_t>(r)].size(); ++n) {
        inputs.push_back(
            Rank(r) == self_
                ? task.sums[n] + extent.offset - base
                : reinterpret_cast<const float*>(
                      messages[static_cast<size_t>(r)]->pieces()[n * chunks.size() + k].data()));
      }
    }
    results.clear();
    if (plan.last) results.push_back(state_.slot(c));
    for (size_t n = 0; n < next_partials_.size(); ++n) {
      const int32_t operand = plan.merges.results[n].operand;
      results.push_back(next_partials_[n].values.empty()
                            ? const_cast<float*>(inputs[static_cast<size_t>(operand)])
                            : next_partials_[n].values.data() + own);
    }
    execute_merges(plan.merges, inputs, results, extent.length);
    if (plan.last) {
      squares_[static_cast<size_t>(c)] =
          tensor::sum_of_squares(state_.slot(c), static_cast<size_t>(extent.length));
    }
  }
  CRATON_FAULT_POINT("reduce.collect");
  for (const auto& message : messages) {
    if (message)
      message->release();  // the senders have their memory back; throws when one has left and may
                           // have changed it
  }
  in_flight_.push_back({std::move(task.sends), std::move(task.release)});
  settle(kBucketsInFlight);
}

void BucketReducer::settle(size_t keep) {
  while (in_flight_.size() > keep) {
    for (auto& send : in_flight_.front().sends) send->wait();
    if (in_flight_.front().release) in_flight_.front().release();
    in_flight_.pop_front();
  }
}

void BucketReducer::send_slots(size_t bucket) {
  CRATON_FAULT_POINT("store.send");
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) == self_) continue;
    std::vector<std::span<const std::byte>> pieces;
    for (int64_t c : chunks_of(bucket, self_)) {
      if (assignment_.holds(Rank(r), layout_.shard_of(c)))
        pieces.push_back(bytes_of(state_.slot(c), layout_.chunk(c).length));
    }
    if (pieces.empty()) continue;
    slot_sends_.push_back(communicator_.send(
        Rank(r), operation(step_, Phase::kStore, 0, static_cast<int64_t>(bucket)), pieces));
  }
}

void BucketReducer::receive_slots(size_t bucket) {
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) == self_) continue;
    std::vector<int64_t> chunks;
    for (int64_t c : chunks_of(bucket, Rank(r))) {
      if (assignment_.holds(self_, layout_.shard_of(c))) chunks.push_back(c);
    }
    if (chunks.empty()) continue;
    const auto message = communicator_.receive(
        Rank(r), operation(step_, Phase::kStore, 0, static_cast<int64_t>(bucket)));
    CRATON_CHECK(message->pieces().size() == chunks.size());
    for (size_t k = 0; k < chunks.size(); ++k) {
      const auto& piece = message->pieces()[k];
      CRATON_CHECK(static_cast<int64_t>(piece.size()) ==
                   layout_.chunk(chunks[k]).length * static_cast<int64_t>(sizeof(float)));
      std::memcpy(state_.slot(chunks[k]), piece.data(), piece.size());
    }
    message->release();
  }
}

void BucketReducer::receive_losses() {
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) == self_) continue;
    const auto message = communicator_.receive(Rank(r), operation(step_, Phase::kLosses));
    const auto& piece = message->pieces().at(0);
    CRATON_CHECK(piece.size() == static_cast<size_t>(assignment_.micro_batches) * sizeof(double));
    for (const auto* list : {&assignment_.keeps[static_cast<size_t>(r)],
                             &assignment_.computes[static_cast<size_t>(r)]}) {
      for (int32_t m : *list) {
        double loss;
        std::memcpy(&loss, piece.data() + static_cast<size_t>(m) * sizeof(double), sizeof(double));
        progress_.losses[static_cast<size_t>(m)] = loss;
      }
    }
  }
}

void BucketReducer::mark_slots() {
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (!assignment_.holds(self_, ShardId(s))) continue;
    cluster::CopyState& copy = state_.copy(ShardId(s));
    CRATON_CHECK(copy.complete && copy.version.next() == step_,
                 "shard {} is at version {} in step {}", s, copy.version.value(), step_.value());
    copy.slot = cluster::SlotTag{step_, communicator_.generation()};
  }
}

void BucketReducer::acknowledge() {
  // Tell each primary whose shards this worker backs up that all its slots are here; then hear it
  // from the own backups.
  const auto backs_up = [&](Rank backup, Rank primary) {
    return std::any_of(assignment_.holders.begin(), assignment_.holders.end(),
                       [&](const auto& holders) {
                         return holders.front() == primary &&
                                std::find(holders.begin(), holders.end(), backup) != holders.end();
                       });
  };
  CRATON_FAULT_POINT("store.before_ack");
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) != self_ && backs_up(self_, Rank(r)))
      communicator_.send(Rank(r), operation(step_, Phase::kAcknowledge), {});
  }
  CRATON_FAULT_POINT("store.after_ack");
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) != self_ && backs_up(Rank(r), self_))
      communicator_.receive(Rank(r), operation(step_, Phase::kAcknowledge));
  }
  for (auto& send : slot_sends_) send->wait();
  slot_sends_.clear();
}

}  // namespace craton::parallel
