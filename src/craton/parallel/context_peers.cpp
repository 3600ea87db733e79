#include "craton/parallel/context_peers.h"

#include <algorithm>
#include <chrono>

#include "craton/base/check.h"
#include "craton/base/fault_point.h"
#include "craton/parallel/operations.h"
#include "craton/runtime/progress_page.h"

namespace craton::parallel {
namespace {

/// Pieces of earlier exchanges that some peer may still read; more would only hold memory.
constexpr size_t kPiecesSent = 4;

}  // namespace

class CommunicatorPeers::Piece : public Arrival {
 public:
  Piece(CommunicatorPeers& peers, Rank from, uint64_t operation)
      : peers_(peers), from_(from), operation_(operation) {}
  std::span<const std::byte> bytes() override {
    const runtime::ProgressWait wait(operation_);
    const auto begin = std::chrono::steady_clock::now();
    message_ = peers_.communicator_.receive(from_, operation_);
    peers_.seconds_waited_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    CRATON_CHECK(message_->pieces().size() == 1);
    return message_->pieces()[0];
  }
  void release() override { message_->release(); }

 private:
  CommunicatorPeers& peers_;
  const Rank from_;
  const uint64_t operation_;
  std::unique_ptr<comm::Message> message_;
};

CommunicatorPeers::CommunicatorPeers(comm::Communicator& communicator, comm::Endpoint& endpoint,
                                     std::vector<Rank> ranks)
    : communicator_(communicator), endpoint_(endpoint), ranks_(std::move(ranks)) {
  const auto self = std::find(ranks_.begin(), ranks_.end(), communicator.rank());
  CRATON_CHECK(self != ranks_.end(), "rank {} is not in its context", communicator.rank().value());
  index_ = static_cast<int>(self - ranks_.begin());
}

CommunicatorPeers::~CommunicatorPeers() = default;

void CommunicatorPeers::begin_step(Step step) {
  CRATON_CHECK(step > step_ || exchanges_ == 0, "step {} after step {}", step.value(),
               step_.value());
  settle(0);
  step_ = step;
  exchanges_ = 0;
}

torch::Tensor CommunicatorPeers::allocate(at::IntArrayRef sizes, at::ScalarType type) {
  size_t bytes = c10::elementSize(type);
  for (int64_t n : sizes) bytes *= static_cast<size_t>(n);
  comm::Buffer buffer;
  {
    const std::lock_guard lock(pool_->mutex);
    const auto found = pool_->free.lower_bound(bytes);
    if (found != pool_->free.end() && found->first <= 2 * bytes) {
      buffer = std::move(found->second);
      pool_->free.erase(found);
    }
  }
  if (buffer.data() == nullptr) buffer = endpoint_.allocate(std::max<size_t>(bytes, 64));
  void* data = buffer.data();
  const auto back = [pool = pool_, buffer = std::move(buffer)](void*) mutable {
    const std::lock_guard lock(pool->mutex);
    const size_t size = buffer.size();
    pool->free.emplace(size, std::move(buffer));
  };
  return torch::from_blob(data, sizes, back, torch::TensorOptions(type));
}

std::unique_ptr<tensor::ContextPeers::Arrival> CommunicatorPeers::exchange(
    int to, const torch::Tensor& mine, int from, bool wanted) {
  CRATON_FAULT_POINT("context.exchange");
  runtime::count_progress();
  // All peers count alike, so the count names the exchange.
  const int64_t number = exchanges_++;
  const uint64_t operation =
      parallel::operation(step_, Phase::kContext, static_cast<int>(number >> 16), number & 0xFFFF);
  if (mine.defined()) {
    CRATON_CHECK(mine.is_contiguous());
    settle(kPiecesSent - 1);
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(mine.data_ptr()),
                                           mine.nbytes());
    sent_.push_back({mine, communicator_.send(ranks_[static_cast<size_t>(to)], operation,
                                              std::span(&bytes, 1))});
  }
  if (!wanted) return nullptr;
  return std::make_unique<Piece>(*this, ranks_[static_cast<size_t>(from)], operation);
}

void CommunicatorPeers::settle() { settle(0); }

void CommunicatorPeers::settle(size_t keep) {
  while (sent_.size() > keep) {
    sent_.front().send->wait();
    sent_.pop_front();
  }
}

}  // namespace craton::parallel
