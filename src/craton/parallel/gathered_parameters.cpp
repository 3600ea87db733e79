#include "craton/parallel/gathered_parameters.h"

#include <utility>

#include "craton/base/check.h"

namespace craton::parallel {

GatheredParameters::GatheredParameters(ShardedState& state, std::vector<torch::Tensor> parameters)
    : state_(state),
      layout_(state.layout()),
      parameters_(std::move(parameters)),
      entries_(layout_.slots().size()),
      lent_(layout_.slots().size()) {
  CRATON_CHECK(parameters_.size() == layout_.slots().size());
  for (size_t k = 0; k < parameters_.size(); ++k)
    slot_of_[parameters_[k].unsafeGetTensorImpl()] = k;
}

void GatheredParameters::let_go(size_t slot) {
  initial_ = false;
  if (!lent_[slot]) lent_[slot] = std::make_unique<tensor::LentStorage>(parameters_[slot]);
}

void GatheredParameters::let_go() {
  for (size_t k = 0; k < lent_.size(); ++k) let_go(k);
}

const std::vector<size_t>& GatheredParameters::slots_of(const torch::nn::Module& block) {
  const auto known = blocks_.find(&block);
  if (known != blocks_.end()) return known->second;
  std::vector<size_t> slots;
  for (const torch::Tensor& parameter : block.parameters()) {
    const auto slot = slot_of_.find(parameter.unsafeGetTensorImpl());
    if (slot == slot_of_.end()) continue;  // frozen: every worker has it
    slots.push_back(slot->second);
    entries_[slot->second].in_block = true;
  }
  return blocks_.emplace(&block, std::move(slots)).first->second;
}

void GatheredParameters::begin() {
  if (initial_) return;
  CRATON_CHECK(whole_.empty(), "the model computes already");
  for (size_t k = 0; k < entries_.size(); ++k) {
    if (entries_[k].in_block) continue;
    whole_.push_back(k);
    take(k);
  }
}

void GatheredParameters::end() noexcept {
  whole_.clear();
  for (size_t k = 0; k < entries_.size(); ++k) {
    if (entries_[k].users > 0) {
      entries_[k].users = 1;
      give_back(k);
    }
  }
}

void GatheredParameters::acquire(const torch::nn::Module& block) {
  const std::vector<size_t>& slots = slots_of(block);
  if (initial_) return;
  for (size_t slot : slots) take(slot);
}

void GatheredParameters::release(const torch::nn::Module& block) noexcept {
  for (size_t slot : blocks_.at(&block)) {
    if (entries_[slot].users > 0) give_back(slot);
  }
}

void GatheredParameters::take(size_t slot) {
  Entry& entry = entries_[slot];
  const ParameterSlot& place = layout_.slots()[slot];
  if (place.numel == 0) return;
  if (entry.users == 0) {
    CRATON_CHECK(windows_ != nullptr, "parameter {} is needed outside of a generation", place.name);
    Memory memory;
    if (auto piece = free_.extract(place.numel)) {
      memory = std::move(piece.mapped());
    } else {
      memory = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(place.numel));
      allocated_ += static_cast<uint64_t>(place.numel) * sizeof(float);
    }
    windows_->read({place.offset, place.numel}, memory.get());
    lent_[slot]->lend(memory.get());
    entry.memory = std::move(memory);
  }
  ++entry.users;
}

void GatheredParameters::give_back(size_t slot) noexcept {
  Entry& entry = entries_[slot];
  if (--entry.users > 0) return;
  lent_[slot]->take_back();
  free_.emplace(layout_.slots()[slot].numel, std::move(entry.memory));
}

}  // namespace craton::parallel
