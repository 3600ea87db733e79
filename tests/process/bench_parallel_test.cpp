// `craton bench parallel` and `craton plan parallel`: what they measure is what their formulas say.

#include <map>

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

class BenchParallel : public testing::Test {
 protected:
  /// 2 workers, 4 micro-batches each, and parameters in some twenty chunks, so that both have about
  /// as many.
  std::map<std::string, nlohmann::json> rows(const std::string& transport) {
    const auto result = job_.program().run(
        {"bench", "parallel", "tiny.yaml", "--workers", "2", "--steps", "1", "--json", "bench.json",
         "model.dim=192", "model.decoder_dim=192", "parallel.transport=" + transport});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    output_ = result.output;
    std::map<std::string, nlohmann::json> out;
    const auto json = job_.program().read_json("bench.json");
    for (const auto& row : json["rows"]) out[row["strategy"].get<std::string>()] = row;
    return out;
  }

  TinyJob job_;
  std::string output_;
};

TEST_F(BenchParallel, WhatIsSentIsWhatTheFormulaSays) {
  for (const std::string transport : {"shared_memory", "tcp"}) {
    auto measured = rows(transport);
    ASSERT_EQ(measured.size(), 5u) << output_;
    for (const auto& [strategy, row] : measured) {
      const double sent = row["sent_bytes"], formula = row["formula_sent_bytes"];
      // Losses, the commit and acknowledgements come on top; shards are not quite of one size.
      EXPECT_NEAR(sent, formula, 0.1 * formula) << transport << " " << strategy;
      const double hidden = row["hidden_communication_share"];
      EXPECT_GE(hidden, 0) << strategy;
      EXPECT_LE(hidden, 1) << strategy;
      EXPECT_GT(row["efficiency"].get<double>(), 0) << strategy;
      EXPECT_GT(row["tokens_per_second"], 63 * row["samples_per_second"].get<double>());
      EXPECT_NE(output_.find(strategy + " "), std::string::npos) << output_;
    }
  }
  EXPECT_NE(output_.find("recommended: "), std::string::npos) << output_;
  const auto run_of_user = job_.program().folder() / "runs";
  EXPECT_FALSE(std::filesystem::exists(run_of_user)) << "it left its runs behind";
}

TEST_F(BenchParallel, WhatCannotBeDoneIsSaid) {
  const auto unknown =
      job_.program().run({"bench", "parallel", "tiny.yaml", "--strategies", "ddp,zero9"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.errors.find("unknown strategy 'zero9'; known are ddp, zero1"),
            std::string::npos)
      << unknown.errors;
  const auto broken = job_.program().run(
      {"bench", "parallel", "tiny.yaml", "--strategies", "ddp", "data.volumes.0.uri=absent"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_NE(broken.errors.find("ddp with 1 worker does not train: "), std::string::npos)
      << broken.errors;
}

TEST_F(BenchParallel, APlanIsMadeFromARun) {
  job_.digest("base", 2, {"train.steps=6"});
  const auto plan = job_.program().run({"plan", "parallel", "--run", "runs/base", "--accelerator",
                                        "cpu", "--max-workers", "64", "-o", "plan.png"});
  ASSERT_EQ(plan.exit_code, 0) << plan.errors;
  EXPECT_NE(plan.output.find("calibrated by runs/base: 43.6 k parameters"), std::string::npos)
      << plan.output;
  EXPECT_NE(plan.output.find("     64  zero3 "), std::string::npos) << plan.output;
  EXPECT_GT(std::filesystem::file_size(job_.program().folder() / "plan.png"), 1000u);

  const auto published = job_.program().run({"plan", "parallel", "--parameters", "1.88e9",
                                             "--flops-per-sample", "3.5e14", "--published"});
  ASSERT_EQ(published.exit_code, 0) << published.errors;
  const auto at = [&](const std::string& name) { return published.output.find("  " + name + " "); };
  EXPECT_LT(at("ZeRO-2"), at("FSDP2"));
  EXPECT_LT(at("FSDP2"), at("ZeRO-3"));
  EXPECT_NE(published.output.find("Where the model is off"), std::string::npos);

  const auto nothing = job_.program().run({"plan", "parallel"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_NE(nothing.errors.find("a plan needs a model"), std::string::npos) << nothing.errors;
}

}  // namespace
}  // namespace craton::tests
