#include "craton/parallel/sharded_state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "craton/base/bf16.h"
#include "craton/base/check.h"

namespace craton::parallel {

ShardedState::ShardedState(const FlatLayout& layout, comm::Endpoint& endpoint, Kept kept,
                           ParameterType type)
    : layout_(layout),
      endpoint_(endpoint),
      kept_(kept),
      type_(type),
      shards_(static_cast<size_t>(layout.shard_count())) {
  CRATON_CHECK(type == ParameterType::kFp32 || kept == Kept::kHeld);
  if (keeps_all())
    parameters_ = endpoint_.allocate(static_cast<size_t>(layout_.numel()) * sizeof(float));
}

std::span<float> ShardedState::parameters() {
  CRATON_CHECK(keeps_all(), "this worker keeps only the parameters of its shards");
  return parameters_.as<float>();
}

float* ShardedState::parameters(int64_t chunk) {
  return keeps_all() ? parameters().data() + chunk * kChunkElements : at(chunk, 3);
}

std::span<const std::byte> ShardedState::model_parameters(int64_t chunk) {
  const auto length = static_cast<size_t>(layout_.chunk(chunk).length);
  if (type_ == ParameterType::kFp32) return std::as_bytes(std::span(parameters(chunk), length));
  return std::as_bytes(std::span(rounded(chunk), length));
}

void ShardedState::round(int64_t chunk) {
  if (type_ == ParameterType::kFp32) return;
  const auto length = static_cast<size_t>(layout_.chunk(chunk).length);
  round_to_bf16({parameters(chunk), length}, rounded(chunk));
}

void ShardedState::set_parameters(int64_t offset, std::span<const float> values) {
  while (!values.empty()) {
    const int64_t chunk = offset / kChunkElements, in_chunk = offset % kChunkElements;
    const auto length = static_cast<size_t>(
        std::min(static_cast<int64_t>(values.size()), layout_.chunk(chunk).length - in_chunk));
    if (keeps(chunk)) std::copy_n(values.data(), length, parameters(chunk) + in_chunk);
    values = values.subspan(length);
    offset += static_cast<int64_t>(length);
  }
}

std::vector<int64_t> ShardedState::chunks(ShardId shard) const {
  std::vector<int64_t> out;
  for (int64_t c = shard.value(); c < layout_.chunk_count(); c += layout_.shard_count())
    out.push_back(c);
  return out;
}

void ShardedState::hold(ShardId shard) {
  Shard& entry = shards_[static_cast<size_t>(shard.value())];
  if (entry.held) return;
  const auto bytes = chunks(shard).size() * kChunkElements * sizeof(float);
  for (comm::Buffer& buffer : std::span(entry.buffers).first(keeps_all() ? 3 : 4))
    buffer = endpoint_.allocate(bytes);
  if (type_ == ParameterType::kBf16) entry.rounded = endpoint_.allocate(bytes / 2);
  entry.held = true;
  entry.copy = {};
  entry.copy.shard = shard;
  entry.copy.complete = false;
}

void ShardedState::drop(ShardId shard) { shards_[static_cast<size_t>(shard.value())] = {}; }

cluster::CopyState& ShardedState::copy(ShardId shard) {
  Shard& entry = shards_[static_cast<size_t>(shard.value())];
  CRATON_CHECK(entry.held, "shard {} is not held", shard.value());
  return entry.copy;
}

std::vector<cluster::CopyState> ShardedState::copies() const {
  std::vector<cluster::CopyState> out;
  for (const Shard& shard : shards_) {
    if (shard.held) out.push_back(shard.copy);
  }
  return out;
}

const ShardedState::Shard& ShardedState::holder_of(int64_t chunk) const {
  const Shard& shard = shards_[static_cast<size_t>(layout_.shard_of(chunk).value())];
  CRATON_CHECK(shard.held, "chunk {} of a shard that this worker does not hold", chunk);
  return shard;
}

float* ShardedState::at(int64_t chunk, int which) {
  return reinterpret_cast<float*>(holder_of(chunk).buffers[which].data()) +
         chunk / layout_.shard_count() * kChunkElements;
}

uint16_t* ShardedState::rounded(int64_t chunk) {
  return reinterpret_cast<uint16_t*>(holder_of(chunk).rounded.data()) +
         chunk / layout_.shard_count() * kChunkElements;
}

uint64_t ShardedState::digest(ShardId shard) {
  XXH3_state_t* hash = XXH3_createState();
  XXH3_64bits_reset(hash);
  for (int64_t c : chunks(shard)) {
    const auto bytes = static_cast<size_t>(layout_.chunk(c).length) * sizeof(float);
    for (const float* part : {parameters(c), exp_avg(c), exp_avg_sq(c)})
      XXH3_64bits_update(hash, part, bytes);
  }
  const uint64_t digest = XXH3_64bits_digest(hash);
  XXH3_freeState(hash);
  return digest;
}

}  // namespace craton::parallel
