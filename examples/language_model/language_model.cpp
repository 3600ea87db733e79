// A language model in Craton: a small causal transformer over token files. The program is a worker
// like craton-worker that knows one more model.
#include <cmath>
#include <string>
#include <vector>

#include "craton/model/model.h"
#include "craton/train/worker_main.h"

namespace {

class Gpt : public craton::model::Model {
 public:
  Gpt(const craton::recipe::Settings& settings, uint64_t seed)
      : vocabulary_(settings.integer("vocabulary", 256)),
        sequence_(settings.integer("sequence", 64)),
        dim_(settings.integer("dim", 64)),
        depth_(settings.integer("depth", 2)),
        heads_(settings.integer("heads", 4)) {
    if (vocabulary_ < 2) settings.reject("vocabulary", "must be at least 2");
    if (depth_ < 1 || depth_ > 64) settings.reject("depth", "must lie in 1..64");
    if (heads_ < 1 || dim_ % heads_ != 0) settings.reject("heads", "must divide model.dim");
    namespace nn = torch::nn;
    words_ = register_module("words", nn::Embedding(vocabulary_, dim_));
    places_ = register_module("places", nn::Embedding(sequence_, dim_));
    for (int64_t i = 0; i < depth_; ++i) {
      const std::string name = "block" + std::to_string(i) + "_";
      blocks_.push_back(
          {register_module(name + "norm1", nn::LayerNorm(nn::LayerNormOptions({dim_}))),
           register_module(name + "norm2", nn::LayerNorm(nn::LayerNormOptions({dim_}))),
           register_module(name + "qkv", nn::Linear(dim_, 3 * dim_)),
           register_module(name + "out", nn::Linear(dim_, dim_)),
           register_module(name + "up", nn::Linear(dim_, 4 * dim_)),
           register_module(name + "down", nn::Linear(4 * dim_, dim_))});
    }
    norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({dim_})));
    // Initial values come from (seed, name), so that every worker starts with the same ones.
    torch::NoGradGuard no_grad;
    for (auto& entry : named_parameters()) {
      if (entry.value().dim() > 1) {
        craton::model::init_normal(entry.value(), 0.02, seed, entry.key());
      } else if (entry.key().find("norm") == std::string::npos) {
        entry.value().zero_();
      }
    }
  }

  // The mean over all predicted tokens of the batch.
  torch::Tensor loss(const craton::model::Batch& batch) override {
    const torch::Tensor input = batch.input.narrow(1, 0, sequence_);  // [batch, sequence]
    const torch::Tensor target = batch.input.narrow(1, 1, sequence_);
    torch::Tensor x = words_(input) + places_(torch::arange(sequence_));  // [batch, sequence, dim]
    for (Block& block : blocks_) {
      x = x + block.out->forward(attend(block.qkv->forward(block.norm1->forward(x))));
      x = x + block.down->forward(torch::gelu(block.up->forward(block.norm2->forward(x))));
    }
    const torch::Tensor logits = torch::matmul(norm_(x), words_->weight.t());
    return torch::nn::functional::cross_entropy(logits.reshape({-1, vocabulary_}),
                                                target.reshape({-1}));
  }

  int64_t tokens_per_sample() const override { return sequence_; }
  double forward_flops_per_sample() const override {
    const double n = static_cast<double>(sequence_), d = static_cast<double>(dim_);
    return static_cast<double>(depth_) * (24 * n * d * d + 4 * n * n * d) +
           2 * n * d * static_cast<double>(vocabulary_);
  }

 private:
  struct Block {
    torch::nn::LayerNorm norm1, norm2;
    torch::nn::Linear qkv, out, up, down;
  };

  // Causal attention; qkv: [batch, sequence, 3 dim].
  torch::Tensor attend(const torch::Tensor& qkv) const {
    const int64_t batch = qkv.size(0), width = dim_ / heads_;
    const torch::Tensor split =
        qkv.view({batch, sequence_, 3, heads_, width}).permute({2, 0, 3, 1, 4});
    const torch::Tensor scores =
        torch::matmul(split[0], split[1].transpose(-2, -1)) / std::sqrt(static_cast<double>(width));
    const torch::Tensor later = torch::ones({sequence_, sequence_}, torch::kBool).triu(1);
    const torch::Tensor weights = torch::softmax(scores.masked_fill(later, -1e30), -1);
    return torch::matmul(weights, split[2]).transpose(1, 2).reshape({batch, sequence_, dim_});
  }

  int64_t vocabulary_, sequence_, dim_, depth_, heads_;
  torch::nn::Embedding words_{nullptr}, places_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  std::vector<Block> blocks_;
};

}  // namespace

int main(int argc, char** argv) {
  craton::model::register_model("gpt", [](const auto& settings, uint64_t seed) {
    return std::make_shared<Gpt>(settings, seed);
  });
  return craton::train::worker_main(argc, argv);
}
