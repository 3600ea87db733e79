// Context parallelism: several workers share one window. Within one degree the bits do not depend
// on workers, strategy, transport or failures; between degrees and methods, which add up attention
// in another order, results agree.
#include <algorithm>
#include <cmath>
#include <map>

#include "craton/checkpoint/checkpoint.h"
#include "craton/results/metrics.h"
#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

class Context : public testing::Test {
 protected:
  static void SetUpTestSuite() { job_ = new TinyJob; }
  static void TearDownTestSuite() { delete job_; }

  static std::string digest(const std::string& name, int workers, int context,
                            std::vector<std::string> more = {},
                            std::vector<std::string> environment = {}) {
    more.push_back("parallel.context=" + std::to_string(context));
    return job_->digest(name, workers, more, std::move(environment));
  }
  static std::filesystem::path folder(const std::string& name) {
    return job_->program().folder() / "runs" / name;
  }
  static std::vector<results::StepMetrics> metrics(const std::string& name) {
    return results::read_metrics(folder(name) / "metrics.jsonl");
  }
  static std::string events(const std::string& name) {
    return runtime::read_text(folder(name) / "events.jsonl");
  }

  /// By parameter: all its elements in a run's last checkpoint.
  using Values = std::map<std::string, std::vector<float>>;
  static Values values(const std::string& name, checkpoint::StateKind kind) {
    const checkpoint::CheckpointReader reader(folder(name));
    Values all;
    for (const auto& entry : reader.manifest().parameters) {
      int64_t count = 1;
      for (const int64_t extent : entry.shape) count *= extent;
      auto& of_one = all[entry.name];
      of_one.resize(static_cast<size_t>(count));
      reader.read(kind, entry.name, 0, of_one);
    }
    return all;
  }

  /// Losses, norms and final parameters of two runs. `compared` says which elements are.
  template <typename Compared>
  static void expect_close(const std::string& name, const std::string& other, Compared compared) {
    const auto got = metrics(name), want = metrics(other);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i].loss, want[i].loss, 1e-6 * want[i].loss) << name << " step " << i + 1;
      EXPECT_NEAR(got[i].gradient_norm, want[i].gradient_norm, 1e-6 * want[i].gradient_norm)
          << name << " step " << i + 1;
      ASSERT_EQ(got[i].validation_loss.has_value(), want[i].validation_loss.has_value());
      if (want[i].validation_loss) {
        EXPECT_NEAR(*got[i].validation_loss, *want[i].validation_loss,
                    1e-6 * *want[i].validation_loss)
            << name << " step " << i + 1;
      }
    }
    const Values x = values(name, checkpoint::StateKind::kParameter);
    for (const auto& [parameter, y] : values(other, checkpoint::StateKind::kParameter)) {
      double largest = 0;
      for (size_t k = 0; k < y.size(); ++k) {
        if (compared(parameter, k))
          largest = std::max(largest, std::abs(static_cast<double>(x.at(parameter)[k]) - y[k]));
      }
      EXPECT_LE(largest, 1e-6) << name << " " << parameter;
    }
  }
  static void expect_close(const std::string& name, const std::string& other) {
    expect_close(name, other, [](const std::string&, size_t) { return true; });
  }

  static inline TinyJob* job_ = nullptr;
};

TEST_F(Context, BitsDependOnItsDegreeAlone) {
  const std::string two = digest("two", 2, 2);
  for (const std::string strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    EXPECT_EQ(digest("four-" + strategy, 4, 2, {"parallel.strategy=" + strategy}), two) << strategy;
  }
  EXPECT_EQ(digest("tcp", 2, 2, {"parallel.transport=tcp", "parallel.strategy=fsdp"}), two);
  EXPECT_EQ(digest("again", 2, 2, {"train.activation_checkpointing=true"}), two);
  // Save, and go on with twice the workers.
  const std::vector<std::string> saving = {"checkpoint.every=2"};
  EXPECT_EQ(digest("half", 2, 2, saving), two);
  std::filesystem::remove_all(folder("half") / "checkpoints" / "step-00000004");
  const auto resumed = job_->train("half", 4, {"checkpoint.every=2", "parallel.context=2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("goes on after step 2"), std::string::npos) << resumed.output;
  EXPECT_EQ(state_digest(resumed.output), two);
}

// Windows of 8 patches along the axis that is cut; 3 workers have 2, 3 and 3 of them.
TEST_F(Context, ResultsAgreeWithThoseOfOneWorker) {
  // With this epsilon an update is about proportional to its gradient, so that all of it counts.
  const std::vector<std::string> shape = {"data.window=[32, 16, 16]", "parallel.strategy=zero3",
                                          "train.optimizer.eps=0.001"};
  digest("one", 1, 1, shape);
  for (const int context : {2, 3, 4, 8}) {
    const std::string name = "ring-" + std::to_string(context);
    auto more = shape;
    if (context == 3) more.push_back("parallel.max_workers=9");
    digest(name, context, context, more);
    expect_close(name, "one");
  }
  for (const auto& [method, context] : {std::pair("ulysses", 2), std::pair("hybrid", 4)}) {
    auto more = shape;
    more.push_back(std::string("parallel.context_method=") + method);
    digest(method, context, context, more);
    expect_close(method, "one");
  }
  for (const int context : {1, 2}) {
    const std::string name = "tiles-" + std::to_string(context);
    auto more = shape;
    more.push_back("data.tile_rows=8");
    digest(name, context, context, more);
    expect_close(name, "one");
  }
}

// Adam divides a gradient by its size, plus epsilon. Where the first gradient is no larger than
// that (1e-8), its rounding decides on the size of the step: with the key biases, whose gradient is
// 0 but for rounding (a softmax does not change when all its logits grow by the same), and with the
// few elements out of 43,554 that have such a gradient by chance. All others agree.
TEST_F(Context, ResultsAgreeWithTheUsualEpsilon) {
  constexpr double kNoise = 3e-8;
  const std::vector<std::string> shape = {"data.window=[32, 16, 16]", "parallel.strategy=zero3"};
  auto first = shape;
  first.push_back("train.steps=1");
  digest("first", 1, 1, first);
  const Values moments = values("first", checkpoint::StateKind::kExpAvg);
  const auto is_noise = [&](const std::string& parameter, size_t k) {
    return std::abs(moments.at(parameter)[k]) < 0.1 * kNoise;  // 1 - beta1
  };
  size_t key_biases = 0, others = 0;
  for (const auto& [parameter, all] : moments) {
    for (size_t k = 0; k < all.size(); ++k) {
      if (!is_noise(parameter, k)) continue;
      const bool key = parameter.ends_with("qkv_bias") && k * 3 / all.size() == 1;
      ++(key ? key_biases : others);
    }
  }
  EXPECT_EQ(key_biases, 3u * 32);  // of the three blocks
  EXPECT_LE(others, 10u);
  digest("usual-one", 1, 1, shape);
  for (const int context : {2, 8}) {
    const std::string name = "usual-" + std::to_string(context);
    digest(name, context, context, shape);
    expect_close(name, "usual-one",
                 [&](const std::string& parameter, size_t k) { return !is_noise(parameter, k); });
  }
}

TEST_F(Context, AReplicaThatLosesAWorkerIsFormedAnew) {
  const std::string quiet = digest("quiet", 4, 2);
  struct Loss {
    std::string strategy, fault;
  };
  for (const Loss& loss : std::vector<Loss>{{"zero3", "compute.after:rank=1:step=2:kill"},
                                            {"zero1", "context.exchange:rank=3:step=3:kill"},
                                            {"ddp", "commit.after:rank=2:step=3:kill"}}) {
    const std::string name = "lost-" + loss.strategy;
    EXPECT_EQ(digest(name, 4, 2, {"parallel.strategy=" + loss.strategy, "parallel.backups=1"},
                     {"CRATON_FAULTS=" + loss.fault}),
              quiet)
        << name;
    EXPECT_NE(events(name).find("\"lost worker\""), std::string::npos) << name;
    EXPECT_NE(events(name).find("2 of 4 workers"), std::string::npos) << events(name);
    for (const auto& step : metrics(name)) EXPECT_EQ(step.workers % 2, 0) << step.step;
  }
}

// Three of four are left, and two share each window: the third waits beside the job, and the
// replacement of the lost one completes a second replica with it.
TEST_F(Context, WhoIsLeftOverCompletesTheNextReplica) {
  const std::vector<std::string> shape = {"train.steps=6", "parallel.context=2"};
  const std::string quiet = digest("quiet-six", 2, 2, shape);
  auto more = shape;
  more.insert(more.end(), {"parallel.strategy=zero3", "parallel.backups=1"});
  const std::filesystem::path hold = job_->program().folder() / "hold-left-over";
  const auto job = job_->start("left-over", 4, more,
                               {"CRATON_FAULTS=compute.after:rank=1:step=2:kill; "
                                "compute.before:rank=0:step=4:hold=" +
                                hold.string()});
  // The replacement sleeps while the other one is looked at.
  const auto replacement = [&]() -> pid_t {
    for (const auto& worker : job_->program().read_json("runs/left-over/workers.json")) {
      if (worker["number"] == 4) return worker["pid"];
    }
    return 0;
  };
  ASSERT_TRUE(job->await_events("lost worker"));
  ASSERT_TRUE(job->await([&] { return replacement() != 0; }));
  ::kill(replacement(), SIGSTOP);
  ASSERT_TRUE(job->await_events("rests"));
  ASSERT_TRUE(job->await_events("ready", 5));
  const auto status = job->verb("status");
  EXPECT_NE(status.output.find("spare"), std::string::npos) << status.output;
  const size_t generations = job->count("generation");
  ::kill(replacement(), SIGCONT);
  ASSERT_TRUE(job->await_events("generation", generations + 1));
  runtime::write_file_atomically(hold, "go");
  EXPECT_EQ(job->digest(), quiet);
  // It is the process that was there, and nobody else was started.
  const auto admitted = job->events("admitted");
  ASSERT_EQ(admitted.size(), 6u);
  const auto came_back = [&](const nlohmann::json& line) {
    return line["pid"] == job->events("rests").at(0)["pid"];
  };
  EXPECT_EQ(std::count_if(admitted.begin(), admitted.end(), came_back), 2);
  for (const auto& line : admitted) EXPECT_LE(line["number"], 4);
  EXPECT_EQ(job->count("lost worker"), 1u);
  EXPECT_EQ(job->metrics().back()["workers"], 4);
  EXPECT_EQ(job->result()["lost_steps"], 0);
}

TEST_F(Context, TheOnlyReplicaIsCompletedFromASpare) {
  const std::string quiet = digest("quiet-only", 2, 2);
  // The worker that is started as the spare has no faults, and may be a member: one of two has
  // them.
  EXPECT_EQ(digest("completed", 2, 2,
                   {"parallel.strategy=zero2", "parallel.backups=1", "parallel.spares=1"},
                   {"CRATON_FAULTS=context.exchange:rank=1:step=2:kill; "
                    "context.exchange:rank=0:step=3:kill"}),
            quiet);
  EXPECT_NE(events("completed").find("\"lost worker\""), std::string::npos);
  for (const auto& step : metrics("completed")) EXPECT_EQ(step.workers, 2) << step.step;
}

TEST_F(Context, WhatDoesNotFitIsSaid) {
  const auto rejected = [&](const std::vector<std::string>& overrides, int workers,
                            const std::string& text) {
    const auto result = job_->train("bad", workers, overrides);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE((result.errors + result.output).find(text), std::string::npos)
        << result.errors << result.output;
  };
  rejected({"parallel.context=2", "train.micro_batch=2"}, 2, "train.micro_batch must be 1");
  rejected({"parallel.context=2"}, 3, "must be a multiple of parallel.context (2)");
  rejected({"parallel.context=5", "parallel.max_workers=5"}, 5,
           "a window of 16 rows can be cut into 4 pieces along its first axis");
  rejected({"parallel.context=4", "parallel.context_method=ulysses"}, 4,
           "an attention of 2 heads (2 of keys) cannot be shared out among 4 workers by heads");
}

}  // namespace
}  // namespace craton::tests
