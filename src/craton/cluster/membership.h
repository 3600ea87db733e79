#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "craton/cluster/elastic_policy.h"
#include "craton/cluster/messages.h"
#include "craton/cluster/recovery_decision.h"

/// The operator of a job as a pure state machine: `decide(state, event)` changes the state and says
/// what to do. Whoever drives it
/// (`control/`, the simulation) brings events and the time, and carries out actions in their order.
namespace craton::cluster {

struct MembershipOptions {
  JobShape shape;
  ElasticPolicy elastic;
  int start_workers = 1;    ///< size to begin with; the job waits `start_timeout` for all of them,
                            ///< then begins with what is allowed
  int spares = 0;           ///< warm workers to keep beside the job
  std::string fingerprint;  ///< what changes bits; empty: that of the first worker. Workers with
                            ///< another one are not admitted
  Duration start_timeout{
      600000};  ///< a worker that was asked for and is not ready by then has failed
  Duration report_timeout{10000};  ///< a member that does not report within this is fenced
  Duration boundary_timeout{
      600000};  ///< a planned change that finds no step boundary within this becomes an abort
  Duration drain_timeout{60000};  ///< a leaving member that has not left by then is stopped
  bool keep_processes = true;     ///< false: a failure ends all processes, and the job begins anew
                                  ///< from the newest checkpoint
  bool keep_connections = true;   ///< false: processes stay, and begin anew in the same way
  bool peer_state = true;  ///< false: after a failure the newest checkpoint replaces all state
  Duration lease{10000};   ///< how long a fenced worker's silence is waited for before its copies
                           ///< count as lost (R10)
};

enum class JobPhase {
  kStarting,  ///< no generation yet
  kTraining,  ///< the newest generation is decided
  kBoundary,  ///< a planned generation is announced; training goes on until all members have heard
              ///< of it
  kRecovering,  ///< an unplanned generation is announced; members stop and report
  kFinished,
  kFailed,
  kStopped,
  kSuperseded,  ///< another operator has taken over: this one does nothing any more
};
bool is_terminal(JobPhase phase);

/// All that must survive the operator. Each record replaces the one before; it is written by
/// compare-and-swap on `sequence`.
struct LogRecord {
  uint64_t sequence = 0;  ///< 1, 2, ...
  Membership membership;
  std::optional<Decision> decision;  ///< of `membership`; absent: nobody was told any
  std::vector<Member>
      decided_members;  ///< of the last generation with a decision: whose copies may be the history
  std::vector<WorkerId> primaries;  ///< by shard, of the last decision
  JobPhase phase = JobPhase::kStarting;
  std::string reason;       ///< of a terminal phase
  DurableState checkpoint;  ///< newest one that the operator knew
  StepSizes sizes;          ///< where the batch follows the size
  int requested = 0;
  int proven = 0;

  bool operator==(const LogRecord&) const = default;
};

// Events: what happened.

/// First event of an operator. `log`: what an earlier operator of the job has persisted.
struct OperatorStarted {
  std::optional<LogRecord> log;
};
/// A worker is warm: libraries loaded, data open, connections possible. Repeated after an operator
/// restart, also by members.
struct WorkerReady {
  WorkerInfo worker;
  /// Newest generation that it was ever a member of; 0: none. Who was a member and is none any more
  /// is stopped, not admitted (R4).
  Generation generation;
};
enum class ExitKind {
  kCrash,    ///< any end that was not asked for
  kDrained,  ///< a leaving member after the first commit of its generation
  kRests,    ///< a left-over member after that; its process introduces itself as a new worker
  kStopped,  ///< after a `StopWorker`
  kFatal,    ///< what stopped it would stop any worker: the job ends with it
};
/// A worker that was ready is gone. One that never was is a `StartFailed`.
struct WorkerExited {
  WorkerId worker;
  ExitKind kind = ExitKind::kCrash;
  std::string log_tail;
};
/// Workers that were asked for and will not come.
struct StartFailed {
  int count = 1;
  std::string why;
  bool fatal = false;  ///< no other would come either: the job ends with it
};
/// The failure detector's word; a lost node brings all its workers at once.
struct WorkersSuspected {
  std::vector<WorkerId> workers;
  std::string why;
};
/// All wait and nobody is to blame: a new generation with the same members.
struct Stalled {
  std::string why;
};
struct ReportReceived {
  Report report;
};
/// A step is committed (from the steady path; may come late, or not at all while the operator was
/// down).
struct StepCommitted {
  Step step;
};
/// A member has done the last step, or the one at which it was asked to stop. It stays until it is
/// stopped.
struct WorkerFinished {
  WorkerId worker;
  bool stopped = false;
};
struct ScaleRequested {
  int workers = 0;
};
/// `craton drain`, SIGTERM, or a scheduler's notice; with a deadline if one is known. One of node
/// and worker is set.
struct DrainRequested {
  std::string node;
  std::optional<WorkerId> worker;
  std::optional<Instant> deadline;
};
/// Workers of a drained node may be admitted again.
struct UndrainRequested {
  std::string node;
};
struct CheckpointPublished {
  DurableState state;
};
struct StopRequested {
  std::string why;
};
/// The log has a newer record than this operator wrote.
struct PersistRefused {};
struct Tick {};

struct Event {
  Instant now;
  std::variant<OperatorStarted, WorkerReady, WorkerExited, StartFailed, WorkersSuspected, Stalled,
               ReportReceived, StepCommitted, WorkerFinished, ScaleRequested, DrainRequested,
               UndrainRequested, CheckpointPublished, StopRequested, PersistRefused, Tick>
      what;
};

// Actions: what to do, in order.

/// Make `record` durable if the log is still at `record.sequence - 1`. Nothing after it in the list
/// may be done before it is durable; if it is refused, the rest of the list is dropped and
/// `PersistRefused` is the next event (R8).
struct Persist {
  LogRecord record;
};
/// Receivers that are no members are fenced: they stop, report once and wait to be stopped.
struct Announce {
  Membership membership;
  std::vector<WorkerId> to;
};
struct SendDecision {
  Decision decision;
  std::vector<WorkerId> to;
};
struct StartWorkers {
  int count = 0;
  std::vector<std::string> avoid_nodes;
};
struct StopWorker {
  WorkerId worker;
  std::string reason;
};
/// The worker forgets all and introduces itself as a new one; in its process, with what it has
/// read.
struct RestartWorker {
  WorkerId worker;
};
/// One line of `craton events`.
struct PublishEvent {
  std::string kind;  ///< "generation", "decision", "loss", "lost worker", "admitted", "refused",
                     ///< "size", "backoff", "end", ...
  Generation generation;
  std::optional<WorkerId> worker;
  std::string text;
};
/// Bring a `Tick` at this moment; replaces earlier wishes.
struct WakeAt {
  Instant at;
};
struct EndJob {
  JobPhase phase;
  std::string reason;
};
using Action = std::variant<Persist, Announce, SendDecision, StartWorkers, StopWorker,
                            RestartWorker, PublishEvent, WakeAt, EndJob>;

struct WorkerRecord {
  enum class State {
    kReady,   ///< beside the job: a spare
    kMember,  ///< of the newest generation
    kFenced,  ///< was one; may still be alive
  };
  WorkerInfo info;
  State state = State::kReady;
  Instant since;  ///< of this state
  bool draining = false;
  std::optional<Instant> drain_deadline;
  bool finished = false;

  bool operator==(const WorkerRecord&) const = default;
};

/// Everything that the operator knows. Its size is bounded by the numbers of live workers, shards
/// and nodes, not by the job's history.
struct MembershipState {
  MembershipOptions options;
  LogRecord log;
  std::map<WorkerId, WorkerRecord> workers;
  std::map<WorkerId, Report>
      reports;  ///< for the newest generation, by members and by fenced workers
  std::map<std::string, std::optional<Instant>> drained_nodes;
  std::vector<Instant> starting;  ///< deadlines of workers that were asked for
  std::optional<Instant> starts_allowed_at;
  Step committed;
  bool explicit_request = false;
  std::optional<Instant> opened_at, decided_at, last_change, last_failure;
  int failures = 0;
  int failures_without_progress = 0;
  int64_t lost_in_restart = 0;  ///< finished steps that the next start computes again
  std::string last_failure_text;
  std::optional<Instant> wake_at;
  bool stopped_early = false;      ///< those who have finished did so because they were asked to
  bool waiting_published = false;  ///< that the job waits is said once
};

/// The most workers that the job can have.
int most_workers(const MembershipOptions& options);

/// Why a job cannot be scaled to so many workers, for its user; empty when it can.
std::string why_not_size(const MembershipOptions& options, int workers);

/// Changes `state` and returns what to do. Never fails on strange events: what does not fit is
/// ignored.
std::vector<Action> decide(MembershipState& state, const Event& event);

}  // namespace craton::cluster
