#include "craton/model/mask.h"

#include <algorithm>
#include <cmath>

#include "craton/base/check.h"
#include "craton/base/philox.h"

namespace craton::model {

int64_t masked_count(int64_t tokens, double ratio) {
  CRATON_CHECK(tokens >= 2, "{} tokens", tokens);
  return std::clamp<int64_t>(std::llround(ratio * static_cast<double>(tokens)), 1, tokens - 1);
}

std::vector<int64_t> order_by_words(std::span<const uint32_t> words, int64_t masked) {
  const auto tokens = static_cast<int64_t>(words.size());
  CRATON_CHECK(masked >= 0 && masked <= tokens && tokens < (int64_t{1} << 32));
  std::vector<uint64_t> keys(words.size());  // word, then token: all different
  for (int64_t t = 0; t < tokens; ++t) {
    keys[t] = uint64_t{words[t]} << 32 | static_cast<uint64_t>(t);
  }
  std::nth_element(keys.begin(), keys.begin() + masked, keys.end());
  std::vector<bool> hidden(words.size(), false);
  for (int64_t i = 0; i < masked; ++i) hidden[keys[i] & 0xFFFFFFFFu] = true;

  std::vector<int64_t> order(words.size());
  int64_t next_visible = 0, next_masked = tokens - masked;
  for (int64_t t = 0; t < tokens; ++t) order[hidden[t] ? next_masked++ : next_visible++] = t;
  return order;
}

torch::Tensor mask_orders(uint64_t seed, std::span<const int64_t> sample_numbers, int64_t tokens,
                          int64_t masked) {
  const auto samples = static_cast<int64_t>(sample_numbers.size());
  torch::Tensor orders = torch::empty({samples, tokens}, torch::kInt64);
  std::vector<uint32_t> words(tokens);
  for (int64_t s = 0; s < samples; ++s) {
    const Philox random(seed, RandomPurpose::kMask, static_cast<uint64_t>(sample_numbers[s]));
    for (int64_t t = 0; t < tokens; t += 4) {
      const auto block = random.block(t / 4);
      std::copy_n(block.begin(), std::min<int64_t>(4, tokens - t), words.begin() + t);
    }
    const auto order = order_by_words(words, masked);
    std::copy(order.begin(), order.end(), orders.data_ptr<int64_t>() + s * tokens);
  }
  return orders;
}

}  // namespace craton::model
