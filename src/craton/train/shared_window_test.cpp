// The autoencoder's loss and gradients of a window that several workers share (threads with
// endpoints of their own here) against those of one worker.
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "craton/model/sfm.h"
#include "craton/parallel/context_peers.h"
#include "craton/tensor/context.h"
#include "craton/volume/sampling/sampler.h"

namespace craton::train {
namespace {

using torch::Tensor;

struct Case {
  std::string name;
  double mask_ratio = 0.5;
  model::Positions positions = model::Positions::kSinCos;
  bool amplitude = false;
  bool dead = false;
  model::DecoderAttention attention = model::DecoderAttention::kFull;
  int64_t tile_rows = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

/// A fresh model of the case: all of one case have the same parameters.
std::shared_ptr<model::Sfm> make_model(const Case& c, at::ScalarType type) {
  model::SfmSettings s;
  s.window = {32, 12, 8};
  s.patch = {4, 4, 4};
  s.mask_ratio = c.mask_ratio;
  s.dim = 24;
  s.depth = 2;
  s.heads = 2;
  s.decoder_dim = 24;
  s.decoder_depth = 2;
  s.decoder_heads = 2;
  s.positions = c.positions;
  s.decoder_attention = c.attention;
  if (c.attention == model::DecoderAttention::kWindow) s.decoder_window = {1, 2, 2};
  s.amplitude_weight = c.amplitude ? 0.1 : 0;
  auto model = std::make_shared<model::Sfm>(s, 5);
  model->to(type);
  return model;
}

Tensor make_window(const Case& c) {
  torch::manual_seed(3);
  Tensor window = torch::randn({1, 32, 12, 8});
  if (c.dead) window.slice(1, 4, 21).zero_();  // also all of a worker's part
  return window;
}

struct Result {
  double loss = 0;
  std::vector<Tensor> gradients;
};

Result compute(model::Sfm& model, const model::Batch& batch) {
  const Tensor loss = model.loss(batch);
  loss.backward();
  Result result{loss.item<double>(), {}};
  for (const Tensor& p : model.parameters())
    result.gradients.push_back(p.grad().defined() ? p.grad() : torch::zeros_like(p));
  return result;
}

/// Lets a batch be read piece by piece.
void cut_into_tiles(const Case& c, model::Batch& batch) {
  if (c.tile_rows == 0) return;
  const Tensor input = std::exchange(batch.input, Tensor());
  batch.tiles = {input.sizes().slice(1).vec(), c.tile_rows, [input](int64_t first, int64_t count) {
                   return input.slice(1, first, first + count).contiguous();
                 }};
}

Result alone(const Case& c, at::ScalarType type) {
  model::Batch batch;
  batch.input = make_window(c);
  batch.sample_numbers = {9};
  batch.seed = 5;
  return compute(*make_model(c, type), batch);
}

/// Means over the workers, as training takes them.
Result together(const Case& c, at::ScalarType type, int workers) {
  std::vector<std::unique_ptr<comm::Endpoint>> endpoints;
  comm::Group group;
  group.generation = Generation(1);
  std::vector<Rank> ranks;
  for (int r = 0; r < workers; ++r) {
    endpoints.push_back(std::make_unique<comm::Endpoint>());
    group.members.push_back(endpoints.back()->address());
    ranks.push_back(Rank(r));
  }
  const Tensor window = make_window(c);
  std::vector<Result> results(static_cast<size_t>(workers));
  std::vector<std::thread> threads;
  for (int r = 0; r < workers; ++r) {
    threads.emplace_back([&, r] {
      const auto k = static_cast<size_t>(r);
      comm::Group own = group;
      own.self = Rank(r);
      const auto communicator = endpoints[k]->join(own);
      parallel::CommunicatorPeers peers(*communicator, *endpoints[k], ranks);
      const tensor::ContextScope scope(peers);
      const auto cut = volume::axis_part(32, 4, workers, r);
      model::Batch batch;
      batch.input = window.slice(1, cut.first, cut.first + cut.count).contiguous();
      batch.first_row = cut.first;
      batch.window_rows = 32;
      batch.sample_numbers = {9};
      batch.seed = 5;
      cut_into_tiles(c, batch);
      results[k] = compute(*make_model(c, type), batch);
    });
  }
  for (auto& thread : threads) thread.join();
  Result mean = results[0];
  for (size_t k = 1; k < results.size(); ++k) {
    mean.loss += results[k].loss;
    for (size_t i = 0; i < mean.gradients.size(); ++i)
      mean.gradients[i] = mean.gradients[i] + results[k].gradients[i];
  }
  mean.loss /= workers;
  for (Tensor& gradient : mean.gradients) gradient = gradient / workers;
  return mean;
}

double distance(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]).to(torch::kDouble).pow(2).sum().item<double>();
    size += b[i].to(torch::kDouble).pow(2).sum().item<double>();
  }
  return std::sqrt(difference / size);
}

class SharedWindow : public testing::TestWithParam<Case> {};

TEST_P(SharedWindow, HasTheLossAndGradientsOfOneWorker) {
  const Case& c = GetParam();
  const Result exact = alone(c, torch::kDouble);
  ASSERT_GT(exact.loss, 0);
  for (int workers : {1, 2, 3, 4, 8}) {
    const Result shared = together(c, torch::kDouble, workers);
    EXPECT_NEAR(shared.loss, exact.loss, 1e-12) << workers;
    EXPECT_LE(distance(shared.gradients, exact.gradients), 1e-11) << workers;
    const Result coarse = together(c, torch::kFloat, workers);
    EXPECT_NEAR(coarse.loss, exact.loss, 1e-6 * exact.loss) << workers;
    EXPECT_LE(distance(coarse.gradients, exact.gradients), 5e-6) << workers;
  }
}

std::vector<Case> cases() {
  using model::DecoderAttention;
  return {
      {.name = "plain"},
      {.name = "workers_without_a_visible_token", .mask_ratio = 0.97},
      {.name = "workers_without_a_masked_token", .mask_ratio = 0.03},
      {.name = "rotary_and_amplitude", .positions = model::Positions::kRotary, .amplitude = true},
      {.name = "dead_traces", .dead = true},
      {.name = "cross", .attention = DecoderAttention::kCross},
      {.name = "cross_without_a_visible_token",
       .mask_ratio = 0.97,
       .attention = DecoderAttention::kCross},
      {.name = "tiles", .amplitude = true, .dead = true, .tile_rows = 4},
      {.name = "tiles_of_two_patches_without_visible_tokens",
       .mask_ratio = 0.97,
       .attention = DecoderAttention::kCross,
       .tile_rows = 8},
      {.name = "window",
       .positions = model::Positions::kRotary,
       .attention = DecoderAttention::kWindow}};
}

INSTANTIATE_TEST_SUITE_P(Cases, SharedWindow, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace craton::train
