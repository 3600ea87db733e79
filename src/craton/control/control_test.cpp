#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <thread>

#include "craton/base/error.h"
#include "craton/control/job_folder.h"
#include "craton/control/operator_service.h"
#include "craton/control/worker_list.h"
#include "craton/protocol/agent_messages.h"

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
  OperatorService service(".", "", [&](const std::string& method, const std::string& request) {
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
  const OperatorService service(deep, "", [](const auto&, const auto&) { return std::string(); });
  EXPECT_EQ(service.address().find("ddd"), std::string::npos) << service.address();
}

TEST_F(Control, ALogThatCannotBeReadIsNamed) {
  make_job("demo", cluster::JobPhase::kTraining);
  ASSERT_EQ(read_operator_log("runs/demo")->sequence, 3u);
  EXPECT_FALSE(read_operator_log("runs"));
  runtime::write_file_atomically("runs/demo/operator.log", std::string_view("\xff\xff garbage"));
  const std::string error = error_of([] { read_operator_log("runs/demo"); });
  EXPECT_NE(error.find("runs/demo/operator.log cannot be read"), std::string::npos) << error;
  EXPECT_FALSE(inspect_job("runs/demo").log);
}

TEST_F(Control, AnAgentsStreamCarriesMessagesBothWaysUntilEitherEnds) {
  OperatorService service(".", "127.0.0.1:0", [](const auto&, const auto&) { return ""; });
  std::mutex mutex;
  std::condition_variable changed;
  int wakes = 0;
  const auto wake = [&] {
    std::lock_guard lock(mutex);
    ++wakes;
    changed.notify_all();
  };
  const auto await_wake = [&](const auto& holds) {
    std::unique_lock lock(mutex);
    while (!holds()) {
      const int before = wakes;
      changed.wait_for(lock, std::chrono::seconds(10), [&] { return wakes > before; });
      if (wakes == before) return false;
    }
    return true;
  };
  const auto await_service = [&](const auto& holds) {
    while (!holds()) {
      pollfd entry{service.fd(), POLLIN, 0};
      if (::poll(&entry, 1, 10000) != 1) return false;
      service.answer_waiting();
    }
    return true;
  };
  auto caller = rpc_module().open(service.agents(), std::string(protocol::kAttachMethod),
                                  std::chrono::seconds(10), wake);
  ASSERT_NE(caller, nullptr);
  std::vector<std::unique_ptr<RpcStream>> streams;
  ASSERT_TRUE(await_service([&] {
    streams = service.take_streams();
    return !streams.empty();
  }));
  RpcStream& agent = *streams.front();
  // More than either queue holds, and one that is large.
  const int count = 3 * static_cast<int>(RpcStream::kMostReceived);
  const std::string large(8 << 20, 'x');
  for (int k = 0; k < count; ++k) caller->send(std::to_string(k));
  caller->send(large);
  for (int k = 0; k <= count; ++k) {
    std::optional<std::string> message;
    ASSERT_TRUE(await_service([&] { return (message = agent.receive()).has_value(); })) << k;
    EXPECT_TRUE(*message == (k < count ? std::to_string(k) : large)) << k;
    if (k % 100 == 0) agent.send(*message);
  }
  for (int k = 0; k < count; k += 100) {
    std::optional<std::string> message;
    ASSERT_TRUE(await_wake([&] { return (message = caller->receive()).has_value(); })) << k;
    EXPECT_EQ(*message, std::to_string(k));
  }
  streams.clear();
  EXPECT_TRUE(await_wake([&] { return caller->ended(); }));
  caller->send("to nobody");
  EXPECT_EQ(rpc_module().open("127.0.0.1:9", "/a/B", std::chrono::milliseconds(50), wake), nullptr);
}

TEST_F(Control, NobodyThere) {
  EXPECT_NE(error_of([] { ask_status("unix:/nowhere/operator.sock"); }).find("does not answer"),
            std::string::npos);
}

}  // namespace
}  // namespace craton::control
