#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "craton/comm/communicator.h"
#include "craton/parallel/assignment.h"
#include "craton/parallel/flat_layout.h"
#include "craton/parallel/progress.h"
#include "craton/parallel/sharded_state.h"

namespace craton::parallel {

/// The phases reduce and store of one step, bucket by bucket, on a thread of its own, so that they
/// overlap with backward.
///
///   reduce  each worker sends its subtree sums of a bucket to the primaries of the bucket's
///   chunks; a primary adds what has come, as far as
///           the tree allows, into the redo slot (passed-on gradients: into partial sums, round by
///           round)
///   store   the primary hands the slot to its backups, which copy and acknowledge; the losses of
///   all micro-batches go to everybody first, so that
///           whoever rolls the step forward has them (R7)
///
/// Buckets are collected in one fixed order on all workers (last bucket first, as backward delivers
/// them) whatever the order in which they become ready, and sending never waits: so no order of
/// arrival can block. Bytes sent per worker and round: 4 * numel * (W-1)/W per subtree.
class BucketReducer {
 public:
  BucketReducer(const std::vector<Bucket>& buckets, ShardedState& state, StepProgress& progress,
                comm::Communicator& communicator, const Assignment& assignment);
  BucketReducer(const BucketReducer&) = delete;
  BucketReducer& operator=(const BucketReducer&) = delete;
  /// Joins the thread; the communicator must have been aborted, or the step finished.
  ~BucketReducer();

  /// Starts step `step`: slots of the step before are void.
  void begin(Step step);

  /// What this worker adds to (round, bucket), one entry per assignment.contributions(self, round);
  /// called once for every round and bucket, also with nothing to add. Sends at once, on the
  /// calling thread; errors come out of `finish`. The memory must stay until `release`, which is
  /// called when nobody reads it any more (may be empty). With a `release` it waits while this
  /// worker is kBucketsAhead buckets ahead of the slowest: so gradients that are passed on take
  /// bounded memory.
  void ready(int round, size_t bucket, std::vector<const float*> sums,
             std::function<void()> release = {});

  /// After the last micro-batch: sends the own losses (in `progress`) and waits until every bucket
  /// is reduced, stored and acknowledged by all backups, and all losses are here. Throws what
  /// stopped the thread.
  void finish();

  /// Throws what has stopped the thread, if anything has.
  void check();
  /// No step is in flight.
  bool idle();

  /// Sums of squares of the reduced gradient of the chunks whose primary this worker is, by chunk;
  /// NaN or infinite if an element is. After `finish`.
  const std::vector<double>& squares() const { return squares_; }

  /// Seconds of this step in which the reducer sent, received or added up, or waited for other
  /// workers; not those in which it waited for this worker's backward. After `finish`.
  double busy_seconds() const { return busy_.count(); }

 private:
  struct Task {
    int round = 0;
    size_t bucket = 0;
    std::vector<const float*> sums;
    std::vector<std::unique_ptr<comm::PendingSend>> sends;
    std::function<void()> release;
  };
  struct InFlight {
    std::vector<std::unique_ptr<comm::PendingSend>> sends;
    std::function<void()> release;
  };
  struct RoundPlan {
    std::vector<std::vector<TreeNode>> contributions;  // by rank
    std::vector<TreeNode> carried;                     // partial sums that earlier rounds left
    MergePlan merges;  // inputs: carried, then contributions by rank
    bool last = false;
  };
  struct Partial {
    TreeNode node;
    std::vector<float> values;  // all chunks whose primary this worker is, kChunkElements each
  };

  void plan_rounds();
  void run();
  void run_step(Step step);
  Task await(int round, size_t bucket);
  void begin_round(const RoundPlan& plan);
  void end_round();
  void collect(Task task);
  void send_slots(size_t bucket);
  void receive_slots(size_t bucket);
  void receive_losses();
  void acknowledge();
  void mark_slots();
  void settle(size_t keep);
  std::vector<int64_t> chunks_of(size_t bucket, Rank primary) const;

  const std::vector<Bucket>& buckets_;
  ShardedState& state_;
  StepProgress& progress_;
  comm::Communicator& communicator_;
  const Assignment assignment_;
  const FlatLayout& layout_;
  Rank self_;
  std::vector<RoundPlan> rounds_;
  std::vector<int64_t>
      own_index_;  // by chunk: number among the chunks whose primary this worker is, or -1
  int64_t own_chunks_ = 0;

  std::vector<double> squares_;
  std::vector<Partial> partials_, next_partials_;
  std::deque<InFlight> in_flight_;
  std::vector<std::unique_ptr<comm::PendingSend>> slot_sends_, loss_sends_;
  Step step_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> waiting_;
  std::optional<std::pair<int, size_t>> missing_;  // what the thread waits for from this worker
  bool active_ = false, stop_ = false;
  std::exception_ptr error_;
  std::chrono::duration<double> busy_{0};  // the thread's, in this step
  std::thread thread_;
};

}  // namespace craton::parallel
