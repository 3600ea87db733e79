#include "craton/train/checkpointing.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/checkpoint/manifest.h"
#include "craton/parallel/whole_tensors.h"

namespace craton::train {
namespace {

/// The safetensors name of an element type.
std::string dtype_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat:
      return "F32";
    case torch::kDouble:
      return "F64";
    case torch::kHalf:
      return "F16";
    case torch::kBFloat16:
      return "BF16";
    case torch::kLong:
      return "I64";
    case torch::kInt:
      return "I32";
    case torch::kShort:
      return "I16";
    case torch::kChar:
      return "I8";
    case torch::kByte:
      return "U8";
    case torch::kBool:
      return "BOOL";
    default:
      fail(ErrorCode::kUnsupported, "a checkpoint cannot hold tensors of type {}",
           c10::toString(tensor.scalar_type()));
  }
}

std::vector<protocol::SavedParameter> saved_parameters(const Trainer& trainer) {
  std::vector<protocol::SavedParameter> out;
  for (const auto& slot : trainer.layout().slots()) out.push_back({slot.name, slot.shape});
  for (const auto& [name, tensor] : trainer.fixed())
    out.push_back({name, tensor.sizes().vec(), dtype_of(tensor), false});
  return out;
}

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Frozen parameters and buffers as they are now: a model's forward may change a buffer.
NamedTensors copy_of_fixed(const Trainer& trainer) {
  NamedTensors copies;
  for (const auto& [name, tensor] : trainer.fixed())
    copies.emplace_back(name, tensor.detach().clone(at::MemoryFormat::Contiguous));
  return copies;
}

checkpoint::ParameterState state_of(const std::string& name, const torch::Tensor& fixed) {
  return {name,
          fixed.sizes().vec(),
          dtype_of(fixed),
          {static_cast<const std::byte*>(fixed.data_ptr()), static_cast<size_t>(fixed.nbytes())},
          false,
          {},
          {}};
}

}  // namespace

CheckpointSaver::CheckpointSaver(Trainer& trainer, std::filesystem::path root, Announce announce)
    : trainer_(trainer), root_(std::move(root)), announce_(std::move(announce)) {}

CheckpointSaver::~CheckpointSaver() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointSaver::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CheckpointSaver::save(comm::Communicator& communicator,
                           const parallel::Assignment& assignment) {
  wait();
  const Step step = trainer_.progress().step;
  auto tensors = parallel::gather_whole_tensors(trainer_.state(), communicator, assignment, step);
  protocol::CheckpointPart part;
  part.step = step.value();
  part.updates = trainer_.progress().updates;
  part.samples_seen = trainer_.samples_seen();
  part.generation = communicator.generation().value();
  part.rank = communicator.rank().value();
  part.world_size = assignment.world_size();
  part.parameters = saved_parameters(trainer_);
  const auto staging = checkpoint::staging_folder(root_, part.step, part.generation);
  NamedTensors fixed = part.rank == 0 ? copy_of_fixed(trainer_) : NamedTensors{};
  thread_ = std::thread([this, part, staging, tensors = std::move(tensors),
                         fixed = std::move(fixed)] {
    try {
      if (CRATON_FAULT_POINT("checkpoint.write"))
        fail_errno(fmt::format("cannot write {}", staging.string()), ENOSPC);
      std::vector<checkpoint::ParameterState> states;
      for (const auto& tensor : tensors) {
        const auto& slot = trainer_.layout().slots()[tensor.slot];
        states.push_back({slot.name, slot.shape, "F32", std::as_bytes(std::span(tensor.parameter)),
                          true, tensor.exp_avg, tensor.exp_avg_sq});
      }
      for (const auto& [name, tensor] : fixed) states.push_back(state_of(name, tensor));
      checkpoint::write_part(staging, part.rank, part.world_size, states);
      CRATON_FAULT_POINT("checkpoint.between");
      announce_(part);
    } catch (...) {
      error_ = std::current_exception();
    }
  });
}

std::filesystem::path checkpoint_of(const recipe::CheckpointRecipe& recipe, Step step) {
  std::filesystem::path own =
      std::filesystem::path(recipe.path) / checkpoint::checkpoint_name(step.value());
  const bool began_elsewhere = recipe.resume != "auto" && recipe.resume != "none";
  if (began_elsewhere && !std::filesystem::exists(own)) return recipe.resume;
  return own;
}

Trainer::Restored load_checkpoint(Trainer& trainer, const std::filesystem::path& path) {
  const checkpoint::CheckpointReader reader(path);
  const parallel::FlatLayout& layout = trainer.layout();
  std::set<std::string> names;
  for (const auto& slot : layout.slots()) {
    const checkpoint::ParameterEntry* entry = reader.find(slot.name);
    if (entry == nullptr || entry->shape != slot.shape) {
      fail(ErrorCode::kInvalidArgument,
           "checkpoint {} does not fit the recipe's model: parameter {} is {}; train with the "
           "model it was made with, or set checkpoint.resume=none",
           reader.folder().string(), slot.name,
           entry == nullptr ? "not in it" : "of another shape");
    }
  }
  for (int64_t c = 0; c < layout.chunk_count(); ++c) {
    const parallel::Extent chunk = layout.chunk(c);
    for (const auto& slot : layout.slots()) {
      const int64_t begin = std::max(slot.offset, chunk.offset),
                    end = std::min(slot.offset + slot.numel, chunk.end());
      if (begin >= end) continue;
      const auto length = static_cast<size_t>(end - begin);
      if (trainer.state().keeps(c))
        reader.read(checkpoint::StateKind::kParameter, slot.name, begin - slot.offset,
                    {trainer.state().parameters(c) + begin - chunk.offset, length});
      if (!trainer.state().holds(layout.shard_of(c))) continue;
      reader.read(checkpoint::StateKind::kExpAvg, slot.name, begin - slot.offset,
                  {trainer.state().exp_avg(c) + begin - chunk.offset, length});
      reader.read(checkpoint::StateKind::kExpAvgSq, slot.name, begin - slot.offset,
                  {trainer.state().exp_avg_sq(c) + begin - chunk.offset, length});
    }
  }
  return {reader.manifest().updates, reader.manifest().samples_seen};
}

}  // namespace craton::train
