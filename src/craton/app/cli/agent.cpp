#include <unistd.h>

#include <memory>
#include <string>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/control/remote_agent.h"

namespace craton::app {
namespace {

struct AgentArguments {
  std::string address, node, host;
  int slots = 0;
  double wait_seconds = 600, grace_seconds = 60;
};

std::string host_name() {
  char host[256] = "localhost";
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

void run_agent(const AgentArguments& arguments) {
  if (arguments.address.find(':') == std::string::npos)
    fail(ErrorCode::kInvalidArgument,
         "OPERATOR is HOST:PORT, as `craton train --listen` prints it; found '{}'",
         arguments.address);
  const Interrupt interrupt;
  control::RemoteAgentOptions options;
  options.operator_address = arguments.address;
  options.node = arguments.node.empty() ? host_name() : arguments.node;
  options.slots = arguments.slots;
  options.host = arguments.host;
  options.patience = std::chrono::milliseconds(static_cast<int64_t>(1000 * arguments.wait_seconds));
  options.grace = std::chrono::milliseconds(static_cast<int64_t>(1000 * arguments.grace_seconds));
  options.told_to_go = [&] { return interrupt.flag().load(); };
  options.say = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  const protocol::EndAgent end = control::run_remote_agent(options);
  if (end.failed) fail(ErrorCode::kCancelled, "{}", end.reason);
  fmt::print("{}\n", end.reason.empty() ? "the job is over" : end.reason);
}

}  // namespace

void add_agent(CLI::App& app) {
  auto arguments = std::make_shared<AgentArguments>();
  CLI::App* verb = app.add_subcommand(
      "agent", "Run workers on this node for a job whose operator is on another one");
  verb->add_option("operator", arguments->address,
                   "HOST:PORT, as `craton train --listen` prints it")
      ->required();
  verb->add_option("--node", arguments->node,
                   "Name of this node, its failure domain; default: the host's name");
  verb->add_option(
          "--slots", arguments->slots,
          "So many workers at most; default: this machine's processors divided by the recipe's "
          "threads")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--host", arguments->host,
                   "Numeric address at which the other nodes reach this one; default: that from "
                   "which the operator is reached");
  verb->add_option("--wait", arguments->wait_seconds,
                   "Seconds to wait for an operator that is not there yet")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  verb->add_option("--grace", arguments->grace_seconds,
                   "Seconds that workers have to leave after SIGTERM")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  verb->footer(
      "The job's folder, its recipe's local paths and the programs must be the same on all nodes "
      "(a shared file system).\n"
      "SIGTERM and Ctrl-C drain the node: its workers leave at a step boundary, then the agent "
      "ends. When the operator is gone,\n"
      "workers go on, and the agent looks for it until recovery.orphan_seconds have passed.\n\n"
      "Examples:\n"
      "  craton train recipes/sfm-demo.yaml --listen 7077     # on one node\n"
      "  craton agent node-0:7077 --slots 8                   # on each node\n"
      "  srun craton agent node-0:7077");
  verb->callback([arguments] { run_agent(*arguments); });
}

}  // namespace craton::app
