#include "craton/train/trainer.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/base/units.h"
#include "craton/cluster/failure_detector.h"
#include "craton/runtime/memory.h"
#include "craton/runtime/progress_page.h"
#include "craton/runtime/separate_pages.h"
#include "craton/tensor/head_exchange.h"
#include "craton/train/schedule.h"

namespace craton::train {
namespace {

constexpr uint64_t kWishStop = 1;
constexpr uint64_t kWishNextGeneration = 2;

/// Past all numbers of samples: what is computed with them goes nowhere.
constexpr int64_t kFirstWarmUpNumber = int64_t{1} << 41;

/// All members have heard of the next generation.
bool leaves_generation(const parallel::StepResult& result) {
  return (result.every_wish & kWishNextGeneration) != 0;
}

/// A phase that may take longer than any step; peers that are through with it wait in compute.
class LongPhase {
 public:
  explicit LongPhase(cluster::StepPhase phase) {
    runtime::set_progress_phase(static_cast<uint32_t>(phase));
  }
  ~LongPhase() { runtime::set_progress_phase(static_cast<uint32_t>(cluster::StepPhase::kCompute)); }
};

/// While it lives, the model's parameters are read through the windows of a generation.
class Reading {
 public:
  Reading(parallel::GatheredParameters* gathered, parallel::ParameterWindows* windows)
      : gathered_(gathered) {
    if (gathered_ == nullptr) return;
    gathered_->let_go();
    ::malloc_trim(0);  // what the whole model took goes back to the system, not just to the heap
    gathered_->read_from(windows);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  ~Reading() {
    if (gathered_ != nullptr) gathered_->read_from(nullptr);
  }

 private:
  parallel::GatheredParameters* gathered_;
};

/// While it lives, the trainer has the peers of a context; null for none.
class Sharing {
 public:
  using Peers = std::unique_ptr<parallel::CommunicatorPeers>;
  Sharing(Peers& place, Peers peers) : place_(place) { place_ = std::move(peers); }
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;
  ~Sharing() { place_.reset(); }

 private:
  Peers& place_;
};

tensor::ContextMethod context_method(const recipe::Recipe& recipe) {
  const std::string& name = recipe.parallel.context_method;
  if (name == "ulysses") return tensor::ContextMethod::kUlysses;
  return name == "hybrid" ? tensor::ContextMethod::kHybrid : tensor::ContextMethod::kRing;
}

/// Attention over the peers, if there are any, while the result lives.
std::unique_ptr<tensor::ContextScope> scope_of(parallel::CommunicatorPeers* peers,
                                               const recipe::Recipe& recipe) {
  if (peers == nullptr) return nullptr;
  return std::make_unique<tensor::ContextScope>(*peers, tensor::ContextLayout(),
                                                context_method(recipe));
}

/// A model whose parameters are rounded reads them block by block under any strategy: what a worker
/// keeps are master weights.
parallel::Kept kept_parameters(const recipe::Recipe& recipe) {
  const bool all = !parallel::shards_parameters(parallel::parse_strategy(recipe.parallel.strategy));
  return all && recipe.train.param_dtype == "fp32" ? parallel::Kept::kAll : parallel::Kept::kHeld;
}

std::shared_ptr<model::Model> make_model(const recipe::Recipe& recipe) {
  // A worker that does not keep all parameters lets those go with which the model begins.
  std::optional<runtime::SeparatePages> pages;
  if (kept_parameters(recipe) == parallel::Kept::kHeld) pages.emplace();
  auto model = model::create_model(recipe.model, recipe.seed);
  recipe.model.finish();
  return model;
}

parallel::Strategy engine_strategy(const recipe::Recipe& recipe) {
  const auto strategy = parallel::parse_strategy(recipe.parallel.strategy);
  const bool shared = recipe.parallel.context > 1;
  return shared && parallel::keeps_sums(strategy) ? parallel::Strategy::kZero2 : strategy;
}

/// The rows at which windows are cut for the workers of a context. Error when the model's windows
/// cannot be shared as the recipe wants it.
int64_t checked_grain(const recipe::Recipe& recipe, const model::Model& model) {
  const int64_t parts = recipe.parallel.context, grain = model.context_grain();
  if (recipe.data.tile_rows > 0 && grain == 0) {
    fail(
        ErrorCode::kUnsupported,
        "data.tile_rows is {}, and this model takes windows whole (it gives no context_grain); set "
        "data.tile_rows to 0",
        recipe.data.tile_rows);
  }
  if (parts == 1) return grain;
  if (!recipe.data.tokens.empty()) {
    fail(ErrorCode::kUnsupported,
         "parallel.context is {}, and only windows of volumes can be shared over workers, not "
         "data.tokens; set parallel.context to 1",
         parts);
  }
  if (grain == 0) {
    fail(ErrorCode::kUnsupported,
         "parallel.context is {}, and this model cannot share a window over workers (it gives no "
         "context_grain); set parallel.context to 1",
         parts);
  }
  for (size_t v = 0; v < recipe.data.volumes.size(); ++v) {
    const int64_t rows = recipe.data.window_of(v)[0];
    const int64_t pieces = (rows + grain - 1) / grain;
    if (pieces >= parts) continue;
    fail(
        ErrorCode::kInvalidArgument,
        "parallel.context is {}, and a window of {} rows can be cut into {} pieces along its first "
        "axis (of {} rows: a patch, or model.decoder_window patches); use a smaller context, patch "
        "or decoder_window, or a larger data.window",
        parts, rows, pieces, grain);
  }
  for (const auto& heads : model.shared_attention())
    tensor::peers_per_group(context_method(recipe), static_cast<int>(parts), heads.queries,
                            heads.keys);
  return grain;
}

/// Parameters, gradient and moments of one worker, against what the machine has left.
void check_memory(const recipe::Recipe& recipe, int64_t parameters) {
  const double workers = static_cast<double>(recipe.parallel.workers);
  const auto strategy = parallel::parse_strategy(recipe.parallel.strategy);
  const double share = strategy == parallel::Strategy::kDdp ? 1.0 : 1.0 / workers;
  // The moments and the redo slot are shared; parameters and gradients where the strategy says so.
  double each = parallel::shards_parameters(strategy) ? std::max(1.0, 4 * share) : 2 + 3 * share;
  if (recipe.train.param_dtype == "bf16") each += 0.5 * share;
  const double needed = static_cast<double>(parameters) * 4 * each * workers;
  const auto available = static_cast<double>(runtime::available_memory());
  if (needed > available) {
    fail(ErrorCode::kResourceExhausted,
         "the model's {} parameters need {} of training state on this machine, and {} is "
         "available; use a smaller model, fewer workers here, or parallel.strategy zero3",
         format_count(static_cast<double>(parameters)), format_bytes(needed),
         format_bytes(available));
  }
}

}  // namespace

Trainer::Trainer(const recipe::Recipe& recipe, comm::Endpoint& endpoint,
                 std::shared_ptr<TrainingData> data)
    : recipe_(recipe),
      strategy_(engine_strategy(recipe)),
      endpoint_(endpoint),
      model_(make_model(recipe)),
      data_(data ? std::move(data) : TrainingData::open(recipe, checked_grain(recipe, *model_))) {
  lay_out();
  callbacks_ = model::make_job_callbacks(model_);
}

Trainer::~Trainer() = default;

void Trainer::reopen_data() {
  data_ = TrainingData::open(recipe_, checked_grain(recipe_, *model_));
}

void Trainer::lay_out() {
  std::vector<parallel::ParameterSlot> slots;
  std::vector<torch::Tensor> parameters;
  std::unordered_set<const void*> seen;  // a tied parameter has several names; the first one counts
  int64_t total = 0;
  for (const auto& item : model_->named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    if (!item.value().requires_grad()) {
      fixed_.emplace_back(item.key(), item.value());
      continue;
    }
    slots.push_back(
        {item.key(), item.value().sizes().vec(), 0, 0, model_->decays(item.key(), item.value())});
    parameters.push_back(item.value());
    total += item.value().numel();
  }
  if (total == 0) fail(ErrorCode::kInvalidArgument, "the model has no trainable parameter");
  for (const auto& item : model_->named_buffers()) fixed_.emplace_back(item.key(), item.value());
  check_memory(recipe_, total);
  const parallel::FlatLayout layout(std::move(slots), static_cast<int>(recipe_.parallel.shards));
  const parallel::Kept kept = kept_parameters(recipe_);
  const bool gathers = kept == parallel::Kept::kHeld;
  state_ = std::make_unique<parallel::ShardedState>(layout, endpoint_, kept,
                                                    recipe_.train.param_dtype == "bf16"
                                                        ? parallel::ParameterType::kBf16
                                                        : parallel::ParameterType::kFp32);
  gradients_ = std::make_unique<parallel::GradientBuffers>(
      layout, parallel::make_buckets(layout, recipe_.parallel.bucket_bytes), endpoint_,
      static_cast<int32_t>(recipe_.units()));
  for (size_t k = 0; k < parameters.size(); ++k) {
    if (!gathers) {
      const auto& slot = layout.slots()[k];
      const torch::Tensor view =
          torch::from_blob(state_->parameters().data() + slot.offset, slot.shape, torch::kFloat32);
      torch::NoGradGuard guard;
      view.copy_(parameters[k]);
      parameters[k].set_data(view);
    }
    hooks_.push_back(std::make_unique<tensor::GradientHook>(
        parameters[k], [this, k](const torch::Tensor& gradient) {
          gradients_->deliver(k, gradient.data_ptr<float>());
        }));
  }
  if (gathers)
    gathered_ = std::make_unique<parallel::GatheredParameters>(*state_, std::move(parameters));
}

tensor::BlockPolicy Trainer::block_policy() const {
  return {gathered_.get(),
          recipe_.parallel.strategy == "fsdp" && !recipe_.parallel.reshard_after_forward,
          recipe_.train.activation_checkpointing};
}

double Trainer::compute(int64_t unit) {
  runtime::count_progress();
  const model::Batch batch = data_->unit(unit);
  runtime::count_progress();
  const auto context = scope_of(peers_.get(), recipe_);
  const tensor::BlockScope blocks(block_policy());
  const torch::Tensor loss = model_->loss(batch);
  loss.backward();
  return loss.item<double>();
}

void Trainer::warm_up() {
  model::Batch batch = data_->unit((recipe_.train.steps - 1) * recipe_.units());
  for (int64_t& number : batch.sample_numbers) number += kFirstWarmUpNumber;
  if (batch.tiles)  // the first one is enough
    batch.tiles->shape[0] = std::min(batch.tiles->shape[0], batch.tiles->rows);
  // What is passed on in a step is let go of here.
  const bool keep = parallel::keeps_sums(strategy_);
  gradients_->begin(0, false, [&](size_t bucket) {
    if (!keep) gradients_->release(gradients_->take(bucket));
  });
  const tensor::BlockScope blocks(block_policy());
  model_->loss(batch).backward();
  gradients_->end();
  gradients_->clear();
}

double Trainer::validate(parallel::StepEngine& engine, Step step) {
  const LongPhase phase(cluster::StepPhase::kValidation);
  torch::NoGradGuard guard;
  model_->eval();
  const auto context = scope_of(peers_.get(), recipe_);
  const tensor::BlockScope blocks(block_policy());
  const int64_t parts = recipe_.parallel.context;
  const auto losses = engine.spread(step, data_->validation_size() * parts, [&](int64_t unit) {
    return model_->loss(data_->validation_part(unit / parts, unit % parts)).item<double>();
  });
  model_->train();
  double sum = 0;
  for (double loss : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

bool Trainer::due(int64_t every, Step step) const {
  return every > 0 && (step.value() % every == 0 || step.value() == recipe_.train.steps);
}

double Trainer::learning_rate_of(Step step, int32_t units) const {
  return learning_rate(recipe_, step, units / recipe_.parallel.context);
}

parallel::UpdateRule Trainer::rule(Step step, int32_t units) const {
  const recipe::OptimizerRecipe& optimizer = recipe_.train.optimizer;
  return {learning_rate_of(step, units), optimizer.beta1,        optimizer.beta2, optimizer.eps,
          optimizer.weight_decay,        recipe_.train.clip_norm};
}

protocol::StepDone Trainer::describe(const parallel::StepResult& result,
                                     Generation generation) const {
  protocol::StepDone done;
  done.generation = generation.value();
  done.step = result.step.value();
  done.applied = result.applied;
  done.loss = result.loss;
  done.gradient_norm = result.gradient_norm;
  done.learning_rate = learning_rate_of(result.step, result.micro_batches);
  done.batch = data_->first_sample(result.micro_batches);
  done.samples_seen = data_->first_sample(result.position) + done.batch;
  done.compute_seconds = result.compute_seconds;
  done.reduce_seconds = result.reduce_seconds + result.commit_seconds;
  done.gather_seconds = result.gather_seconds;
  done.communication_seconds = result.communication_seconds;
  done.sent_bytes = result.sent_bytes;
  done.resident_bytes = runtime::resident_memory();
  return done;
}

void Trainer::restore(parallel::StepEngine& engine, const cluster::Decision& decision) {
  engine.hold_shards();
  const Step step = decision.step;
  int64_t updates = 0;
  if (step.value() > 0) {
    const LongPhase phase(cluster::StepPhase::kCheckpoint);
    const Restored restored = load_(step);
    updates = restored.updates;
    const int64_t samples = data_->first_sample(decision.position);
    if (restored.samples_seen != samples) {
      fail(ErrorCode::kCorrupt,
           "the checkpoint of step {} says that {} samples were used up to it, and the operator's "
           "log that {} were",
           step.value(), restored.samples_seen, samples);
    }
  } else {
    if (gathered_ || progress_.parameters != Step(0)) fill_with_initial_parameters();
    for (int64_t c = 0; c < layout().chunk_count(); ++c) {
      if (!state_->holds(layout().shard_of(c))) continue;
      const auto length = static_cast<size_t>(layout().chunk(c).length);
      std::fill_n(state_->exp_avg(c), length, 0.0f);
      std::fill_n(state_->exp_avg_sq(c), length, 0.0f);
    }
  }
  engine.restored(step, updates);
}

void Trainer::fill_with_initial_parameters() {
  // Initial values are a function of the seed: a fresh model has them.
  const bool own = gathered_ && gathered_->has_initial();
  const auto fresh = own ? model_ : make_model(recipe_);
  const auto& named = fresh->named_parameters();
  for (size_t k = 0; k < layout().slots().size(); ++k) {
    const auto& slot = layout().slots()[k];
    const torch::Tensor values = named[slot.name].detach().contiguous();
    state_->set_parameters(slot.offset,
                           {values.data_ptr<float>(), static_cast<size_t>(slot.numel)});
    if (own) gathered_->let_go(k);  // there is never a second copy of all
  }
}

/// Of the next step, and then of those that this worker will compute if nothing changes.
void Trainer::expect_data(const parallel::StepEngine& engine, Step next) {
  const auto& assignment = engine.assignment();
  const auto& mine = assignment.computes[static_cast<size_t>(engine.rank().value())];
  std::vector<int64_t> numbers;
  int64_t position = progress_.position;
  const int64_t last = std::min(recipe_.train.steps, next.value() + TrainingData::kStepsAhead - 1);
  for (int64_t step = next.value(); step <= last; ++step) {
    for (int32_t m : mine) numbers.push_back(position + m);
    position += step == next.value() ? assignment.micro_batches : engine.later_micro_batches();
  }
  data_->expect(numbers);
}

parallel::StepResult Trainer::run_step(parallel::StepEngine& engine, Step step,
                                       TrainingListener& listener) {
  runtime::set_progress_step(step.value());
  if (peers_) peers_->begin_step(step);
  expect_data(engine, step);
  parallel::StepWork work;
  work.rule = rule(step, engine.assignment().micro_batches);
  work.compute = [&](int32_t m) { return compute(progress_.position + m); };
  work.wishes = [&] {
    return (listener.stop_requested() ? kWishStop : 0) |
           (listener.next_generation_announced() ? kWishNextGeneration : 0);
  };
  work.skips_gather = [&](const parallel::StepResult& result) {
    return leaves_generation(result) && step.value() < recipe_.train.steps;
  };
  return engine.run(step, work);
}

void Trainer::before_membership_change(const model::MembershipChange& change) {
  for (const auto& callback : callbacks_) callback->before_membership_change(change);
}

void Trainer::tell_committed(const parallel::StepResult& result, Generation generation) {
  if (result.step <= told_) return;  // rolled forward for others; this worker had done it
  told_ = result.step;
  model::CommittedStep step{result.step,          generation,     result.loss,
                            result.gradient_norm, result.applied, {}};
  const auto parts = static_cast<int32_t>(recipe_.parallel.context);
  for (int32_t u : result.contributed) {
    if (u % parts != 0) continue;  // a shared sample counts once
    for (int64_t i = 0; i < recipe_.train.micro_batch; ++i)
      step.contributed.push_back(data_->first_sample(result.position + u) + i);
  }
  for (const auto& callback : callbacks_) callback->on_commit(step);
}

std::unique_ptr<parallel::CommunicatorPeers> Trainer::peers_of(
    comm::Communicator& communicator, const model::MembershipChange& change) {
  const auto context = static_cast<int32_t>(recipe_.parallel.context);
  if (context == 1 || change.rank >= change.workers) return nullptr;
  // Units are dealt out in turn, so neighbours have the parts of one window at the same time.
  CRATON_CHECK(change.workers % context == 0, "{} workers in contexts of {}", change.workers,
               context);
  std::vector<Rank> ranks;
  const int32_t first = change.rank / context * context;
  for (int32_t r = first; r < first + context; ++r) ranks.push_back(Rank(r));
  return std::make_unique<parallel::CommunicatorPeers>(communicator, endpoint_, std::move(ranks));
}

Trainer::Outcome Trainer::train(comm::Communicator& communicator, const cluster::Decision& decision,
                                const model::MembershipChange& change, TrainingListener& listener) {
  using Clock = std::chrono::steady_clock;
  parallel::StepEngine engine(*state_, *gradients_, progress_, communicator, strategy_, decision,
                              change.workers);
  const Sharing sharing(peers_, peers_of(communicator, change));
  const bool leaving = change.rank >= change.workers;
  if (leaving) {
    for (const auto& callback : callbacks_) callback->on_drain(change);
  }
  if (decision.kind == cluster::DecisionKind::kRestore) restore(engine, decision);
  const Reading reading(gathered_.get(), engine.windows());
  const auto rolled = engine.enter(rule(decision.step, decision.micro_batches));
  told_ = std::min(told_, progress_.step);  // a loss may have gone back
  if (rolled) {
    if (leaving) return {Outcome::Kind::kLeft, ""};
    if (peers_) peers_->begin_step(rolled->step);
    tell_committed(*rolled, communicator.generation());
    protocol::StepDone done = describe(*rolled, communicator.generation());
    if (data_->validation_size() > 0 && due(recipe_.train.validate_every, rolled->step))
      done.validation_loss = validate(engine, rolled->step);
    listener.on_step(done);
  }
  if (!leaving) {
    for (const auto& callback : callbacks_) callback->after_membership_change(change);
  }
  bool stopped = false;
  while (progress_.step.value() < recipe_.train.steps && !stopped) {
    const Step next = progress_.step.next();
    const auto started = Clock::now();
    const double waited = data_->seconds_waited();
    const auto result = run_step(engine, next, listener);
    if (leaving) return {Outcome::Kind::kLeft, ""};
    tell_committed(result, communicator.generation());
    protocol::StepDone done = describe(result, communicator.generation());
    done.data_wait_seconds = data_->seconds_waited() - waited;
    done.seconds = std::chrono::duration<double>(Clock::now() - started).count();
    const bool last = next.value() == recipe_.train.steps;
    if (leaves_generation(result) && !last) {
      listener.on_step(done);
      return {Outcome::Kind::kNextGeneration, ""};
    }
    stopped = (result.any_wish & kWishStop) != 0 && !last;
    if (data_->validation_size() > 0 && (due(recipe_.train.validate_every, next) || stopped))
      done.validation_loss = validate(engine, next);
    listener.on_step(done);
    if (due(recipe_.checkpoint.every, next) || last || stopped) {
      const LongPhase phase(cluster::StepPhase::kCheckpoint);
      engine.compare_copies();
      if (save_) save_(communicator, engine.assignment());
    }
  }
  if (finish_ && change.rank == 0) {
    const LongPhase phase(cluster::StepPhase::kCheckpoint);
    const tensor::BlockScope blocks(block_policy());
    finish_();
  }
  return {stopped ? Outcome::Kind::kStopped : Outcome::Kind::kFinished,
          engine.state_digest(progress_.step)};
}

cluster::Report Trainer::report() const {
  return parallel::make_report(*state_, *gradients_, progress_, strategy_);
}

}  // namespace craton::train
