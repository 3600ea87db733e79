#include "craton/parallel/parameter_windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "craton/base/bf16.h"
#include "craton/base/check.h"
#include "craton/runtime/progress_page.h"

namespace craton::parallel {

ParameterWindows::ParameterWindows(ShardedState& state, const std::vector<Bucket>& buckets,
                                   comm::Communicator& communicator,
                                   std::vector<std::vector<Rank>> holders)
    : state_(state),
      buckets_(buckets),
      communicator_(communicator),
      holders_(std::move(holders)),
      layout_(state.layout()) {}

Rank ParameterWindows::giver(ShardId shard, Rank reader) const {
  const auto& copies = holders_[static_cast<size_t>(shard.value())];
  if (std::find(copies.begin(), copies.end(), reader) != copies.end()) return reader;
  return copies[static_cast<size_t>(reader.value()) % copies.size()];
}

std::vector<int64_t> ParameterWindows::given(const Bucket& bucket, Rank from, Rank to) const {
  std::vector<int64_t> chunks;
  for (int64_t c = bucket.first_chunk; c < bucket.first_chunk + bucket.chunk_count; ++c) {
    if (giver(layout_.shard_of(c), to) == from) chunks.push_back(c);
  }
  return chunks;
}

size_t ParameterWindows::bucket_of(int64_t chunk) const {
  return static_cast<size_t>(chunk / buckets_.front().chunk_count);
}

size_t ParameterWindows::element_bytes() const {
  return state_.parameter_type() == ParameterType::kFp32 ? sizeof(float) : sizeof(uint16_t);
}

void ParameterWindows::open(Step version, Phase phase, int readers) {
  CRATON_CHECK(sends_.empty() && messages_.empty(), "windows are still open");
  version_ = version;
  phase_ = phase;
  reading_ = communicator_.rank().value() < readers;
  taken_.assign(buckets_.size(), false);
  sources_.assign(static_cast<size_t>(layout_.chunk_count()), nullptr);
  for (int64_t c = 0; c < layout_.chunk_count(); ++c) {
    if (giver(layout_.shard_of(c), communicator_.rank()) == communicator_.rank()) state_.round(c);
  }
  for (size_t b = 0; b < buckets_.size(); ++b) {
    for (int r = 0; r < readers; ++r) {
      if (Rank(r) == communicator_.rank()) continue;
      std::vector<std::span<const std::byte>> pieces;
      for (int64_t c : given(buckets_[b], communicator_.rank(), Rank(r))) {
        pieces.push_back(state_.model_parameters(c));
      }
      if (pieces.empty()) continue;
      sends_.push_back(communicator_.send(
          Rank(r), operation(version, phase, 0, static_cast<int64_t>(b)), pieces));
    }
  }
}

void ParameterWindows::take(size_t bucket) {
  CRATON_CHECK(reading_, "no window is open to this worker");
  const Rank self = communicator_.rank();
  for (int r = 0; r < communicator_.world_size(); ++r) {
    const std::vector<int64_t> chunks = given(buckets_[bucket], Rank(r), self);
    if (chunks.empty()) continue;
    if (Rank(r) == self) {
      for (int64_t c : chunks) sources_[static_cast<size_t>(c)] = state_.model_parameters(c).data();
      continue;
    }
    const uint64_t number = operation(version_, phase_, 0, static_cast<int64_t>(bucket));
    const runtime::ProgressWait wait(number);
    auto message = communicator_.receive(Rank(r), number);
    CRATON_CHECK(message->pieces().size() == chunks.size());
    for (size_t k = 0; k < chunks.size(); ++k) {
      const auto& piece = message->pieces()[k];
      CRATON_CHECK(piece.size() ==
                   static_cast<size_t>(layout_.chunk(chunks[k]).length) * element_bytes());
      sources_[static_cast<size_t>(chunks[k])] = piece.data();
    }
    messages_.push_back(std::move(message));
  }
  taken_[bucket] = true;
}

double ParameterWindows::lap() { return std::exchange(read_time_, {}).count(); }

void ParameterWindows::read(Extent extent, float* to) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t at = extent.offset; at < extent.end();) {
    const int64_t chunk = at / kChunkElements;
    const size_t bucket = bucket_of(chunk);
    if (!taken_[bucket]) take(bucket);
    const int64_t length = std::min(extent.end(), layout_.chunk(chunk).end()) - at;
    const std::byte* from = sources_[static_cast<size_t>(chunk)] +
                            static_cast<size_t>(at - chunk * kChunkElements) * element_bytes();
    if (state_.parameter_type() == ParameterType::kFp32) {
      std::memcpy(to, from, static_cast<size_t>(length) * sizeof(float));
    } else {
      expand_bf16({reinterpret_cast<const uint16_t*>(from), static_cast<size_t>(length)}, to);
    }
    to += length;
    at += length;
  }
  read_time_ += std::chrono::steady_clock::now() - begin;
}

void ParameterWindows::close() {
  if (!reading_) return;
  // Also those that were of no use: their senders wait.
  for (size_t b = 0; b < buckets_.size(); ++b) {
    if (!taken_[b]) take(b);
  }
  for (const auto& message : messages_) message->release();
  messages_.clear();
  reading_ = false;
}

void ParameterWindows::await_closed() {
  for (auto& send : sends_) send->wait();
  sends_.clear();
}

}  // namespace craton::parallel
