// Every fault point, with each action, on the first, a middle and the last rank; pairs of faults,
// the second inside the recovery of the first; replacements that fail while they are admitted; an
// operator that dies. Each job ends with the digest of the quiet run and has lost no finished step.
//
// CRATON_SWEEP: `part` (default, a representative part), `all`, or `random:SEED:COUNT`, a campaign
// with faults anywhere.

#include <fmt/format.h>

#include <random>

#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

struct Case {
  std::string strategy;
  int workers = 3;
  int backups = 1;
  std::string faults, joiner_faults;
  size_t least_lost = 1;
  std::vector<std::string> overrides;
  int context = 1;  // workers that share a window
};

const std::vector<std::string> kStrategies = {"ddp", "zero1", "zero2", "zero3"};
const std::vector<std::string> kActions = {"kill", "stop", "throw"};

/// Points that only a recovery reaches, or that a second fault can reach there.
const std::vector<std::string> kRecoveryPoints = {
    "report.before",  "report.after",      "admit.before", "admit.after", "commit.sent",
    "transfer.chunk", "transfer.received", "gather.sent",  "reduce.send", "store.before_ack",
    "commit.before",  "commit.after",      "apply.middle", "gather.after"};
/// Points of a worker that joins.
const std::vector<std::string> kJoinerPoints = {
    "report.before", "report.after",  "admit.before",      "admit.after",      "commit.sent",
    "gather.sent",   "compute.after", "transfer.received", "store.before_ack", "commit.before",
    "commit.after",  "apply.middle",  "gather.after"};

std::vector<std::string> all_points() {
  const auto result =
      runtime::run_program({CratonProgram::path_of("craton-worker"), "--list-fault-points"});
  std::vector<std::string> points;
  std::istringstream lines(result.output);
  for (std::string line; std::getline(lines, line);) {
    // Those of volumes and exported files are no part of training; shared windows have a sweep of
    // their own.
    const bool training = !line.starts_with("volume.") && !line.starts_with("export.") &&
                          !line.starts_with("object.") && !line.starts_with("cache.") &&
                          !line.starts_with("copy.") && !line.starts_with("context.");
    if (training) points.push_back(line.substr(0, line.find(' ')));
  }
  return points;
}

/// In the undisturbed path of a worker.
bool is_step_point(const std::string& point) {
  static const std::vector<std::string> kOther = {"report.", "transfer.", "admit.", "operator.",
                                                  "agent."};
  return std::none_of(kOther.begin(), kOther.end(),
                      [&](const std::string& prefix) { return point.starts_with(prefix); });
}

std::vector<std::string> backups_of(const std::string& strategy, int backups) {
  return {"parallel.strategy=" + strategy,
          "parallel.backups=" + std::to_string(strategy == "ddp" ? 0 : backups)};
}

std::vector<Case> single_faults() {
  std::vector<Case> cases;
  for (const std::string& point : all_points()) {
    if (!is_step_point(point)) continue;
    for (const std::string& action : kActions) {
      for (int rank : {0, 1, 2}) {
        Case c;
        c.strategy = kStrategies[cases.size() % kStrategies.size()];
        // A checkpoint is written beside training, which may be a step further by then.
        const bool beside = point.starts_with("checkpoint.");
        c.faults = point + ":rank=" + std::to_string(rank) + (beside ? ":" : ":step=2:") + action;
        if (beside) c.overrides = {"checkpoint.every=2"};
        cases.push_back(c);
      }
    }
  }
  return cases;
}

/// Four workers with two backups, so that two losses at once cost nothing.
std::vector<Case> pairs() {
  std::vector<Case> cases;
  const std::vector<std::string> firsts = {"compute.after", "store.after_ack", "commit.after",
                                           "apply.middle"};
  for (const std::string& first : firsts) {
    for (const std::string& second : kRecoveryPoints) {
      for (const std::string& action : kActions) {
        const int rank = cases.size() % 2 == 0 ? 0 : 3;
        Case c;
        c.strategy = kStrategies[cases.size() / 2 % kStrategies.size()];
        c.workers = 4;
        c.backups = 2;
        c.faults = first + ":rank=1:step=2:kill; " + second + ":rank=" + std::to_string(rank) +
                   ":step=2:occurrence=" +
                   (first.starts_with("co") && second == "compute.after" ? "2:" : "1:") + action;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

/// Two groups of two workers that share windows. Worker 3 is the one that has no place after a
/// loss: it may fail before others have its copies.
std::vector<Case> shared_window_faults() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& faults, size_t lost) {
    Case c;
    c.strategy = kStrategies[cases.size() % kStrategies.size()];
    c.workers = 4;
    c.backups = 2;
    c.context = 2;
    c.faults = faults;
    c.least_lost = lost;
    cases.push_back(c);
  };
  for (const std::string& action : kActions) {
    for (int rank = 0; rank < 4; ++rank)
      add(fmt::format("context.exchange:rank={}:step=2:{}", rank, action), 1);
  }
  for (const std::string point :
       {"report.before", "report.after", "admit.before", "admit.after", "transfer.chunk",
        "commit.before", "commit.sent", "commit.after", "apply.middle"}) {
    // With ddp everybody has everything: nothing is transferred.
    const bool surely = point != "transfer.chunk";
    for (const std::string action : {"kill", "stop"})
      add(fmt::format("compute.after:rank=1:step=2:kill; {}:rank=3:step=2:{}", point, action),
          surely ? 2 : 1);
  }
  return cases;
}

std::vector<Case> joiner_faults() {
  std::vector<Case> cases;
  for (const std::string& point : kJoinerPoints) {
    for (const std::string& action : kActions) {
      Case c;
      c.strategy = kStrategies[cases.size() % kStrategies.size()];
      c.faults = "compute.after:rank=1:step=2:kill";
      c.joiner_faults = point + ":" + action;
      c.least_lost = point == "transfer.received" && c.strategy == "ddp" ? 1 : 2;
      cases.push_back(c);
    }
  }
  return cases;
}

/// Two faults with any points, ranks and moments; the second may hit the recovery of the first, or
/// a later step.
std::vector<Case> random_faults(uint32_t seed, int count) {
  std::mt19937 random(seed);
  const auto pick = [&](const std::vector<std::string>& from) {
    return from[random() % from.size()];
  };
  std::vector<std::string> points;
  for (const std::string& point : all_points()) {
    if (!point.starts_with("operator.") && !point.starts_with("agent.")) points.push_back(point);
  }
  std::vector<Case> cases;
  for (int k = 0; k < count; ++k) {
    Case c;
    c.strategy = pick(kStrategies);
    c.workers = 3 + static_cast<int>(random() % 2);
    c.backups = 2;
    c.least_lost = 0;
    if (random() % 2) c.overrides = {"checkpoint.every=2"};
    if (random() % 2) c.joiner_faults = pick(points) + ":" + pick(kActions);
    for (int f = 0; f < 2; ++f) {
      const std::string action = pick(kActions);
      // An error before the first finished step is taken for the job's own: it ends the job.
      const uint32_t first = action == "throw" ? 2 : 1;
      c.faults += fmt::format("{}:rank={}:step={}:occurrence={}:{}; ", pick(points),
                              random() % static_cast<uint32_t>(c.workers),
                              first + random() % (5 - first), 1 + random() % 3, action);
    }
    cases.push_back(c);
  }
  return cases;
}

class Sweep : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 1, {});
    quiet_shared_ = job_->digest("quiet-shared", 2, {"parallel.context=2"});
  }
  static void TearDownTestSuite() { delete job_; }

  static std::string mode() {
    const char* mode = std::getenv("CRATON_SWEEP");
    return mode == nullptr || *mode == '\0' ? "part" : mode;
  }
  /// Each `stride`-th of the cases, or all of them.
  static void run_all(const std::vector<Case>& cases, size_t stride) {
    const bool part = mode() == "part";
    for (size_t k = 0; k < cases.size(); k += part ? stride : 1) survive(cases[k]);
  }

  static void survive(const Case& c) {
    const std::string name = "sweep-" + std::to_string(number_++);
    const std::string what =
        name + " " + c.strategy + " '" + c.faults + "' joiner '" + c.joiner_faults + "'";
    std::vector<std::string> overrides = c.overrides;
    overrides.push_back("parallel.context=" + std::to_string(c.context));
    const bool stops = (c.faults + c.joiner_faults).find(":stop") != std::string::npos;
    for (const auto& list : {backups_of(c.strategy, c.backups), stops ? kShortLeases : kPatience})
      overrides.insert(overrides.end(), list.begin(), list.end());
    const std::string hold = (job_->program().folder() / ("hold-" + name)).string();
    std::string faults = c.faults;
    // The job waits for the replacement that is to fail.
    if (!c.joiner_faults.empty()) faults += "; compute.before:rank=0:step=3:hold=" + hold;
    const auto job =
        job_->start(name, c.workers, overrides,
                    {"CRATON_FAULTS=" + faults, "CRATON_JOINER_FAULTS=" + c.joiner_faults});
    if (!c.joiner_faults.empty()) {
      job->await_events("admitted", static_cast<size_t>(c.workers) + 1);
      runtime::write_file_atomically(hold, "go");
    }
    const auto result = job->finish();
    ASSERT_EQ(result.exit_code, 0) << what << "\n" << result.output << result.errors;
    EXPECT_EQ(state_digest(result.output), c.context > 1 ? quiet_shared_ : quiet_) << what;
    EXPECT_GE(job->count("lost worker"), c.least_lost) << what << ": too few were lost";
    EXPECT_EQ(job_->program().read_json("runs/" + name + "/result.json")["lost_steps"], 0) << what;
    if (!HasFailure()) std::filesystem::remove_all(job->folder());
  }

  /// Who waited for a time-out to find out would wait for longer than the test may take.
  static inline const std::vector<std::string> kPatience = {"parallel.timeout_seconds=3600"};
  /// Who stands still is noticed by that alone. Once fenced, it is continued (LiveJob).
  static inline const std::vector<std::string> kShortLeases = {
      "parallel.timeout_seconds=3600", "recovery.hang_seconds=3", "recovery.report_seconds=2"};
  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_, quiet_shared_;
  static inline int number_ = 0;
};

TEST_F(Sweep, OneFaultAtEachPoint) {
  if (mode().starts_with("random")) GTEST_SKIP() << "a random campaign";
  run_all(single_faults(), 11);
}

TEST_F(Sweep, ASecondFaultInsideTheRecoveryOfTheFirst) {
  if (mode().starts_with("random")) GTEST_SKIP() << "a random campaign";
  run_all(pairs(), 23);
}

TEST_F(Sweep, FaultsWhereWindowsAreShared) {
  if (mode().starts_with("random")) GTEST_SKIP() << "a random campaign";
  run_all(shared_window_faults(), 7);
}

TEST_F(Sweep, AReplacementThatFailsWhileItIsAdmitted) {
  if (mode().starts_with("random")) GTEST_SKIP() << "a random campaign";
  run_all(joiner_faults(), 8);
}

// The first records are those of the start, the others those of the loss and of the replacement.
TEST_F(Sweep, AnOperatorThatDiesAroundARecord) {
  if (mode().starts_with("random")) GTEST_SKIP() << "a random campaign";
  int number = 0;
  for (const std::string point : {"operator.before_persist", "operator.after_persist"}) {
    for (int record = 1; record <= 6; ++record, ++number) {
      if (mode() == "part" && number % 4 != 2) continue;
      const std::string name = "operator-" + std::to_string(number);
      const auto job = job_->start(
          name, 3, backups_of(kStrategies[static_cast<size_t>(number) % kStrategies.size()], 1),
          {"CRATON_FAULTS=compute.after:rank=1:step=2:kill; compute.before:rank=0:step=4:delay=" +
           std::string("3000; ") + point + ":occurrence=" + std::to_string(record) + ":kill"});
      EXPECT_NE(job->finish().exit_code, 0) << name << ": the operator did not die";
      job->resume();
      EXPECT_EQ(job->digest(), quiet_) << name;
      EXPECT_EQ(job->result()["lost_steps"], 0) << name;
    }
  }
}

TEST_F(Sweep, FaultsAnywhere) {
  if (mode() == "all") GTEST_SKIP() << "the systematic sweep";
  uint32_t seed = 1;
  int count = 2;
  std::sscanf(mode().c_str(), "random:%u:%d", &seed, &count);
  for (const Case& c : random_faults(seed, count)) survive(c);
}

}  // namespace
}  // namespace craton::tests
