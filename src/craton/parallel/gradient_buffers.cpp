#include "craton/parallel/gradient_buffers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "craton/base/check.h"

namespace craton::parallel {

GradientBuffers::GradientBuffers(const FlatLayout& layout, std::vector<Bucket> buckets,
                                 comm::Endpoint& endpoint, int32_t micro_batches)
    : layout_(layout),
      buckets_(std::move(buckets)),
      endpoint_(endpoint),
      micro_batches_(micro_batches) {
  for (const Bucket& bucket : buckets_) {
    bucket_bytes_ =
        std::max(bucket_bytes_, static_cast<size_t>(bucket.extent.length) * sizeof(float));
  }
}

void GradientBuffers::set_micro_batches(int32_t micro_batches) {
  CRATON_CHECK(micro_batches == micro_batches_ || sums_.empty(),
               "sums of a step of {} micro-batches in one of {}", micro_batches_, micro_batches);
  micro_batches_ = micro_batches;
}

comm::Buffer GradientBuffers::acquire(const Bucket&) {
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      comm::Buffer buffer = std::move(free_.back());
      free_.pop_back();
      return buffer;
    }
    allocated_ += bucket_bytes_;
  }
  return endpoint_.allocate(bucket_bytes_);
}

void GradientBuffers::release(comm::Buffer buffer) {
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
}

uint64_t GradientBuffers::allocated_bytes() const {
  std::lock_guard lock(mutex_);
  return allocated_;
}

void GradientBuffers::forget_fresh() {
  for (comm::Buffer& buffer : fresh_.buckets) {
    if (buffer.data() != nullptr) release(std::move(buffer));
  }
  fresh_ = {};
}

void GradientBuffers::clear() {
  forget_fresh();
  for (Sum& sum : sums_) {
    for (comm::Buffer& buffer : sum.buckets) {
      if (buffer.data() != nullptr) release(std::move(buffer));
    }
  }
  sums_.clear();
}

std::vector<int32_t> GradientBuffers::held() const {
  std::vector<int32_t> out;
  for (const Sum& sum : sums_) {
    const int32_t end = std::min(micro_batches_, (sum.node.index + 1) << sum.node.level);
    for (int32_t m = first_leaf(sum.node); m < end; ++m) out.push_back(m);
  }
  return out;
}

void GradientBuffers::keep_only(const std::vector<int32_t>& micro_batches) {
  for (Sum& sum : sums_) {
    if (std::binary_search(micro_batches.begin(), micro_batches.end(), first_leaf(sum.node)))
      continue;
    for (comm::Buffer& buffer : sum.buckets) release(std::move(buffer));
    sum.buckets.clear();
  }
  std::erase_if(sums_, [](const Sum& sum) { return sum.buckets.empty(); });
}

void GradientBuffers::begin(int32_t index, bool merge, BucketReady ready, GiveUp give_up) {
  CRATON_CHECK(!merge || !give_up, "sums that are kept must be whole");
  ready_ = std::move(ready);
  give_up_ = std::move(give_up);
  forget_fresh();
  delivered_.assign(layout_.slots().size(), 0);
  missing_.clear();
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.extent.length);
  folded_.clear();
  result_ = canonical({0, index}, micro_batches_);
  fresh_ = {};
  fresh_.buckets.resize(buckets_.size());
  if (!merge) {
    sums_.clear();
    return;
  }
  // Climb: every sibling that is there is folded in, and what comes out may have a sibling again.
  while (true) {
    const TreeNode sibling{result_.level, result_.index ^ 1};
    const auto found = std::find_if(sums_.begin(), sums_.end(),
                                    [&](const Sum& sum) { return sum.node == sibling; });
    if (found == sums_.end()) break;
    folded_.push_back(static_cast<size_t>(found - sums_.begin()));
    result_ = canonical({result_.level + 1, result_.index / 2}, micro_batches_);
  }
}

void GradientBuffers::deliver(size_t slot, const float* gradient) {
  if (give_up_) give_up_();
  CRATON_CHECK(!delivered_[slot], "gradient of {} twice", layout_.slots()[slot].name);
  delivered_[slot] = 1;
  int64_t offset = layout_.slots()[slot].offset;
  int64_t left = layout_.slots()[slot].numel;
  const int64_t per_bucket = buckets_.empty() ? 0 : buckets_.front().chunk_count * kChunkElements;
  while (left > 0) {
    const auto bucket = static_cast<size_t>(offset / per_bucket);
    const int64_t length = std::min(left, buckets_[bucket].extent.end() - offset);
    write(bucket, offset - buckets_[bucket].extent.offset, gradient, length);
    if (gradient != nullptr) gradient += length;
    offset += length;
    left -= length;
  }
}

void GradientBuffers::write(size_t bucket, int64_t offset, const float* gradient, int64_t length) {
  comm::Buffer& target =
      folded_.empty() ? fresh_.buckets[bucket] : sums_[folded_.back()].buckets[bucket];
  if (target.data() == nullptr) target = acquire(buckets_[bucket]);
  float* out = reinterpret_cast<float*>(target.data()) + offset;
  if (folded_.empty()) {
    if (gradient != nullptr) {
      std::memcpy(out, gradient, static_cast<size_t>(length) * sizeof(float));
    } else {
      std::memset(out, 0, static_cast<size_t>(length) * sizeof(float));
    }
  } else {
    constexpr int64_t kBlock = 2048;
    float sum[kBlock];
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t n = std::min(kBlock, length - begin);
      const float* last = gradient != nullptr ? gradient + begin : nullptr;
      if (last == nullptr) {
        std::fill_n(sum, n, 0.0f);
        last = sum;
      }
      for (size_t k = 0; k < folded_.size(); ++k) {
        const float* other =
            reinterpret_cast<const float*>(sums_[folded_[k]].buckets[bucket].data()) + offset +
            begin;
        float* to = k + 1 == folded_.size() ? out + begin : sum;
        for (int64_t i = 0; i < n; ++i)
          to[i] = other[i] + last[i];  // addition commutes, so left or right is all the same
        last = to;
      }
    }
  }
  count_down(bucket, length);
}

void GradientBuffers::count_down(size_t bucket, int64_t elements) {
  missing_[bucket] -= elements;
  CRATON_CHECK(missing_[bucket] >= 0);
  if (missing_[bucket] == 0 && ready_) ready_(bucket);
}

void GradientBuffers::end() {
  for (size_t slot = 0; slot < delivered_.size(); ++slot) {
    if (!delivered_[slot]) deliver(slot, nullptr);
  }
  if (folded_.empty()) {
    fresh_.node = result_;
    sums_.push_back(std::move(fresh_));
  } else {
    sums_[folded_.back()].node = result_;
    // The others went into it.
    folded_.pop_back();
    for (size_t index : folded_) {
      for (comm::Buffer& buffer : sums_[index].buckets) release(std::move(buffer));
      sums_[index].buckets.clear();
    }
    std::erase_if(sums_, [](const Sum& sum) { return sum.buckets.empty(); });
  }
  folded_.clear();
  fresh_ = {};
  std::sort(sums_.begin(), sums_.end(),
            [](const Sum& a, const Sum& b) { return first_leaf(a.node) < first_leaf(b.node); });
}

std::vector<std::pair<TreeNode, const float*>> GradientBuffers::pieces(size_t bucket) const {
  std::vector<std::pair<TreeNode, const float*>> out;
  const auto data = [&](const comm::Buffer& buffer) {
    return reinterpret_cast<const float*>(buffer.data());
  };
  for (size_t k = 0; k < sums_.size(); ++k) {
    const auto folded = std::find(folded_.begin(), folded_.end(), k);
    if (folded == folded_.end()) {
      out.emplace_back(sums_[k].node, data(sums_[k].buckets[bucket]));
    } else if (folded + 1 == folded_.end()) {
      out.emplace_back(result_, data(sums_[k].buckets[bucket]));
    }
  }
  if (folded_.empty() && !fresh_.buckets.empty() && fresh_.buckets[bucket].data() != nullptr) {
    out.emplace_back(result_, data(fresh_.buckets[bucket]));
  }
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return first_leaf(a.first) < first_leaf(b.first); });
  return out;
}

comm::Buffer GradientBuffers::take(size_t bucket) {
  return std::exchange(fresh_.buckets[bucket], {});
}

}  // namespace craton::parallel
