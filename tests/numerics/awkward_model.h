#pragma once

#include "craton/base/philox.h"
#include "craton/model/model.h"
#include "craton/tensor/block.h"

namespace craton::tests {

/// A layer that is one block, with a parameter that never trains among its own.
class AwkwardLayer : public torch::nn::Module {
 public:
  explicit AwkwardLayer(int64_t width) {
    scale_ = register_parameter("scale", torch::full({width}, 0.75f), false);
    register_parameter("unused", torch::zeros({0, 7}));
    mix_ = register_parameter("mix", torch::zeros({width, width}));
    bias_ = register_parameter("bias", torch::zeros({width}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return tensor::run_block(*this, {x}, [this](const tensor::Tensors& in) {
      return tensor::Tensors{torch::tanh(torch::matmul(in[0] * scale_, mix_.t()) + bias_)};
    })[0];
  }

 private:
  torch::Tensor scale_, mix_, bias_;
};

/// A vocabulary matrix whose columns are a block: it is tied to another block's.
class AwkwardVocabulary : public torch::nn::Module {
 public:
  explicit AwkwardVocabulary(torch::Tensor matrix) {
    matrix_ = register_parameter("matrix", std::move(matrix));
  }
  torch::Tensor embed(const torch::Tensor& ids) {
    return tensor::run_block(*this, {}, [this, ids](const tensor::Tensors&) {
      return tensor::Tensors{torch::embedding(matrix_, ids)};
    })[0];
  }
  torch::Tensor logits(const torch::Tensor& x) {
    return tensor::run_block(*this, {x}, [this](const tensor::Tensors& in) {
      return tensor::Tensors{torch::matmul(in[0], matrix_.t())};
    })[0];
  }

 private:
  torch::Tensor matrix_;
};

/// A language model with every parameter that sharding trips over: the vocabulary of 101 rows
/// divides by no number of workers, its matrix is in two blocks (`embed` is `head`), one layer runs
/// twice, frozen and empty parameters stand among the others, `places` is a buffer. Tokens follow
/// from the sample number.
class AwkwardModel : public model::Model {
 public:
  static constexpr int64_t kVocabulary = 101, kWidth = 9, kTokens = 12;

  AwkwardModel(const recipe::Settings& settings, uint64_t seed) {
    settings.integers("window", {});
    const torch::Tensor matrix = torch::zeros({kVocabulary, kWidth});
    embed_ = register_module("embed", std::make_shared<AwkwardVocabulary>(matrix));
    layer_ = register_module("layer", std::make_shared<AwkwardLayer>(kWidth));
    shift_ = register_parameter("shift", torch::zeros({kWidth}));
    head_ = register_module(
        "head", std::make_shared<AwkwardVocabulary>(embed_->named_parameters()["matrix"]));
    places_ = register_buffer("places", torch::arange(kTokens, torch::kInt64));
    torch::NoGradGuard no_grad;
    model::init_normal(named_parameters()["embed.matrix"], 0.3, seed, "embed");
    model::init_normal(named_parameters()["layer.mix"], 0.3, seed, "mix");
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
        embed_->embed(ids.slice(1, 0, kTokens)) + 0.01 * places_.view({1, -1, 1});
    const torch::Tensor hidden = layer_->forward(layer_->forward(x) + shift_);
    const torch::Tensor logits = head_->logits(hidden);  // [rows, tokens, vocabulary]
    return torch::nn::functional::cross_entropy(logits.reshape({-1, kVocabulary}),
                                                ids.slice(1, 1).reshape({-1}));
  }

  int64_t tokens_per_sample() const override { return kTokens; }
  double forward_flops_per_sample() const override {
    return 2.0 * kTokens * kWidth * (2 * kWidth + kVocabulary);
  }

 private:
  std::shared_ptr<AwkwardVocabulary> embed_, head_;
  std::shared_ptr<AwkwardLayer> layer_;
  torch::Tensor shift_, places_;
};

}  // namespace craton::tests
