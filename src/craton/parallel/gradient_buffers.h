#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "craton/comm/communicator.h"
#include "craton/parallel/flat_layout.h"
#include "craton/parallel/reduction_tree.h"

namespace craton::parallel {

/// Subtree sums of gradients of one step, by bucket. Backward delivers each parameter's gradient
/// once per micro-batch; it is added on the fly to the sums that it completes, in one pass over
/// memory.
///
/// Two ways, by strategy:
///  * kept: buffers stay until `clear`, one flat gradient per pending subtree (at most log2(M) +
///  1);
///  * passed on: a micro-batch's bucket is handed out when it is complete, and its memory returns
///  through `release`.
/// `deliver` is called by one thread; `release` by any.
class GradientBuffers {
 public:
  /// A subtree sum; buffers[b] is bucket b, undefined where it was handed out.
  struct Sum {
    TreeNode node;
    std::vector<comm::Buffer> buckets;
  };

  GradientBuffers(const FlatLayout& layout, std::vector<Bucket> buckets, comm::Endpoint& endpoint,
                  int32_t micro_batches);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// Of a step.
  int32_t micro_batches() const { return micro_batches_; }
  /// Of the steps to come; there must be no sums when it changes.
  void set_micro_batches(int32_t micro_batches);

  /// Micro-batches of which there are sums, ascending.
  std::vector<int32_t> held() const;
  /// Forgets the sums of all others; each sum lies wholly inside or outside of `micro_batches`.
  void keep_only(const std::vector<int32_t>& micro_batches);

  /// Called on the backward thread when the last gradient of a bucket of the current micro-batch
  /// has been delivered.
  using BucketReady = std::function<void(size_t bucket)>;
  /// Called before each gradient is taken in; it may throw to give the micro-batch up.
  using GiveUp = std::function<void()>;

  /// Starts micro-batch `index`. With `merge`, it is added to the sums that are there (kept); else
  /// it stands alone (passed on), and only then may it be given up: the next `begin` or `clear`
  /// forgets it.
  void begin(int32_t index, bool merge, BucketReady ready, GiveUp give_up = nullptr);
  /// The gradient of one parameter: slots()[slot].numel floats.
  void deliver(size_t slot, const float* gradient);
  /// Backward is over: parameters that got no gradient count as zero.
  void end();

  /// The sums that this worker has, ascending.
  const std::vector<Sum>& sums() const { return sums_; }

  /// Bucket `bucket` of all sums as they will be after the current micro-batch (or are, between
  /// micro-batches), ascending. Complete once `ready` has been called for it.
  std::vector<std::pair<TreeNode, const float*>> pieces(size_t bucket) const;

  /// Takes bucket `bucket` of the last micro-batch out, to be released when it has been sent and
  /// added.
  comm::Buffer take(size_t bucket);
  void release(comm::Buffer buffer);

  /// Forgets all sums (the step is committed, or recomputed from the start); memory is kept for the
  /// next step.
  void clear();
  /// Bytes of gradient memory that are allocated, free ones included.
  uint64_t allocated_bytes() const;

 private:
  comm::Buffer acquire(const Bucket& bucket);
  void forget_fresh();
  void write(size_t bucket, int64_t offset, const float* gradient, int64_t length);
  void count_down(size_t bucket, int64_t elements);

  FlatLayout layout_;
  std::vector<Bucket> buckets_;
  comm::Endpoint& endpoint_;
  int32_t micro_batches_;
  size_t bucket_bytes_ = 0;

  std::vector<Sum> sums_;
  std::vector<size_t> folded_;  // sums that the current micro-batch completes, lowest first; the
                                // last one receives the result
  Sum fresh_;                   // receives it when nothing is folded
  TreeNode result_;
  BucketReady ready_;
  GiveUp give_up_;
  std::vector<int64_t> missing_;    // elements not yet delivered, by bucket
  std::vector<uint8_t> delivered_;  // by slot

  mutable std::mutex mutex_;
  std::vector<comm::Buffer> free_;
  uint64_t allocated_ = 0;
};

}  // namespace craton::parallel
