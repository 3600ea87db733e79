#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "craton/cluster/messages.h"
#include "craton/comm/communicator.h"
#include "craton/parallel/flat_layout.h"

namespace craton::parallel {

/// Which parameters a worker keeps.
enum class Kept {
  kAll,   ///< to compute with
  kHeld,  ///< those of the shards that it holds
};

/// In which form parameters reach the model. The update is always made to the fp32 master weights.
enum class ParameterType {
  kFp32,
  kBf16,  ///< rounded to nearest even; goes with Kept::kHeld
};

/// The training state of this worker: parameters (fp32, the master weights), and for each held
/// shard the two AdamW moments and the redo slot (the reduced gradient of the step in flight), with
/// what they are worth. All buffers are the endpoint's, so peers of the same host read them in
/// place. Memory: 12 bytes per held element, 4 per kept parameter, and 2 per held element where the
/// model gets bf16. Not thread-safe; distinct chunks may be written at once.
class ShardedState {
 public:
  ShardedState(const FlatLayout& layout, comm::Endpoint& endpoint, Kept kept = Kept::kAll,
               ParameterType type = ParameterType::kFp32);

  const FlatLayout& layout() const { return layout_; }

  /// All parameters, flat. Only where all are kept.
  std::span<float> parameters();
  bool keeps_all() const { return kept_ == Kept::kAll; }
  /// The chunk's parameters are here.
  bool keeps(int64_t chunk) const { return keeps_all() || holds(layout_.shard_of(chunk)); }
  float* parameters(int64_t chunk);
  ParameterType parameter_type() const { return type_; }
  /// A kept chunk's parameters as the model gets them: of parameter_type(), as they were when
  /// `round` was last called. Stay in place while the shard is held.
  std::span<const std::byte> model_parameters(int64_t chunk);
  /// After the parameters of a held chunk have changed.
  void round(int64_t chunk);
  /// Sets what is kept of the run that begins at element `offset`.
  void set_parameters(int64_t offset, std::span<const float> values);

  /// Allocates moments (zero), slot and parameters of a shard; the copy is not complete until it
  /// has been filled and marked. Nothing when it is held already.
  void hold(ShardId shard);
  /// Frees them.
  void drop(ShardId shard);
  bool holds(ShardId shard) const { return shards_[static_cast<size_t>(shard.value())].held; }

  /// Version, slot and completeness of a held shard, as reported to the operator.
  cluster::CopyState& copy(ShardId shard);
  std::vector<cluster::CopyState> copies() const;

  /// Chunks of a shard, ascending.
  std::vector<int64_t> chunks(ShardId shard) const;

  /// Chunk `chunk` of a held shard: layout().chunk(chunk).length floats.
  float* exp_avg(int64_t chunk) { return at(chunk, 0); }
  float* exp_avg_sq(int64_t chunk) { return at(chunk, 1); }
  float* slot(int64_t chunk) { return at(chunk, 2); }

  /// XXH3 over parameters and moments of a held shard.
  uint64_t digest(ShardId shard);

 private:
  struct Shard {
    bool held = false;
    cluster::CopyState copy;
    comm::Buffer buffers[4];  // exp_avg, exp_avg_sq, slot, parameters unless all are kept
    comm::Buffer rounded;     // bf16, where the model gets that
  };
  const Shard& holder_of(int64_t chunk) const;
  float* at(int64_t chunk, int which);
  uint16_t* rounded(int64_t chunk);

  FlatLayout layout_;
  comm::Endpoint& endpoint_;
  Kept kept_;
  ParameterType type_;
  comm::Buffer parameters_;  // where all are kept
  std::vector<Shard> shards_;
};

}  // namespace craton::parallel
