#include <fmt/format.h>

#include <memory>

#include "craton/app/cli/job_argument.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/control/operator_service.h"

namespace craton::app {
namespace {

struct ScaleOptions {
  std::string job;
  int workers = 0;
};

struct DrainOptions {
  std::string job, node;
  std::optional<int> rank;
  double deadline_seconds = 0;
  bool undo = false;
};

void drain(const DrainOptions& options) {
  const std::string address = find_operator(options.job);
  if (options.undo) {
    if (options.node.empty()) fail(ErrorCode::kInvalidArgument, "--undo needs --node");
    return print_or_fail(control::ask(address, cluster::UndrainRequested{options.node}));
  }
  cluster::DrainRequested request;
  request.node = options.node;
  if (options.deadline_seconds > 0)
    request.deadline = cluster::Duration(static_cast<int64_t>(options.deadline_seconds * 1000));
  if (options.rank) {
    const protocol::JobStatus status = control::ask_status(address);
    int members = 0;
    for (const auto& worker : status.workers) {
      if (worker.rank >= 0) ++members;
      if (worker.rank == *options.rank) request.worker = worker.id;
    }
    if (!request.worker)
      fail(ErrorCode::kInvalidArgument, "{} has no rank {}; its ranks are 0 to {}", status.name,
           *options.rank, members - 1);
  }
  print_or_fail(control::ask(address, request));
}

}  // namespace

void add_scale(CLI::App& app) {
  auto options = std::make_shared<ScaleOptions>();
  CLI::App* verb = app.add_subcommand(
      "scale", "Change the number of workers of a running job; its results stay the same");
  add_job_argument(*verb, options->job);
  verb->add_option("--workers,-n", options->workers, "How many workers it shall have")
      ->required()
      ->check(CLI::Range(1, 4096));
  verb->footer(
      "New workers start beside the job and join at a step boundary; workers that go leave at "
      "one.\n"
      "The batch stays as it is, so the bits of the result do not change.\n\n"
      "Example:\n  craton scale demo --workers 4");
  verb->callback([options] {
    print_or_fail(
        control::ask(find_operator(options->job), cluster::ScaleRequested{options->workers}));
  });
}

void add_drain(CLI::App& app) {
  auto options = std::make_shared<DrainOptions>();
  CLI::App* verb = app.add_subcommand(
      "drain", "Take a worker or a node out of a running job, at a step boundary and without loss");
  add_job_argument(*verb, options->job);
  auto* what = verb->add_option_group("what");
  what->add_option("--node", options->node, "All workers of this node; none starts there again");
  what->add_option("--rank", options->rank, "This worker; a new one takes its place")
      ->check(CLI::Range(0, 4095));
  what->require_option(1);
  verb->add_option("--deadline", options->deadline_seconds,
                   "Seconds until it will be taken away whatever happens")
      ->check(CLI::Range(0.0, 86400.0));
  verb->add_flag("--undo", options->undo, "The node may have workers again");
  verb->footer(
      "Examples:\n  craton drain demo --rank 2\n  craton drain demo --node host7 --deadline 30");
  verb->callback([options] { drain(*options); });
}

}  // namespace craton::app
