#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "craton/parallel/parameter_windows.h"
#include "craton/parallel/sharded_state.h"
#include "craton/tensor/block.h"
#include "craton/tensor/lent_storage.h"

namespace craton::parallel {

/// The parameters of a model of which this worker keeps only those that it holds: a parameter has
/// memory while a block that uses it runs, and none otherwise.
///
/// Which blocks there are is learnt from the model's calls (tensor::run_block); what belongs to no
/// block is there for the whole of a micro-batch. Counted by parameter: a parameter in two blocks
/// (tied weights), a block that is called twice and blocks within blocks need no special case.
/// Memory: 4 bytes * (parameters outside of blocks + those of the blocks that run); freed pieces
/// are used again.
///
/// From construction to `let_go` the model keeps all of its initial parameters, so that it can be
/// warmed up and its initial state be read; blocks are learnt already. One thread.
class GatheredParameters : public tensor::ParameterSource {
 public:
  /// `parameters` by slot of the state's layout.
  GatheredParameters(ShardedState& state, std::vector<torch::Tensor> parameters);

  /// The model still has the parameters that it was made with.
  bool has_initial() const { return initial_; }
  /// Frees one of them, for good.
  void let_go(size_t slot);
  /// Frees all that are left.
  void let_go();

  /// Where parameters are read from now on; null: nowhere. Not while they are in use.
  void read_from(ParameterWindows* windows) { windows_ = windows; }

  void begin() override;
  void end() noexcept override;
  void acquire(const torch::nn::Module& block) override;
  void release(const torch::nn::Module& block) noexcept override;

  /// The most bytes of parameters that were ever there at once; they are not given back.
  uint64_t allocated_bytes() const { return allocated_; }

 private:
  using Memory = std::unique_ptr<float[]>;
  struct Entry {
    int users = 0;
    bool in_block = false;
    Memory memory;
  };
  const std::vector<size_t>& slots_of(const torch::nn::Module& block);
  void take(size_t slot);
  void give_back(size_t slot) noexcept;

  ShardedState& state_;
  const FlatLayout& layout_;
  std::vector<torch::Tensor> parameters_;
  std::unordered_map<const void*, size_t> slot_of_;  // by the tensor's identity
  std::map<const torch::nn::Module*, std::vector<size_t>> blocks_;
  std::vector<Entry> entries_;                              // by slot
  std::vector<std::unique_ptr<tensor::LentStorage>> lent_;  // by slot, once it was let go
  bool initial_ = true;
  std::vector<size_t> whole_;            // taken by begin
  std::multimap<int64_t, Memory> free_;  // by elements
  uint64_t allocated_ = 0;
  ParameterWindows* windows_ = nullptr;
};

}  // namespace craton::parallel
