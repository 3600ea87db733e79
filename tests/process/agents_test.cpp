// Workers on nodes of their own: agents attach over the network, go, come back, and so does the
// operator. The results stay those of a job on one machine.

#include <signal.h>

#include <map>
#include <thread>

#include "tests/servers/delay_proxy.h"
#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

constexpr const char* kSteps = "train.steps=40";

class Agents : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {kSteps});
  }
  static void TearDownTestSuite() { delete job_; }

  /// An operator without workers of its own.
  static std::unique_ptr<LiveJob> start(const std::string& name, int workers,
                                        std::vector<std::string> overrides = {}) {
    overrides.insert(overrides.begin(), {kSteps, "--listen", "127.0.0.1:0"});
    return job_->start(name, workers, overrides);
  }
  static std::string address(LiveJob& job) {
    std::string found;
    EXPECT_TRUE(job.await([&] {
      std::ifstream file(job.folder() / "operator.json");
      const auto json = nlohmann::json::parse(file, nullptr, false);
      if (!json.is_discarded()) found = json.value("agents", "");
      return !found.empty();
    }));
    return found;
  }
  static std::unique_ptr<runtime::RunningProgram> agent_at(
      const std::string& address, const std::string& node, std::vector<std::string> more = {},
      std::vector<std::string> environment = {}) {
    more.insert(more.begin(), {"agent", address, "--node", node});
    return job_->program().start(more, std::move(environment));
  }
  static std::unique_ptr<runtime::RunningProgram> agent(LiveJob& job, const std::string& node,
                                                        std::vector<std::string> more = {}) {
    return agent_at(address(job), node, std::move(more));
  }
  /// Workers of a node, as its agent lists them.
  static std::vector<pid_t> workers_of(const LiveJob& job, const std::string& node) {
    std::vector<pid_t> out;
    std::ifstream file(job.folder() / "nodes" / node / "workers.json");
    const auto list = nlohmann::json::parse(file, nullptr, false);
    if (list.is_array())
      for (const auto& worker : list) out.push_back(worker["pid"]);
    return out;
  }
  static runtime::ProgramResult end_of(runtime::RunningProgram& program) {
    const auto result = program.wait(std::chrono::minutes(2));
    EXPECT_TRUE(result);
    return result.value_or(runtime::ProgramResult{});
  }
  static void expect_one_line(const runtime::ProgramResult& result, const std::string& words) {
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(words), std::string::npos) << result.errors;
  }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(Agents, WorkersOfTwoNodesTrainOverTcp) {
  const auto job =
      start("two", 4, {"parallel.strategy=zero1", "parallel.backups=1", "parallel.transport=tcp"});
  const auto a = agent(*job, "node-a", {"--slots", "3"}),
             b = agent(*job, "node-b", {"--slots", "3"});
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(end_of(*a).exit_code, 0);
  EXPECT_EQ(end_of(*b).exit_code, 0);
  EXPECT_EQ(job->result()["lost_steps"], 0);
  EXPECT_FALSE(std::filesystem::is_empty(job->folder() / "nodes/node-a"));
  EXPECT_FALSE(std::filesystem::is_empty(job->folder() / "nodes/node-b"));
}

TEST_F(Agents, ALostNodeIsReplacedByAnother) {
  const auto job = start(
      "lost-node", 2, {"parallel.strategy=zero1", "parallel.backups=1", "parallel.min_workers=1"});
  const auto a = agent(*job, "node-a", {"--slots", "1"}),
             b = agent(*job, "node-b", {"--slots", "1"});
  ASSERT_TRUE(job->await_step(3));
  // The whole node: agent and workers.
  const auto workers = workers_of(*job, "node-b");
  ASSERT_EQ(workers.size(), 1u);
  b->signal(SIGKILL);
  for (pid_t worker : workers) ::kill(worker, SIGKILL);
  ASSERT_TRUE(job->await_events("lost worker"));
  const auto c = agent(*job, "node-c", {"--slots", "1"});
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(job->result()["lost_steps"], 0);
}

TEST_F(Agents, AnAgentThatComesBackFindsItsWorkers) {
  const auto job = start("agent-killed", 2);
  auto a = agent(*job, "node-a", {"--slots", "2"});
  ASSERT_TRUE(job->await_step(3));
  a->signal(SIGKILL);
  end_of(*a);
  const auto again = agent(*job, "node-a", {"--slots", "2"});
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(end_of(*again).exit_code, 0);
  EXPECT_EQ(nlohmann::json(job->events("lost worker")), nlohmann::json::array());
  EXPECT_EQ(job->events("admitted").size(), 2u) << "a worker was started anew";
}

TEST_F(Agents, AnOperatorThatComesBackFindsItsAgents) {
  const auto job = start("operator-killed", 2, {"parallel.strategy=zero2", "parallel.backups=1"});
  const auto a = agent(*job, "node-a", {"--slots", "1"}),
             b = agent(*job, "node-b", {"--slots", "1"});
  ASSERT_TRUE(job->await_step(3));
  job->kill_operator();
  job->resume();
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(end_of(*a).exit_code, 0);
  EXPECT_EQ(end_of(*b).exit_code, 0);
  EXPECT_EQ(job->result()["lost_steps"], 0);
  EXPECT_EQ(nlohmann::json(job->events("lost worker")), nlohmann::json::array());
  EXPECT_FALSE(job->events("operator").empty()) << "nothing was taken over";
}

// Its workers train on without knowing; once they are fenced they change nothing any more.
TEST_F(Agents, ANodeBehindABrokenNetworkIsReplacedAndTakenBackEmpty) {
  const auto job = start("cut-off", 2,
                         {"parallel.strategy=zero1", "parallel.backups=1", "parallel.min_workers=1",
                          "recovery.lease_seconds=5"});
  const std::string direct = address(*job);
  DelayProxy network(static_cast<uint16_t>(std::stoi(direct.substr(direct.rfind(':') + 1))),
                     std::chrono::milliseconds(0));
  const std::vector<std::string> slow = {"CRATON_FAULTS=compute.before:step=20:delay=6000"};
  const auto a = agent_at(direct, "node-a", {"--slots", "1"}, slow),
             b = agent_at("127.0.0.1:" + std::to_string(network.port()), "node-b", {"--slots", "1"},
                          slow);
  ASSERT_TRUE(job->await_step(19));
  network.cut(true);
  ASSERT_TRUE(job->await_events("lost worker"));
  network.cut(false);
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(end_of(*a).exit_code, 0);
  const auto end = end_of(*b);
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_EQ(job->result()["lost_steps"], 0);
  EXPECT_NE(job->events("lost worker")
                .front()["text"]
                .get<std::string>()
                .find("no heartbeat from node node-b"),
            std::string::npos);
}

TEST_F(Agents, ANodeThatIsToldToGoIsDrained) {
  const auto job = start("told-node", 2, {"parallel.min_workers=1"});
  const auto a = agent(*job, "node-a", {"--slots", "1"}),
             b = agent(*job, "node-b", {"--slots", "1"});
  ASSERT_TRUE(job->await_step(3));
  b->signal(SIGTERM);
  const auto gone = end_of(*b);
  EXPECT_EQ(gone.exit_code, 0) << gone.errors;
  EXPECT_NE(gone.output.find("all its workers have left"), std::string::npos) << gone.output;
  EXPECT_EQ(job->digest(), quiet_);
  EXPECT_EQ(nlohmann::json(job->events("lost worker")), nlohmann::json::array());
  EXPECT_EQ(job->events("left").size(), 1u);
}

TEST_F(Agents, WhatCannotBeIsSaid) {
  expect_one_line(job_->program().run({"agent", "127.0.0.1:9", "--wait", "0.1"}),
                  "no operator answers at 127.0.0.1:9");
  expect_one_line(job_->program().run({"agent", "here"}), "OPERATOR is HOST:PORT");
  expect_one_line(job_->program().run({"train", "tiny.yaml", "--listen", "many"}),
                  "--listen takes [HOST:]PORT");
  const auto job = start("named", 1);
  const auto a = agent(*job, "node-a");
  ASSERT_TRUE(job->await_step(1));
  const auto twin = agent(*job, "node-a");
  expect_one_line(end_of(*twin), "node node-a has an agent already");
  expect_one_line(
      job_->program().run({"train", "tiny.yaml", "name=same-port", "--listen", address(*job)}),
      "cannot listen for agents at");
  EXPECT_EQ(job->digest(), quiet_);
}

}  // namespace
}  // namespace craton::tests
