#pragma once

#include "craton/base/philox.h"
#include "craton/model/model.h"

namespace craton::tests {

/// A language model of one layer with every parameter that sharding trips over: the vocabulary of
/// 101 rows divides by no number of workers, its matrix is tied (`embed` is `head`), `scale` is
/// frozen in the middle, `unused` has no element, `places` is a buffer. Tokens follow from the
/// sample number.
class AwkwardModel : public model::Model {
 public:
  static constexpr int64_t kVocabulary = 101, kWidth = 9, kTokens = 12;

  AwkwardModel(const recipe::Settings& settings, uint64_t seed) {
    settings.integers("window", {});
    embed_ = register_parameter("embed", torch::zeros({kVocabulary, kWidth}));
    scale_ = register_parameter("scale", torch::full({kWidth}, 0.75f), false);
    register_parameter("unused", torch::zeros({0, 7}));
    mix_ = register_parameter("mix", torch::zeros({kWidth, kWidth}));
    bias_ = register_parameter("bias", torch::zeros({kWidth}));
    register_parameter("head", embed_);
    places_ = register_buffer("places", torch::arange(kTokens, torch::kInt64));
    torch::NoGradGuard no_grad;
    model::init_normal(embed_, 0.3, seed, "embed");
    model::init_normal(mix_, 0.3, seed, "mix");
  }

  torch::Tensor loss(const model::Batch& batch) override {
    const auto rows = static_cast<int64_t>(batch.sample_numbers.size());
    torch::Tensor ids = torch::empty({rows, kTokens + 1}, torch::kInt64);
    for (int64_t r = 0; r < rows; ++r) {
      const Philox random(batch.seed, RandomPurpose::kTest,
                          static_cast<uint64_t>(batch.sample_numbers[static_cast<size_t>(r)]));
      for (int64_t t = 0; t <= kTokens; ++t) {
        ids[r][t] = static_cast<int64_t>(random.below(static_cast<uint64_t>(t), kVocabulary));
      }
    }
    const torch::Tensor x =
        torch::embedding(embed_, ids.slice(1, 0, kTokens)) + 0.01 * places_.view({1, -1, 1});
    const torch::Tensor hidden = torch::tanh(torch::matmul(x * scale_, mix_.t()) + bias_);
    const torch::Tensor logits = torch::matmul(hidden, embed_.t());  // [rows, tokens, vocabulary]
    return torch::nn::functional::cross_entropy(logits.reshape({-1, kVocabulary}),
                                                ids.slice(1, 1).reshape({-1}));
  }

  int64_t tokens_per_sample() const override { return kTokens; }
  double forward_flops_per_sample() const override {
    return 2.0 * kTokens * kWidth * (kWidth + kVocabulary);
  }

 private:
  torch::Tensor embed_, scale_, mix_, bias_, places_;
};

}  // namespace craton::tests
