// Hearing what happens to a job: a worker that writes down each change of membership as it sees it,
// and every so many commits how fast the job is with its present size. The model is the standard
// one; everything else is Craton's.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>

#include "craton/model/job_callback.h"
#include "craton/train/worker_main.h"

namespace {

using craton::model::CommittedStep;
using craton::model::MembershipChange;

class Diary : public craton::model::JobCallback {
 public:
  Diary() {
    const char* folder = std::getenv("DIARY_FOLDER");
    file_.open(std::string(folder ? folder : ".") + "/diary-" + std::to_string(::getpid()));
  }

  // The generation is over, the state stands still. The place to finish what belongs to the old
  // size: close a file that is written by rank, flush a log.
  void before_membership_change(const MembershipChange& change) override {
    line() << "before generation " << change.generation.value() << ": "
           << (change.planned ? "planned" : "somebody was lost") << "\n";
    file_.flush();
  }

  // The place to take up what depends on rank or size. The global batch is the same as ever, so no
  // learning rate needs to follow.
  void after_membership_change(const MembershipChange& change) override {
    workers_ = change.workers;
    line() << "rank " << change.rank << " of " << change.workers << ", before "
           << change.previous_workers << "\n";
    file_.flush();
    since_ = Clock::now();
    steps_ = 0;
  }

  // This worker is asked to go: the place to say goodbye to whatever it was registered with.
  void on_drain(const MembershipChange& change) override {
    line() << "drained in generation " << change.generation.value() << "\n";
    file_.flush();
  }

  // After the last worker has agreed, so what is published here can never be taken back.
  void on_commit(const CommittedStep& step) override {
    newest_ = step;
    if (++steps_ % 10 != 0) return;
    const std::chrono::duration<double> seconds = Clock::now() - since_;
    line() << "loss " << step.loss << ", " << steps_ / seconds.count() << " steps/s with "
           << workers_ << " workers\n";
    file_.flush();
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::ofstream& line() {
    file_ << "after step " << newest_.step.value() << ": ";
    return file_;
  }

  std::ofstream file_;
  CommittedStep newest_;
  int workers_ = 0, steps_ = 0;
  Clock::time_point since_;
};

}  // namespace

int main(int argc, char** argv) {
  craton::model::register_job_callback(
      [](craton::model::Model&) { return std::make_shared<Diary>(); });
  return craton::train::worker_main(argc, argv);
}
