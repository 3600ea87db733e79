#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "craton/cluster/membership.h"

namespace craton::cluster {

/// One call of `decide`: the state, the time, and the actions so far. Internal to membership*.cpp.
class Turn {
 public:
  Turn(MembershipState& state, Instant now) : state_(state), log_(state.log), now_(now) {}

  void handle(const OperatorStarted&);
  void handle(const WorkerReady&);
  void handle(const WorkerExited&);
  void handle(const StartFailed&);
  void handle(const WorkersSuspected&);
  void handle(const Stalled&);
  void handle(const ReportReceived&);
  void handle(const StepCommitted&);
  void handle(const WorkerFinished&);
  void handle(const ScaleRequested&);
  void handle(const DrainRequested&);
  void handle(const UndrainRequested&);
  void handle(const CheckpointPublished&);
  void handle(const StopRequested&);
  void handle(const PersistRefused&);
  void handle(const Tick&);

  std::vector<Action> finish();

 private:
  using State = WorkerRecord::State;
  enum class Cause { kPlanned, kFailure };

  // membership.cpp: workers come and go
  void forget(WorkerId worker);
  void rest(WorkerId worker, const WorkerRecord& record);
  void fence(WorkerId worker);
  void count_failure(const std::string& text);
  bool is_admissible(const WorkerRecord& record) const;
  void check_deadlines();
  void end_job(JobPhase phase, std::string reason);
  void finish_if_all_have();

  // membership_size.cpp: how many
  /// A member that trains, that is left over and has not gone yet, or that only an undecided
  /// generation would let go: it can be asked to stay.
  bool can_train(const Member& member) const;
  /// How many of those whom a generation of `size` has no place for stay beside the job: as many as
  /// would otherwise be started.
  int places_for_left_over(int size) const;
  ObservedSize observe(bool planning = false) const;
  std::vector<Member> plan_members(int size) const;
  void join_spares(int size, std::map<std::string, int>& on_node,
                   std::vector<Member>& training) const;
  void consider_size();
  void consider_starts();

  // membership_generation.cpp: fence, decide
  void open_generation(Cause cause, const std::string& why,
                       const std::vector<WorkerId>& readmitted = {});
  void begin_anew(const std::string& why);
  void consider_decision();
  void conclude(const Verdict& verdict, const std::vector<Report>& reports);
  void publish_decision(bool first);
  bool waits_for_fenced(const Verdict& verdict);
  void release_fenced(const std::string& why);
  std::vector<WorkerId> member_ids() const;

  bool is_member(WorkerId worker) const;
  bool is_fenced_decided(WorkerId worker) const;
  void persist();
  void wake_at(Instant at);
  void act(Action action) { actions_.push_back(std::move(action)); }
  template <typename... Args>
  void publish(std::string kind, std::optional<WorkerId> worker, fmt::format_string<Args...> format,
               Args&&... args) {
    act(PublishEvent{std::move(kind), log_.membership.generation, worker,
                     fmt::format(format, std::forward<Args>(args)...)});
  }

  MembershipState& state_;
  LogRecord& log_;
  Instant now_;
  std::vector<Action> actions_;
};

}  // namespace craton::cluster
