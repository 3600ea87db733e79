// An own model in Craton: a small 3D convolutional network that takes noise off a window. The
// program is a worker like craton-worker that knows one more model; all the rest (data, sharding,
// recovery, metrics, checkpoints) is Craton's.
#include <string>
#include <vector>

#include "craton/base/philox.h"
#include "craton/model/model.h"
#include "craton/train/worker_main.h"

namespace {

class Denoiser : public craton::model::Model {
 public:
  // Reads the recipe's `model` section. A key that nobody reads is reported to the user as a typo.
  Denoiser(const craton::recipe::Settings& settings, uint64_t seed)
      : window_(settings.integers("window", {16, 32, 32})),
        channels_(settings.integer("channels", 8)),
        depth_(settings.integer("depth", 3)),
        noise_(settings.number("noise", 0.5)) {
    if (window_.size() != 3) settings.reject("window", "must have 3 extents");
    if (channels_ < 1 || channels_ > 256) settings.reject("channels", "must lie in 1..256");
    if (depth_ < 2 || depth_ > 64) settings.reject("depth", "must lie in 2..64");
    for (int64_t i = 0; i < depth_; ++i) {
      const int64_t in = i == 0 ? 1 : channels_, out = i == depth_ - 1 ? 1 : channels_;
      torch::nn::Conv3d layer(torch::nn::Conv3dOptions(in, out, 3).padding(1));
      layers_.push_back(register_module("layer" + std::to_string(i), layer));
    }
    // Initial values come from (seed, name), so that every worker starts with the same ones.
    torch::NoGradGuard no_grad;
    for (auto& entry : named_parameters()) {
      if (entry.value().dim() == 1) {
        entry.value().zero_();
      } else {
        const double fan_in = static_cast<double>(entry.value()[0].numel());
        craton::model::init_normal(entry.value(), std::sqrt(2 / fan_in), seed, entry.key());
      }
    }
  }

  // The mean over the batch's windows of the squared error of the noise that the network finds.
  torch::Tensor loss(const craton::model::Batch& batch) override {
    const torch::Tensor clean = batch.input.unsqueeze(1);  // [batch, 1, inline, crossline, time]
    const torch::Tensor noise = noise_ * noise_of(batch).view(clean.sizes());
    torch::Tensor x = clean + noise;
    for (int64_t i = 0; i < depth_; ++i) {
      x = layers_[i](x);
      if (i + 1 < depth_) x = torch::relu(x);
    }
    return (x - noise).square().mean() / (noise_ * noise_);
  }

  int64_t tokens_per_sample() const override { return window_[0] * window_[1] * window_[2]; }

  double forward_flops_per_sample() const override {
    const double c = static_cast<double>(channels_);
    return 2 * 27 * static_cast<double>(tokens_per_sample()) * (2 * c + (depth_ - 2) * c * c);
  }

 private:
  // Randomness is a function of (seed, sample number): the same on any worker, in any batch, after
  // any failure.
  torch::Tensor noise_of(const craton::model::Batch& batch) const {
    torch::Tensor noise = torch::empty(batch.input.sizes());
    float* out = noise.data_ptr<float>();
    const int64_t samples = batch.input[0].numel();
    for (const int64_t number : batch.sample_numbers) {
      const craton::Philox random(batch.seed, craton::RandomPurpose::kAugmentNoise, number);
      for (int64_t i = 0; i < samples; ++i) *out++ = static_cast<float>(random.normal(i));
    }
    return noise;
  }

  std::vector<int64_t> window_;
  int64_t channels_, depth_;
  double noise_;
  std::vector<torch::nn::Conv3d> layers_;
};

}  // namespace

int main(int argc, char** argv) {
  craton::model::register_model("denoiser", [](const auto& settings, uint64_t seed) {
    return std::make_shared<Denoiser>(settings, seed);
  });
  return craton::train::worker_main(argc, argv);
}
