#include "craton/parallel/step_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/log.h"
#include "craton/base/sha256.h"
#include "craton/cluster/failure_detector.h"
#include "craton/parallel/operations.h"
#include "craton/parallel/wire.h"
#include "craton/runtime/progress_page.h"
#include "craton/tensor/adamw.h"

namespace craton::parallel {
namespace {

/// Steps between two comparisons of the copies of a shard.
constexpr int64_t kDigestEvery = 10;

class Stopwatch {
 public:
  /// Seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Sum in a fixed binary tree over positions: independent of who computed which value.
double tree_sum(std::span<const double> values) {
  if (values.empty()) return 0;
  if (values.size() == 1) return values[0];
  size_t half = 1;
  while (half * 2 < values.size()) half *= 2;
  return tree_sum(values.first(half)) + tree_sum(values.subspan(half));
}

void enter_phase(cluster::StepPhase phase) {
  runtime::set_progress_phase(static_cast<uint32_t>(phase));
}

bool digest_due(Step step) { return step.value() > 0 && step.value() % kDigestEvery == 0; }

}  // namespace

double mean_loss(const std::vector<std::optional<double>>& losses) {
  std::vector<double> values;
  for (const auto& loss : losses)
    values.push_back(loss.value_or(std::numeric_limits<double>::quiet_NaN()));
  return tree_sum(values) / static_cast<double>(values.size());
}

StepEngine::StepEngine(ShardedState& state, GradientBuffers& gradients, StepProgress& progress,
                       comm::Communicator& communicator, Strategy strategy,
                       const cluster::Decision& decision, int training)
    : state_(state),
      gradients_(gradients),
      progress_(progress),
      communicator_(communicator),
      strategy_(strategy),
      decision_(decision),
      training_(training),
      layout_(state.layout()),
      micro_batches_(decision.micro_batches) {
  assignment_ = make_assignment(strategy_, micro_batches_, decision_, communicator_.world_size(),
                                training_, true);
  if (!state_.keeps_all())
    windows_.emplace(state_, gradients_.buckets(), communicator_, decision_.placement.holders);
}

StepEngine::~StepEngine() {
  if (reducer_ && !reducer_->idle()) communicator_.abort();
}

void StepEngine::start_reducer() {
  if (!reducer_)
    reducer_ = std::make_unique<BucketReducer>(gradients_.buckets(), state_, progress_,
                                               communicator_, assignment_);
}

StepResult StepEngine::run(Step step, const StepWork& work) {
  CRATON_CHECK(progress_.step.next() == step, "step {} after step {}", step.value(),
               progress_.step.value());
  StepResult result;
  result.step = step;
  result.micro_batches = micro_batches_;
  result.position = progress_.position;
  Stopwatch watch;
  const uint64_t sent_before = communicator_.traffic().bytes_sent;
  if (windows_) windows_->lap();
  start_reducer();
  set_fault_step(step.value());
  progress_.losses.resize(static_cast<size_t>(micro_batches_));
  progress_.contributed = contribution();
  reducer_->begin(step);
  enter_phase(cluster::StepPhase::kCompute);
  compute_and_reduce(step, work);
  if (windows_) windows_->close();
  const double reading = windows_ ? windows_->lap() : 0;
  result.compute_seconds = watch.lap() - reading;
  enter_phase(cluster::StepPhase::kReduce);
  {
    const runtime::ProgressWait wait(operation(step, Phase::kCommit));
    reducer_->finish();
  }
  result.reduce_seconds = watch.lap();
  result.communication_seconds = reducer_->busy_seconds();

  result.contributed = progress_.contributed;
  result.loss = mean_loss(progress_.losses);
  enter_phase(cluster::StepPhase::kCommit);
  if (CRATON_FAULT_POINT("commit.before")) flip_memory();
  commit(step, work.wishes(), reducer_->squares(), true, result);
  CRATON_FAULT_POINT("commit.after");
  result.commit_seconds = watch.lap();

  for (auto& send : parameter_sends_) send->wait();
  parameter_sends_.clear();
  if (windows_) windows_->await_closed();
  enter_phase(cluster::StepPhase::kApply);
  apply(work.rule, result);
  progress_.last_loss = result.loss;
  gradients_.clear();
  progress_.losses.assign(static_cast<size_t>(micro_batches_), std::nullopt);
  CRATON_FAULT_POINT("apply.after");
  result.apply_seconds = watch.lap();
  enter_phase(cluster::StepPhase::kGather);
  if (!work.skips_gather(result)) gather(step);
  CRATON_FAULT_POINT("gather.after");
  if (first_) after_first_commit();
  result.gather_seconds = watch.lap() + reading;
  result.communication_seconds += result.commit_seconds + result.gather_seconds;
  result.sent_bytes = communicator_.traffic().bytes_sent - sent_before;
  return result;
}

std::vector<int32_t> StepEngine::contribution() const {
  const auto r = static_cast<size_t>(rank().value());
  std::vector<int32_t> mine = assignment_.keeps[r];
  mine.insert(mine.end(), assignment_.computes[r].begin(), assignment_.computes[r].end());
  std::sort(mine.begin(), mine.end());
  return mine;
}

void StepEngine::compute_and_reduce(Step, const StepWork& work) {
  const auto& mine = assignment_.computes[static_cast<size_t>(rank().value())];
  const bool keep = keeps_sums(strategy_);
  const GradientBuffers::GiveUp give_up = [this] {
    communicator_.check();
    reducer_->check();
  };
  for (size_t k = 0; k < mine.size(); ++k) {
    // Between micro-batches the sums are whole, so this is where a worker stops for the next
    // generation. Sums that are not kept need not be whole: then it stops within backward too.
    give_up();
    const bool last = k + 1 == mine.size();
    const int round = keep ? 0 : static_cast<int>(k);
    CRATON_FAULT_POINT("compute.before");
    gradients_.begin(
        mine[k], keep,
        [this, keep, last, round](size_t bucket) {
          if (!keep || last) hand_over(round, bucket);
        },
        keep ? GradientBuffers::GiveUp() : give_up);
    progress_.losses[static_cast<size_t>(mine[k])] = work.compute(mine[k]);
    gradients_.end();
    CRATON_FAULT_POINT("compute.after");
  }
  // What this worker has to hand over without computing: sums that it kept, or nothing in the
  // rounds that only others fill.
  const int done = mine.empty() ? 0 : keep ? 1 : static_cast<int>(mine.size());
  for (int round = done; round < assignment_.rounds(); ++round) {
    for (size_t b = gradients_.buckets().size(); b-- > 0;) hand_over(round, b);
  }
}

void StepEngine::hand_over(int round, size_t bucket) {
  std::vector<const float*> sums;
  std::function<void()> release;
  if (keeps_sums(strategy_)) {
    for (const auto& [node, data] : gradients_.pieces(bucket)) sums.push_back(data);
  } else if (round <
             static_cast<int>(assignment_.computes[static_cast<size_t>(rank().value())].size())) {
    for (const auto& [node, data] : gradients_.pieces(bucket)) sums.push_back(data);
    release = [this, buffer = gradients_.take(bucket)]() mutable {
      gradients_.release(std::move(buffer));
    };
  }
  reducer_->ready(round, bucket, std::move(sums), std::move(release));
}

std::vector<std::vector<std::byte>> StepEngine::exchange(uint64_t operation,
                                                         std::span<const std::byte> mine) {
  std::vector<std::unique_ptr<comm::PendingSend>> sends;
  for (int r = 0; r < assignment_.world_size(); ++r) {
    if (Rank(r) != rank())
      sends.push_back(communicator_.send(Rank(r), operation, std::span(&mine, 1)));
  }
  CRATON_FAULT_POINT("commit.sent");
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(assignment_.world_size()));
  for (int r = 0; r < assignment_.world_size(); ++r) {
    auto& bytes = all[static_cast<size_t>(r)];
    if (Rank(r) == rank()) {
      bytes.assign(mine.begin(), mine.end());
      continue;
    }
    const auto message = communicator_.receive(Rank(r), operation);
    for (const auto& piece : message->pieces())
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    message->release();
  }
  for (auto& send : sends) send->wait();
  return all;
}

void StepEngine::commit(Step step, uint64_t wishes, const std::vector<double>& squares,
                        bool compare, StepResult& result) {
  // Per rank: its wishes; the squares of the chunks whose primary it is; when due, the digests of
  // its shards after the last update.
  Writer mine;
  mine.put(wishes);
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    if (assignment_.primary(layout_.shard_of(c)) == rank())
      mine.put(squares[static_cast<size_t>(c)]);
  }
  const bool digests = compare && digest_due(progress_.step);
  for (int32_t s = 0; digests && s < layout_.shard_count(); ++s) {
    // Hashed anew: the record alone would not show what has happened to memory since.
    if (assignment_.holds(rank(), ShardId(s)))
      mine.put(state_.copy(ShardId(s)).digest == 0 ? uint64_t{0} : state_.digest(ShardId(s)));
  }
  const auto all = exchange(operation(step, Phase::kCommit), mine.bytes());
  std::vector<Reader> readers(all.begin(), all.end());
  result.every_wish = ~uint64_t{0};
  for (Reader& reader : readers) {
    const auto wish = reader.take<uint64_t>();
    result.any_wish |= wish;
    result.every_wish &= wish;
  }
  std::vector<double> every(squares.size());
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    every[static_cast<size_t>(c)] =
        readers[static_cast<size_t>(assignment_.primary(layout_.shard_of(c)).value())]
            .take<double>();
  }
  if (digests) compare_digests(readers);
  const double norm = std::sqrt(tree_sum(every));
  result.gradient_norm = norm / micro_batches_;
  result.applied = std::isfinite(result.loss) && std::isfinite(norm);
  progress_.last_commit =
      cluster::CommitResult{{step, communicator_.generation()}, norm, result.applied};
}

void StepEngine::flip_memory() {
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    if (state_.holds(layout_.shard_of(c))) return flip_a_bit(state_.exp_avg(c));
  }
}

void StepEngine::compare_copies() {
  Writer mine;
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (!assignment_.holds(rank(), ShardId(s))) continue;
    cluster::CopyState& copy = state_.copy(ShardId(s));
    const uint64_t digest = state_.digest(ShardId(s));
    if (copy.digest == 0) copy.digest = digest;
    mine.put(digest);
  }
  const auto all = exchange(operation(progress_.step, Phase::kDigest, 1), mine.bytes());
  std::vector<Reader> readers(all.begin(), all.end());
  compare_digests(readers);
}

void StepEngine::compare_digests(std::vector<Reader>& readers) {
  std::vector<ShardId> differing;
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    uint64_t known = 0;
    bool differ = false;
    for (int r = 0; r < assignment_.world_size(); ++r) {
      if (!assignment_.holds(Rank(r), ShardId(s))) continue;
      const auto digest = readers[static_cast<size_t>(r)].take<uint64_t>();
      if (digest == 0) continue;  // a copy that was restored since
      differ |= known != 0 && digest != known;
      known = digest;
    }
    if (differ) differing.push_back(ShardId(s));
  }
  if (!differing.empty()) distrust(differing);
}

void StepEngine::distrust(const std::vector<ShardId>& differing) {
  // A difference does not say who is right. Memory that contradicts its own record is bad; if none
  // does, no copy can be trusted, and the newest checkpoint has to come back.
  uint8_t contradicts = 0;
  for (ShardId s : differing) {
    if (!assignment_.holds(rank(), s) || state_.copy(s).digest == 0) continue;
    contradicts |= state_.digest(s) != state_.copy(s).digest;
  }
  Writer mine;
  mine.put(contradicts);
  const auto all = exchange(operation(progress_.step, Phase::kDigest, 2), mine.bytes());
  if (contradicts != 0) {
    fail(ErrorCode::kCorrupt,
         "the memory of this worker has changed since it was written: silent data corruption in "
         "shard {} after step {}",
         differing.front().value(), progress_.step.value());
  }
  const bool known = std::any_of(all.begin(), all.end(), [](const auto& bytes) {
    return Reader(bytes).template take<uint8_t>() != 0;
  });
  if (!known) {
    for (ShardId s : differing) {
      if (state_.holds(s)) state_.copy(s).complete = false;
    }
    const auto& holders = assignment_.holders[static_cast<size_t>(differing.front().value())];
    if (*std::max_element(holders.begin(), holders.end()) == rank()) {
      fail(ErrorCode::kCorrupt,
           "the copies of shard {} differ after step {} and none contradicts its own record: all "
           "are given up",
           differing.front().value(), progress_.step.value());
    }
  }
  throw Error(ErrorCode::kGenerationEnded,
              fmt::format("copies of shard {} differ", differing.front().value()),
              Reaction::kReconfigure);
}

void StepEngine::apply(const UpdateRule& rule, const StepResult& result) {
  if (result.applied) ++progress_.updates;
  double scale = 1.0 / micro_batches_;
  if (rule.clip_norm > 0 && result.gradient_norm > rule.clip_norm)
    scale *= rule.clip_norm / result.gradient_norm;
  tensor::AdamWStep numbers;
  numbers.learning_rate = rule.learning_rate;
  numbers.beta1 = rule.beta1;
  numbers.beta2 = rule.beta2;
  numbers.epsilon = rule.epsilon;
  numbers.gradient_scale = scale;
  numbers.step = progress_.updates;
  progress_.parameters = Step(-1);
  bool middle = false;
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    if (!state_.holds(ShardId(s)) || state_.copy(ShardId(s)).version >= result.step) continue;
    cluster::CopyState& copy = state_.copy(ShardId(s));
    CRATON_CHECK(copy.slot && copy.slot->step == result.step, "shard {} has no slot for step {}", s,
                 result.step.value());
    copy.complete = false;
    for (int64_t c : result.applied ? state_.chunks(ShardId(s)) : std::vector<int64_t>()) {
      for (const auto& run : layout_.decay_runs(c)) {
        numbers.weight_decay = run.decays ? rule.weight_decay : 0;
        const int64_t at = run.extent.offset - c * kChunkElements;
        tensor::adamw_update(state_.parameters(c) + at, state_.exp_avg(c) + at,
                             state_.exp_avg_sq(c) + at, state_.slot(c) + at,
                             static_cast<size_t>(run.extent.length), numbers);
      }
      if (!middle && CRATON_FAULT_POINT("apply.middle")) flip_a_bit(state_.exp_avg(c));
      middle = true;
    }
    copy.version = result.step;
    copy.slot.reset();
    copy.digest = digest_due(result.step) ? state_.digest(ShardId(s)) : 0;
    copy.complete = true;
  }
  progress_.step = result.step;
  progress_.position = result.position + result.micro_batches;
}

void StepEngine::gather(Step step) {
  std::vector<Rank> everyone;
  for (int r = 0; r < training_; ++r) everyone.push_back(Rank(r));
  give_parameters(Phase::kGather, step, everyone);
}

void StepEngine::give_parameters(Phase phase, Step version, const std::vector<Rank>& receivers) {
  if (windows_) {
    windows_->open(version, phase, training_);
    CRATON_FAULT_POINT("gather.sent");
    return;
  }
  const auto chunks_between = [&](Rank from, Rank to) {
    std::vector<int64_t> out;
    for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
      const ShardId shard = layout_.shard_of(c);
      if (assignment_.primary(shard) == from && !assignment_.holds(to, shard)) out.push_back(c);
    }
    return out;
  };
  const int world = assignment_.world_size();
  const auto receives = [&](Rank r) {
    return std::find(receivers.begin(), receivers.end(), r) != receivers.end();
  };
  for (int k = 1; k < world; ++k) {
    const Rank to((rank().value() + k) % world);
    if (!receives(to)) continue;
    std::vector<std::span<const std::byte>> pieces;
    for (int64_t c : chunks_between(rank(), to)) {
      pieces.push_back(std::as_bytes(
          std::span(state_.parameters(c), static_cast<size_t>(layout_.chunk(c).length))));
    }
    if (!pieces.empty())
      parameter_sends_.push_back(communicator_.send(to, operation(version, phase), pieces));
  }
  CRATON_FAULT_POINT("gather.sent");
  if (!receives(rank())) return;
  for (int k = 1; k < world; ++k) {
    const Rank from((rank().value() + world - k) % world);
    const std::vector<int64_t> chunks = chunks_between(from, rank());
    if (chunks.empty()) continue;
    const auto message = communicator_.receive(from, operation(version, phase));
    CRATON_CHECK(message->pieces().size() == chunks.size());
    for (size_t i = 0; i < chunks.size(); ++i) {
      const auto& piece = message->pieces()[i];
      CRATON_CHECK(piece.size() ==
                   static_cast<size_t>(layout_.chunk(chunks[i]).length) * sizeof(float));
      std::memcpy(state_.parameters(chunks[i]), piece.data(), piece.size());
    }
    message->release();
  }
  progress_.parameters = version;
}

void StepEngine::after_first_commit() {
  first_ = false;
  for (int32_t s = 0; s < layout_.shard_count(); ++s) {
    const auto& holders = decision_.placement.holders[static_cast<size_t>(s)];
    if (state_.holds(ShardId(s)) &&
        std::find(holders.begin(), holders.end(), rank()) == holders.end())
      state_.drop(ShardId(s));
  }
  if (decision_.later_micro_batches != micro_batches_)
    begin_steps_of(decision_.later_micro_batches);
  assignment_ = make_assignment(strategy_, micro_batches_, decision_, communicator_.world_size(),
                                training_, false);
  reducer_.reset();  // its plan was that of the first step
}

void StepEngine::begin_steps_of(int32_t micro_batches) {
  micro_batches_ = micro_batches;
  gradients_.set_micro_batches(micro_batches);
  progress_.losses.assign(static_cast<size_t>(micro_batches), std::nullopt);
}

std::vector<double> StepEngine::spread(Step step, int64_t count,
                                       const std::function<double(int64_t)>& compute) {
  Writer mine;
  for (int64_t i = rank().value(); i < count; i += training_) mine.put(compute(i));
  const auto all = exchange(operation(step, Phase::kValidation), mine.bytes());
  std::vector<Reader> readers(all.begin(), all.end());
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(readers[static_cast<size_t>(i % training_)].take<double>());
  return values;
}

std::string StepEngine::state_digest(Step step) {
  Writer mine;
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    if (assignment_.primary(layout_.shard_of(c)) != rank()) continue;
    const auto length = static_cast<size_t>(layout_.chunk(c).length);
    Sha256 hash;
    for (const float* part : {state_.parameters(c), state_.exp_avg(c), state_.exp_avg_sq(c)})
      hash.update(std::as_bytes(std::span(part, length)));
    mine.put(hash.digest());
  }
  const auto all = exchange(operation(step, Phase::kDigest), mine.bytes());
  std::vector<Reader> readers(all.begin(), all.end());
  Sha256 whole;
  const int64_t scalars[] = {step.value(), progress_.updates};
  whole.update(std::as_bytes(std::span(scalars)));
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    const auto digest =
        readers[static_cast<size_t>(assignment_.primary(layout_.shard_of(c)).value())]
            .take<std::array<std::byte, 32>>();
    whole.update(digest);
  }
  return whole.hex_digest();
}

}  // namespace craton::parallel
