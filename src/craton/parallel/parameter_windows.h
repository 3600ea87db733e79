#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "craton/comm/communicator.h"
#include "craton/parallel/flat_layout.h"
#include "craton/parallel/operations.h"
#include "craton/parallel/sharded_state.h"

namespace craton::parallel {

/// The parameters of all workers, for reading, where each worker keeps only the chunks that it
/// holds (zero3, fsdp).
///
///   open   after an update each holder tells the others where its chunks lie: one message per
///   bucket and reader
///   read   a worker copies what it is about to compute with, when, in which order and as often as
///   it needs it
///   close  before the commit of the next step every reader lets go of all windows; the update may
///   begin
///
/// Nobody waits for others to compute the same: workers may run other modules, other numbers of
/// micro-batches, or none. Between workers of one host a window is the holder's own memory, so only
/// what is read is copied. Over TCP its bytes have been sent when it is read: 4 (bf16: 2) * numel *
/// (W-1)/W per worker and step, kept by the reader until it closes. One thread.
class ParameterWindows {
 public:
  /// `holders`: by shard, those that stay; the readers of a shard are spread over them.
  ParameterWindows(ShardedState& state, const std::vector<Bucket>& buckets,
                   comm::Communicator& communicator, std::vector<std::vector<Rank>> holders);

  /// All members call it at the same version; ranks below `readers` may read.
  void open(Step version, Phase phase, int readers);
  /// Copies a run of parameters of the open version, as fp32 whatever their type. Waits for holders
  /// that have not opened yet.
  void read(Extent extent, float* to);
  /// Seconds spent in `read` since the last call.
  double lap();
  /// This worker is through with the open version.
  void close();
  /// Everybody is: the own chunks may change. After `close` at all readers.
  void await_closed();

 private:
  /// Whose copy of `shard` the worker `reader` reads.
  Rank giver(ShardId shard, Rank reader) const;
  std::vector<int64_t> given(const Bucket& bucket, Rank from, Rank to) const;
  void take(size_t bucket);
  size_t bucket_of(int64_t chunk) const;
  size_t element_bytes() const;

  ShardedState& state_;
  const std::vector<Bucket>& buckets_;
  comm::Communicator& communicator_;
  const std::vector<std::vector<Rank>> holders_;
  const FlatLayout& layout_;

  std::chrono::duration<double> read_time_{0};
  Step version_{-1};
  Phase phase_ = Phase::kGather;
  bool reading_ = false;
  std::vector<bool> taken_;                // by bucket
  std::vector<const std::byte*> sources_;  // by chunk, once its bucket is taken
  std::vector<std::unique_ptr<comm::Message>> messages_;
  std::vector<std::unique_ptr<comm::PendingSend>> sends_;
};

}  // namespace craton::parallel
