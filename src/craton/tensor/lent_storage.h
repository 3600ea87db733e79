#pragma once

#include "craton/tensor/torch.h"

namespace craton::tensor {

/// Memory of a tensor that comes and goes. Views of it, and what autograd has saved of it, share
/// the storage and so see what is lent later. Nobody may compute with them while nothing is lent: a
/// kernel that asks libtorch for a typed pointer gets its error, one that does not reads address 0.
class LentStorage {
 public:
  /// Takes the values of `tensor` away: it has its shape, and no memory. Views that were made
  /// before keep the old memory.
  explicit LentStorage(torch::Tensor tensor);
  LentStorage(const LentStorage&) = delete;
  LentStorage& operator=(const LentStorage&) = delete;
  ~LentStorage() { take_back(); }

  /// Puts the tensor on `memory`, numel elements, contiguous, which stays the caller's.
  void lend(void* memory);
  void take_back() noexcept;

 private:
  torch::Tensor tensor_;
};

}  // namespace craton::tensor
