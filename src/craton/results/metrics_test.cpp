#include "craton/results/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/results/progress.h"
#include "craton/results/result.h"

namespace craton::results {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepMetrics sample(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.workers = 4;
  m.loss = 0.5 / static_cast<double>(step);
  m.gradient_norm = 0.82;
  m.learning_rate = 9.8e-4;
  m.seconds = 0.5;
  m.data_wait_seconds = 0.0015;
  m.memory_bytes = 3u << 29;
  m.communication_seconds = 0.25;
  m.sent_bytes = uint64_t{5} << 30;
  m.batch = 16;
  m.samples_seen = 16 * step;
  JobConstants job;
  job.tokens_per_sample = 256;
  job.training_flops_per_sample = 1e9;
  job.peak_flops_per_worker = 20e9;
  derive_rates(m, job);
  return m;
}

TEST(Metrics, RatesFollowFromSeconds) {
  const StepMetrics m = sample(1);
  EXPECT_DOUBLE_EQ(m.samples_per_second, 32);
  EXPECT_DOUBLE_EQ(m.tokens_per_second, 8192);
  EXPECT_DOUBLE_EQ(m.flops_per_second, 32e9);
  EXPECT_DOUBLE_EQ(m.peak_share, 0.4);
  EXPECT_DOUBLE_EQ(m.data_wait_share, 0.003);
  StepMetrics none;
  derive_rates(none, {});
  EXPECT_EQ(none.samples_per_second, 0);
}

TEST(Metrics, ConsoleLineHasWhatUsersKnow) {
  StepMetrics m = sample(12);
  EXPECT_EQ(console_line(m, 600),
            "step 12/600  loss 0.0417  grad_norm 0.82  lr 9.80e-04  32 samples/s  8.19 k tokens/s  "
            "32 GFLOP/s "
            "(40% of peak)  data wait 0.3%  1.5 GiB");
  m.validation_loss = 0.25;
  EXPECT_THAT(console_line(m, 600), HasSubstr("val_loss 0.2500"));
  m.applied = false;
  m.skipped_steps = 3;
  m.gradient_norm = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(console_line(m, 600), HasSubstr("*** SKIPPED"));
  EXPECT_THAT(console_line(m, 600), HasSubstr("gradient norm nan"));
  EXPECT_THAT(console_line(m, 600), HasSubstr("3 skipped so far"));
}

TEST(Metrics, FilesReadBackAndGoOn) {
  const runtime::TemporaryDirectory folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int64_t step = 1; step <= 5; ++step) {
      StepMetrics m = sample(step);
      if (step == 5) m.validation_loss = 0.75;
      if (step == 4) m.loss = std::numeric_limits<double>::infinity();
      file.append(m);
    }
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 6, \"loss\"";
  auto steps = read_metrics(path);
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_DOUBLE_EQ(steps[1].loss, 0.25);
  EXPECT_FALSE(steps[1].validation_loss.has_value());
  EXPECT_DOUBLE_EQ(*steps[4].validation_loss, 0.75);
  EXPECT_TRUE(std::isnan(steps[3].loss));
  EXPECT_EQ(steps[0].memory_bytes, 3u << 29);
  EXPECT_EQ(steps[0].communication_seconds, 0.25);
  EXPECT_EQ(steps[0].sent_bytes, uint64_t{5} << 30);
  EXPECT_EQ(steps[2].batch, 16);
  EXPECT_EQ(steps[2].samples_seen, 48);
  EXPECT_DOUBLE_EQ(steps[0].peak_share, 0.4);
  {
    MetricsFile file(path, 3);
    file.append(sample(4));
  }
  steps = read_metrics(path);
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_DOUBLE_EQ(steps[3].loss, 0.125);
  { MetricsFile file(path, 0); }
  EXPECT_TRUE(read_metrics(path).empty());
  EXPECT_TRUE(read_metrics(folder.path() / "none").empty());
  EXPECT_TRUE(read_newest_metrics(folder.path() / "none", 3).empty());
}

TEST(Metrics, JsonNamesAreStable) {
  const auto json = nlohmann::json::parse(json_line(sample(3)));
  for (const char* name : {"step", "loss", "grad_norm", "lr", "batch", "samples_per_second",
                           "tokens_per_second", "flops_per_second", "peak_share", "data_wait_share",
                           "memory_bytes", "skipped_steps", "applied", "workers", "generation"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_FALSE(json.contains("val_loss"));
}

TEST(Result, HasStableNames) {
  const runtime::TemporaryDirectory folder;
  Result result;
  result.steps = 50;
  result.train_loss = 0.5;
  result.state_sha256 = "ab";
  result.downtime_seconds = 1.5;
  write_result(folder.path() / "result.json", result);
  const auto json = nlohmann::json::parse(runtime::read_text(folder.path() / "result.json"));
  EXPECT_EQ(json["steps"], 50);
  EXPECT_EQ(json["train_loss"], 0.5);
  EXPECT_TRUE(json["val_loss"].is_null());
  EXPECT_EQ(json["state_sha256"], "ab");
  EXPECT_EQ(json["lost_steps"], 0);
  EXPECT_EQ(json["downtime_seconds"], 1.5);
  EXPECT_EQ(json["goodput"], 1.0);
  EXPECT_EQ(utc_now().size(), 20u);
}

/// What was written to a pipe by `action(fd)`.
template <typename Action>
std::string written(Action action) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  action(ends[1]);
  ::close(ends[1]);
  std::string out;
  char buffer[4096];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    out.append(buffer, static_cast<size_t>(n));
  ::close(ends[0]);
  return out;
}

TEST(Progress, BarFitsItsWidth) {
  ProgressState state{120, 600, 0.512, 85.3, 130};
  EXPECT_EQ(progress_bar(state, 80),
            "[#####......................]  120/600  loss 0.5120  85.3 samples/s  2m10s left");
  EXPECT_LT(progress_bar(state, 40).size(), 40u);
  EXPECT_EQ(progress_bar(state, 0), "");
  state.steps = 0;
  state.seconds_left = -1;
  EXPECT_THAT(progress_bar(state, 80), Not(HasSubstr("left")));
}

TEST(Progress, PlainLinesWhereThereIsNoTerminal) {
  const std::string out = written([](int fd) {
    Progress progress(fd, 25, 10);
    for (int64_t step = 1; step <= 25; ++step) progress.on_step(sample(step));
    progress.note("saved");
  });
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 5);
  for (const char* line : {"step 1/25", "step 10/25", "step 20/25", "step 25/25", "saved\n"})
    EXPECT_THAT(out, HasSubstr(line));
  EXPECT_EQ(out.find('\r'), std::string::npos);
}

TEST(Progress, TerminalsGetABarBelowLinesThatStay) {
  const std::string out = written([](int fd) {
    Progress progress(fd, 3, 1, true, 80);
    progress.on_step(sample(1));
    StepMetrics second = sample(2);
    second.validation_loss = 0.5;
    progress.on_step(second);
    progress.on_step(sample(3));
  });
  EXPECT_THAT(out, HasSubstr("\r\x1b[K[##"));
  EXPECT_THAT(out, HasSubstr("val_loss 0.5000"));
  EXPECT_THAT(out, HasSubstr("step 3/3"));
  EXPECT_THAT(out, Not(HasSubstr("step 1/3")));
  EXPECT_EQ(out.back(), '\n');
}

TEST(Metrics, TheNewestStepsComeFromTheEndOfALongFile) {
  const runtime::TemporaryDirectory folder;
  const auto path = folder.path() / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int64_t step = 1; step <= 200; ++step) {
      StepMetrics metrics;
      metrics.step = step;
      file.append(metrics);
    }
  }
  const auto newest = read_newest_metrics(path, 5);
  ASSERT_EQ(newest.size(), 5u);
  for (size_t k = 0; k < 5; ++k) EXPECT_EQ(newest[k].step, 196 + static_cast<int64_t>(k));
  EXPECT_EQ(read_newest_metrics(path, 500).size(), 200u);
}

}  // namespace
}  // namespace craton::results
