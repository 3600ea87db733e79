#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "craton/base/error.h"
#include "craton/control/job_folder.h"
#include "craton/control/operator_service.h"
#include "craton/control/worker_list.h"
#include "craton/protocol/messages.h"

namespace craton::control {
namespace {
namespace fs = std::filesystem;

/// In a folder of its own, as a user's shell would be.
class Control : public testing::Test {
 protected:
  Control() : before_(fs::current_path()) { fs::current_path(folder_.path()); }
  ~Control() override { fs::current_path(before_); }

  static void make_job(const std::string& name, cluster::JobPhase phase,
                       const std::string& reason = "") {
    const fs::path run = fs::path("runs") / name;
    fs::create_directories(run);
    runtime::write_file_atomically(
        run / "recipe.yaml",
        std::string_view("data: {volumes: [{uri: a}], window: [8, 8]}\ntrain: {steps: 7}\n"));
    cluster::LogRecord log;
    log.sequence = 3;
    log.phase = phase;
    log.reason = reason;
    runtime::write_file_atomically(run / "operator.log",
                                   std::string_view(protocol::encode_log(log)));
  }
  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  runtime::TemporaryDirectory folder_;
  const fs::path before_;
};

TEST_F(Control, AJobIsFoundByNameOrFolder) {
  EXPECT_NE(error_of([] { find_job("demo"); }).find("no job has run here"), std::string::npos);
  make_job("demo", cluster::JobPhase::kFinished);
  make_job("other", cluster::JobPhase::kFailed, "disk full");
  EXPECT_EQ(find_job("demo"), fs::path("runs/demo"));
  EXPECT_EQ(find_job("runs/demo"), fs::path("runs/demo"));
  EXPECT_NE(error_of([] { find_job("demmo"); }).find("did you mean 'demo'?"), std::string::npos);
  EXPECT_NE(error_of([] { find_job("zzzzzz"); }).find("craton jobs"), std::string::npos);
  EXPECT_EQ(list_jobs().size(), 2u);
}

TEST_F(Control, AFolderSaysWhatBecameOfItsJob) {
  make_job("done", cluster::JobPhase::kFinished);
  make_job("bad", cluster::JobPhase::kFailed, "disk full");
  make_job("cut", cluster::JobPhase::kTraining);
  EXPECT_EQ(describe(inspect_job("runs/done")), "finished");
  EXPECT_EQ(describe(inspect_job("runs/bad")), "failed: disk full");
  EXPECT_EQ(describe(inspect_job("runs/cut")), "interrupted");
  EXPECT_EQ(inspect_job("runs/cut").steps, 7);
  runtime::write_file_atomically("runs/cut/operator.log", std::string_view("\xff\xff\xff"));
  EXPECT_EQ(inspect_job("runs/cut").name, "cut");  // damaged, and still listed
}

TEST_F(Control, OneOperatorInAFolder) {
  make_job("demo", cluster::JobPhase::kTraining);
  EXPECT_FALSE(RunLock::held("runs/demo"));
  {
    const RunLock lock("runs/demo");
    EXPECT_TRUE(RunLock::held("runs/demo"));
    EXPECT_EQ(describe(inspect_job("runs/demo")), "training");
    EXPECT_NE(error_of([] { RunLock("runs/demo"); }).find("a job runs there"), std::string::npos);
  }
  EXPECT_FALSE(RunLock::held("runs/demo"));
}

TEST_F(Control, OnlyLiveProcessesAreListed) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  write_worker_list(".", {{4, child, cluster::WorkerId(77)}, {5, 1 << 30, cluster::WorkerId(78)}});
  const auto live = live_workers(".");
  ASSERT_EQ(live.size(), 1u);
  EXPECT_EQ(live[0].number, 4);
  EXPECT_EQ(live[0].id, cluster::WorkerId(77));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(live_workers(".").empty());
}

TEST_F(Control, CallsReachTheOperatorsThread) {
  const std::thread::id mine = std::this_thread::get_id();
  OperatorService service(".", [&](const std::string& method, const std::string& request) {
    EXPECT_EQ(std::this_thread::get_id(), mine);
    const auto event = protocol::decode_request(method, request, cluster::Instant(0));
    const int workers = std::get<cluster::ScaleRequested>(event).workers;
    return protocol::encode_answer({workers < 5, std::to_string(workers)});
  });
  std::vector<protocol::Answer> answers;
  std::string refused;
  std::atomic<bool> over{false};
  std::thread user([&] {
    answers.push_back(ask(service.address(), cluster::ScaleRequested{3}));
    answers.push_back(ask(service.address(), cluster::ScaleRequested{9}));
    refused = error_of([&] { ask_status(service.address()); });
    over = true;
  });
  while (!over) service.answer_waiting();
  user.join();
  EXPECT_EQ(answers, (std::vector<protocol::Answer>{{true, "3"}, {false, "9"}}));
  EXPECT_NE(refused.find("has no method"), std::string::npos) << refused;
}

TEST_F(Control, WhereThePathIsTooLongTheSocketLiesElsewhere) {
  const fs::path deep = fs::path(std::string(120, 'd')) / "with blanks";
  fs::create_directories(deep);
  const OperatorService service(deep, [](const auto&, const auto&) { return std::string(); });
  EXPECT_EQ(service.address().find("ddd"), std::string::npos) << service.address();
}

TEST_F(Control, NobodyThere) {
  EXPECT_NE(error_of([] { ask_status("unix:/nowhere/operator.sock"); }).find("does not answer"),
            std::string::npos);
}

}  // namespace
}  // namespace craton::control
