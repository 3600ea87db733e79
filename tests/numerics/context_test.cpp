// Context parallelism: several workers share one window. Within one degree the bits do not depend
// on workers, strategy, transport or failures; between degrees and methods, which add up attention
// in another order, results agree.
#include <algorithm>
#include <cmath>

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

  /// Losses, norms and final parameters of two runs.
  static void expect_close(const std::string& name, const std::string& other) {
    const auto got = metrics(name), want = metrics(other);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i].loss, want[i].loss, 2e-6 * want[i].loss) << name << " step " << i + 1;
      EXPECT_NEAR(got[i].gradient_norm, want[i].gradient_norm, 2e-5 * want[i].gradient_norm)
          << name << " step " << i + 1;
      ASSERT_EQ(got[i].validation_loss.has_value(), want[i].validation_loss.has_value());
      if (want[i].validation_loss) {
        EXPECT_NEAR(*got[i].validation_loss, *want[i].validation_loss,
                    2e-6 * *want[i].validation_loss)
            << name << " step " << i + 1;
      }
    }
    const checkpoint::CheckpointReader a(folder(name)), b(folder(other));
    double largest = 0;
    for (const auto& entry : a.manifest().parameters) {
      int64_t count = 1;
      for (const int64_t extent : entry.shape) count *= extent;
      std::vector<float> x(static_cast<size_t>(count)), y(x.size());
      a.read(checkpoint::StateKind::kParameter, entry.name, 0, x);
      b.read(checkpoint::StateKind::kParameter, entry.name, 0, y);
      for (size_t k = 0; k < x.size(); ++k)
        largest = std::max(largest, std::abs(static_cast<double>(x[k]) - y[k]));
    }
    EXPECT_LE(largest, 1e-6) << name;
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
  // With this epsilon an update is about proportional to its gradient. With a small one Adam makes
  // steps of the size of the learning rate from rounding, where the true gradient is 0 (key
  // biases).
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
