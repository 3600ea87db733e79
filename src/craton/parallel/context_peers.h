#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "craton/comm/communicator.h"
#include "craton/tensor/context.h"

namespace craton::parallel {

/// The workers of a context over a communicator: pieces go from owner to reader, in shared memory
/// without a copy.
class CommunicatorPeers : public tensor::ContextPeers {
 public:
  /// `ranks` by index, this worker's among them. `endpoint` gives memory that peers can read. Both
  /// outlive it.
  CommunicatorPeers(comm::Communicator& communicator, comm::Endpoint& endpoint,
                    std::vector<Rank> ranks);
  ~CommunicatorPeers() override;

  /// What follows belongs to `step`, on all peers alike; steps of a generation ascend.
  void begin_step(Step step);

  int size() const override { return static_cast<int>(ranks_.size()); }
  int index() const override { return index_; }
  torch::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type) override;
  std::unique_ptr<Arrival> exchange(int to, const torch::Tensor& mine, int from,
                                    bool wanted) override;
  void settle() override;

  /// Seconds in which this worker had nothing to do but to wait for a peer's piece.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Sent {
    torch::Tensor piece;
    std::unique_ptr<comm::PendingSend> send;
  };
  /// Buffers that were let go, by size; shared with the tensors that lie in them.
  struct Pool {
    std::mutex mutex;
    std::multimap<size_t, comm::Buffer> free;
  };
  class Piece;
  void settle(size_t keep);

  comm::Communicator& communicator_;
  comm::Endpoint& endpoint_;
  const std::vector<Rank> ranks_;
  Step step_;
  int index_ = -1;
  int64_t exchanges_ = 0;  // of the step
  std::deque<Sent> sent_;
  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
  double seconds_waited_ = 0;
};

}  // namespace craton::parallel
