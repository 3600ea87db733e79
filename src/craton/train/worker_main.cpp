#include "craton/train/worker_main.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/log.h"
#include "craton/cluster/failure_detector.h"
#include "craton/runtime/memory.h"
#include "craton/runtime/progress_page.h"
#include "craton/tensor/fingerprint.h"
#include "craton/tensor/threads.h"
#include "craton/train/agent_link.h"
#include "craton/train/checkpointing.h"
#include "craton/train/peak_flops.h"
#include "craton/train/predict_main.h"
#include "craton/train/run_figures.h"
#include "craton/train/trainer.h"

namespace craton::train {
namespace {

comm::TransportChoice transport_of(const std::string& name) {
  if (name == "shared_memory") return comm::TransportChoice::kSharedMemory;
  if (name == "tcp") return comm::TransportChoice::kTcp;
  return comm::TransportChoice::kAuto;
}

void set_progress_phase(cluster::StepPhase phase) {
  runtime::set_progress_phase(static_cast<uint32_t>(phase));
}

std::string node_name() {
  if (const char* name = std::getenv("CRATON_NODE")) return name;
  char name[256] = "localhost";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

std::atomic<bool> g_told_to_go{false};

/// SIGTERM: a scheduler takes this worker away. It asks to be drained; a second one ends it.
void catch_termination() {
  struct sigaction action = {};
  action.sa_handler = [](int) { g_told_to_go = true; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

comm::Group to_group(const cluster::Membership& membership, Rank self) {
  comm::Group group;
  group.generation = membership.generation;
  group.self = self;
  for (const auto& member : membership.members) {
    const auto a = protocol::parse_address(member.worker.address);
    group.members.push_back({a.incarnation, a.host_id, a.local_socket, a.tcp_host, a.tcp_port});
  }
  return group;
}

/// One training process from its first word to its agent to its last: through all generations that
/// it is a member of.
class Worker : private TrainingListener {
 public:
  Worker(const recipe::Recipe& recipe, const std::string& agent_folder, int control_socket,
         int number, int progress_fd)
      : recipe_(recipe),
        number_(number),
        progress_fd_(progress_fd),
        endpoint_(std::make_shared<comm::Endpoint>(endpoint_options(recipe))),
        link_(control_socket, link_options(recipe, agent_folder),
              [this](Generation next) { endpoint()->fence(next); }) {}

  void run() {
    build();
    introduce();
    while (serve_generation()) {
      const bool told_to = link_.take_begin_anew();
      if (std::exchange(rests_, false) || told_to) begin_anew();
    }
  }

  AgentLink& link() { return link_; }
  bool has_done_a_step() const { return has_done_a_step_; }

 private:
  static comm::EndpointOptions endpoint_options(const recipe::Recipe& recipe) {
    comm::EndpointOptions options;
    options.transport = transport_of(recipe.parallel.transport);
    if (const char* host = std::getenv("CRATON_HOST"); host != nullptr) {
      options.listen_host = "";
      options.advertise_host = host;
    }
    return options;
  }

  static AgentLinkOptions link_options(const recipe::Recipe& recipe,
                                       const std::string& agent_folder) {
    return {agent_folder, milliseconds(recipe.recovery.orphan_seconds),
            [] { return g_told_to_go.load(); }, milliseconds(recipe.elastic.grace_seconds)};
  }

  /// Used by the thread that trains, and by the one that hears of the next generation.
  std::shared_ptr<comm::Endpoint> endpoint() {
    std::lock_guard lock(endpoint_mutex_);
    return endpoint_;
  }

  /// As a new worker with new connections, in the same process.
  void begin_anew() {
    const auto data = recipe_.recovery.data_cache ? trainer_->shared_data() : nullptr;
    saver_.reset();
    trainer_.reset();
    {
      std::lock_guard lock(endpoint_mutex_);
      endpoint_ = std::make_shared<comm::Endpoint>(endpoint_options(recipe_));
    }
    took_part_in_ = Generation(0);
    workers_ = 0;
    build(data);
    introduce();
  }

  void build(std::shared_ptr<TrainingData> data = nullptr) {
    trainer_ = std::make_unique<Trainer>(recipe_, *endpoint_, std::move(data));
    const std::filesystem::path checkpoints = recipe_.checkpoint.path;
    saver_ = std::make_unique<CheckpointSaver>(
        *trainer_, checkpoints, [this](const protocol::CheckpointPart& part) { link_.send(part); });
    trainer_->set_checkpoint_writer(
        [this](comm::Communicator& communicator, const parallel::Assignment& assignment) {
          saver_->save(communicator, assignment);
        });
    trainer_->set_finisher([this] {
      save_run_figures(*trainer_, std::filesystem::path(recipe_.run_folder) / "figures");
    });
    trainer_->set_checkpoint_reader([this](Step step) {
      return load_checkpoint(*trainer_, checkpoint_of(recipe_.checkpoint, step));
    });
  }

  void introduce() {
    trainer_->warm_up();
    const comm::PeerAddress& a = endpoint_->address();
    protocol::Hello hello;
    id_ = cluster::WorkerId(a.incarnation);
    hello.worker = {
        id_, node_name(),
        protocol::to_text({a.incarnation, a.host_id, a.local_socket, a.tcp_host, a.tcp_port}),
        tensor::fingerprint()};
    hello.parameters = trainer_->layout().numel();
    hello.tokens_per_sample = trainer_->model().tokens_per_sample();
    hello.training_flops_per_sample = 3 * trainer_->model().forward_flops_per_sample();
    hello.peak_flops = measure_peak_flops() * static_cast<double>(recipe_.threads);
    hello.data = trainer_->data().describe();
    hello.pid = ::getpid();
    hello.number = number_;
    hello.progress_fd = progress_fd_;
    link_.introduce(hello);
  }

  /// Reports, carries out the decision, trains. False when this worker's work is over.
  bool serve_generation() {
    set_progress_phase(cluster::StepPhase::kFenced);
    const auto heard = link_.await_membership(generation_);
    if (!heard) return true;
    const cluster::Membership& membership = *heard;
    generation_ = membership.generation;
    const auto rank = cluster::rank_of(membership.members, id_);
    CRATON_FAULT_POINT("report.before");
    model::MembershipChange change{generation_, membership.planned, rank ? rank->value() : -1,
                                   cluster::training_members(membership.members), workers_};
    if (took_part_in_ > Generation(0)) trainer_->before_membership_change(change);
    cluster::Report report = trainer_->report();
    report.worker = id_;
    report.generation = generation_;
    report.took_part_in = took_part_in_;
    link_.send(report);
    CRATON_FAULT_POINT("report.after");
    if (!rank) return true;  // fenced: waits to be stopped
    link_.took_part(generation_);
    const auto decision = link_.await_decision(generation_);
    if (!decision) return true;
    if (!membership.planned && took_part_in_ > Generation(0) && !recipe_.recovery.data_cache)
      trainer_->reopen_data();
    set_progress_phase(cluster::StepPhase::kCompute);
    set_log_name(fmt::format("rank {}", rank->value()));
    if (took_part_in_ == Generation(0)) set_fault_rank(rank->value());
    try {
      CRATON_FAULT_POINT("admit.before");
      const auto communicator = endpoint_->join(to_group(membership, *rank));
      CRATON_FAULT_POINT("admit.after");
      communicator->set_timeout(milliseconds(recipe_.parallel.timeout_seconds));
      took_part_in_ = generation_;
      workers_ = change.workers;
      const bool left_over = membership.members[rank->value()].role == cluster::Role::kLeftOver;
      return conclude(trainer_->train(*communicator, *decision, change, *this), left_over);
    } catch (const Error& e) {
      if (e.reaction() != Reaction::kReconfigure) throw;
      log_info("generation {} is over: {}", generation_.value(), e.what());
      return true;
    }
  }

  bool conclude(const Trainer::Outcome& outcome, bool left_over) {
    using Kind = Trainer::Outcome::Kind;
    if (outcome.kind == Kind::kLeft) {
      link_.send(protocol::Left{generation_.value(), left_over});
      rests_ = left_over;
      return left_over;
    }
    if (outcome.kind == Kind::kNextGeneration) return true;
    saver_->wait();
    link_.send(protocol::Done{trainer_->progress().step.value(), outcome.state_sha256,
                              outcome.kind == Kind::kStopped});
    return true;  // stays until it is stopped: others may still need its copies
  }

  void on_step(const protocol::StepDone& step) override {
    has_done_a_step_ = true;
    link_.send(step);
  }
  bool stop_requested() override { return link_.stop_requested(); }
  bool next_generation_announced() override { return link_.heard_of_next(generation_); }

  const recipe::Recipe recipe_;
  const int number_, progress_fd_;
  std::mutex endpoint_mutex_;
  std::shared_ptr<comm::Endpoint> endpoint_;
  AgentLink link_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<CheckpointSaver> saver_;
  cluster::WorkerId id_;
  Generation generation_{0}, took_part_in_{0};
  int workers_ = 0;     // that trained in the last generation that this worker took part in
  bool rests_ = false;  // left over by the last generation: a new worker beside the job
  std::atomic<bool> has_done_a_step_{false};
};

constexpr const char* kOutOfMemory =
    "the model and its training state do not fit in this machine's memory; use a smaller model or "
    "micro-batch, fewer workers on this machine, or "
    "parallel.strategy zero3";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Private memory beyond this worker's share of the machine is refused at the allocation, where it
/// can be explained, not by the kernel's killer.
void limit_memory(const recipe::Recipe& recipe) {
  constexpr uint64_t kAllowance = uint64_t{1} << 30;
  const uint64_t share =
      runtime::available_memory() / static_cast<uint64_t>(recipe.parallel.workers) + kAllowance;
  const rlimit limit{share, share};
  ::setrlimit(RLIMIT_DATA, &limit);
}

/// Errors that another worker would run into as well: what was asked for is wrong, or there is not
/// enough of something that all share.
bool stops_any_worker(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
    case ErrorCode::kUnsupported:
    case ErrorCode::kPermission:
    case ErrorCode::kResourceExhausted:
    case ErrorCode::kOutOfRange:
      return true;
    default:
      return false;
  }
}

/// What stopped a worker, in words for its user. An error in the model's own code ends the job when
/// it comes before the first step is done; later it may be this worker's trouble, and another one
/// tries.
protocol::Failed explain(const std::exception_ptr& error, bool has_done_a_step) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return {e.what(), stops_any_worker(e.code())};
  } catch (const c10::Error& e) {
    const std::string what = e.what_without_backtrace();
    if (what.find("allocate memory") != std::string::npos) return {kOutOfMemory, true};
    return {first_line(what), !has_done_a_step};
  } catch (const std::bad_alloc&) {
    return {kOutOfMemory, true};
  } catch (const std::exception& e) {
    return {fmt::format("error in the model or in craton: {}", first_line(e.what())),
            !has_done_a_step};
  }
}

int list_fault_points() {
  for (const FaultPoint& point : fault_points())
    fmt::print("{:<26} {}\n", point.name, point.meaning);
  return 0;
}

}  // namespace

int worker_main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "predict") return predict_main(argc - 1, argv + 1);
  CLI::App app("One training process of a Craton job; started by `craton train`.", "craton-worker");
  std::string recipe_path, agent_folder;
  int control = -1, number = 0, progress = -1;
  bool list = false;
  app.add_option("--recipe", recipe_path, "The job's recipe, as the agent wrote it");
  app.add_option("--agent-folder", agent_folder, "Where the next agent can be found");
  app.add_option("--control-fd", control, "Socket to the agent");
  app.add_option("--number", number, "As the agent counts its workers");
  app.add_option("--progress-fd", progress, "Where this process says how far it is");
  app.add_flag("--list-fault-points", list,
               "Print the places where tests can make the worker fail (CRATON_FAULTS)");
  CLI11_PARSE(app, argc, argv);
  if (list) return list_fault_points();
  if (control < 0 || recipe_path.empty()) {
    std::fprintf(stderr, "craton-worker: is started by `craton train RECIPE`, not by hand\n");
    return 2;
  }
  // Ctrl-C in a terminal reaches the whole process group; it is the agent that decides what it
  // means.
  ::signal(SIGINT, SIG_IGN);
  catch_termination();
  runtime::publish_progress(progress);
  std::unique_ptr<Worker> worker;
  try {
    if (const char* faults = std::getenv("CRATON_FAULTS")) arm_faults(faults);
    const recipe::Recipe recipe = recipe::Recipe::load(recipe_path);
    limit_memory(recipe);
    tensor::set_threads(static_cast<int>(recipe.threads));
    worker = std::make_unique<Worker>(recipe, agent_folder, control, number, progress);
    worker->run();
    return 0;
  } catch (...) {
    const protocol::Failed failed =
        explain(std::current_exception(), worker && worker->has_done_a_step());
    std::fprintf(stderr, "craton-worker: %s\n", failed.message.c_str());
    try {
      if (worker) worker->link().send(failed);
    } catch (const Error&) {
    }
    ::_exit(1);  // the agent takes it from here; other threads may hold anything
  }
}

}  // namespace craton::train
