#include "craton/model/patch_loss.h"

#include "craton/base/check.h"

namespace craton::model {
namespace {

// Writes weight * 2/samples * (prediction - target) to `slope` and returns the loss.
template <typename T>
double loss_and_slope(const T* prediction, const T* target, const T* weight, T* slope, int64_t rows,
                      int64_t samples) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r, prediction += samples, target += samples, slope += samples) {
    if (weight[r] == 0) {
      std::fill(slope, slope + samples, T{0});
      continue;
    }
    const T factor = weight[r] * static_cast<T>(2.0 / static_cast<double>(samples));
    T lanes[8] = {};
    int64_t i = 0;
    for (; i + 8 <= samples; i += 8) {
      for (int l = 0; l < 8; ++l) {
        const T difference = prediction[i + l] - target[i + l];
        slope[i + l] = factor * difference;
        lanes[l] += difference * difference;
      }
    }
    double sum = 0;
    for (; i < samples; ++i) {
      const T difference = prediction[i] - target[i];
      slope[i] = factor * difference;
      sum += difference * difference;
    }
    for (T lane : lanes) sum += lane;
    loss += static_cast<double>(weight[r]) * sum / static_cast<double>(samples);
  }
  return loss;
}

struct PatchLoss : torch::autograd::Function<PatchLoss> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& prediction_in, const torch::Tensor& target,
                               const torch::Tensor& weight) {
    const torch::Tensor prediction = prediction_in.contiguous();
    torch::Tensor slope = torch::empty(prediction.sizes(), prediction.options());
    torch::Tensor loss = torch::empty({}, prediction.options());
    AT_DISPATCH_FLOATING_TYPES(prediction.scalar_type(), "patch_loss", [&] {
      *loss.data_ptr<scalar_t>() = static_cast<scalar_t>(loss_and_slope<scalar_t>(
          prediction.data_ptr<scalar_t>(), target.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
          slope.data_ptr<scalar_t>(), prediction.size(0) * prediction.size(1), prediction.size(2)));
    });
    context->save_for_backward({slope});
    return loss;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {context->get_saved_variables()[0] * gradients[0], {}, {}};
  }
};

}  // namespace

torch::Tensor patch_loss(const torch::Tensor& prediction, const torch::Tensor& target,
                         const torch::Tensor& weight) {
  CRATON_CHECK(prediction.sizes() == target.sizes() && weight.dim() == 2 &&
               weight.numel() * prediction.size(-1) == prediction.numel());
  return PatchLoss::apply(prediction, target.contiguous(), weight.contiguous());
}

}  // namespace craton::model
