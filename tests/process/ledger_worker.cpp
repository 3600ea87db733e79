// A worker that keeps a ledger: each sample that it computes, and each step that is committed with
// the samples that it gave to it. Its model is a small matrix, so that steps are fast. Lines are
// written at once, so that they survive a kill.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "craton/base/error.h"
#include "craton/model/job_callback.h"
#include "craton/model/model.h"
#include "craton/train/worker_main.h"

namespace {

using namespace craton;

void write_line(const std::string& line) {
  static const int file = [] {
    const std::string path =
        fmt::format("{}/{}.ledger", std::getenv("CRATON_TEST_LEDGER"), ::getpid());
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  }();
  const std::string text = line + "\n";
  if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail(ErrorCode::kIo, "the ledger cannot be written");
}

class LedgerModel : public model::Model, public model::JobCallback {
 public:
  LedgerModel(const recipe::Settings& settings, uint64_t seed) {
    const auto window = settings.integers("window", {16, 16, 16});
    elements_ = window[0] * window[1] * window[2];
    // [rows, elements], several chunks of the flat parameter space
    weight_ = register_parameter("weight", torch::empty({24, elements_}));
    passes_ = register_buffer("passes", torch::zeros({1}));  // of this process; no part of a result
    torch::NoGradGuard no_grad;
    model::init_normal(weight_, 0.01, seed, "weight");
  }

  torch::Tensor loss(const model::Batch& batch) override {
    if (torch::GradMode::is_enabled()) {
      for (int64_t number : batch.sample_numbers) {
        if (number < int64_t{1} << 40)
          write_line(fmt::format("computed {}", number));  // no warm-up
      }
      passes_.add_(1);
    }
    const auto rows = static_cast<int64_t>(batch.sample_numbers.size());
    const torch::Tensor out = batch.input.reshape({rows, elements_}).matmul(weight_.t());
    return (out - 1).square().mean();
  }
  int64_t tokens_per_sample() const override { return elements_; }
  double forward_flops_per_sample() const override { return 48 * static_cast<double>(elements_); }

  void before_membership_change(const model::MembershipChange& change) override {
    write_line(fmt::format("before {} {}", change.generation.value(), change.planned));
  }
  void after_membership_change(const model::MembershipChange& change) override {
    write_line(fmt::format("after {} {} {} {}", change.generation.value(), change.rank,
                           change.workers, change.previous_workers));
  }
  void on_drain(const model::MembershipChange& change) override {
    write_line(fmt::format("drain {}", change.generation.value()));
  }
  void on_commit(const model::CommittedStep& step) override {
    std::string line = fmt::format("committed {}", step.step.value());
    for (int64_t number : step.contributed) line += fmt::format(" {}", number);
    write_line(line);
  }

 private:
  int64_t elements_ = 0;
  torch::Tensor weight_, passes_;
};

}  // namespace

int main(int argc, char** argv) {
  model::register_model("ledger", [](const auto& settings, uint64_t seed) {
    return std::make_shared<LedgerModel>(settings, seed);
  });
  return train::worker_main(argc, argv);
}
