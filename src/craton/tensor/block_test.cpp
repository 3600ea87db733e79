#include "craton/tensor/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "craton/tensor/lent_storage.h"

namespace craton::tensor {
namespace {

/// y = tanh(x W^T), with a view of the weight that autograd saves.
class Layer : public torch::nn::Module {
 public:
  explicit Layer(int64_t width) {
    weight = register_parameter("weight", torch::randn({width, width}) * 0.5);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return run_block(*this, {x, {}}, [this](const Tensors& in) {
      EXPECT_FALSE(in[1].defined());
      return Tensors{torch::tanh(torch::matmul(in[0], weight.narrow(0, 0, in[0].size(1)).t())), {}};
    })[0];
  }
  torch::Tensor weight;
};

struct Net {
  Net() {
    torch::manual_seed(3);
    for (int i = 0; i < 3; ++i) layers.push_back(std::make_shared<Layer>(5));
    x = torch::randn({4, 5});
  }
  /// The second layer runs twice.
  torch::Tensor loss() {
    torch::Tensor y = x;
    for (size_t i : {0, 1, 2, 1}) y = layers[i]->forward(y);
    return y.square().sum();
  }
  std::vector<std::shared_ptr<Layer>> layers;
  torch::Tensor x;
};

/// Lends weights from memory of its own, and writes down what happens.
class Lender : public ParameterSource {
 public:
  explicit Lender(Net& net) {
    for (const auto& layer : net.layers) {
      values.push_back(layer->weight.detach().clone());
      lent.push_back(std::make_unique<LentStorage>(layer->weight));
      modules.push_back(layer.get());
    }
    users.resize(modules.size());
  }
  void begin() override { story.push_back("begin"); }
  void end() noexcept override {
    story.push_back("end");
    for (size_t k = 0; k < users.size(); ++k) give_back(k, users[k]);
  }
  void acquire(const torch::nn::Module& block) override {
    const size_t k = index(block);
    story.push_back("acquire " + std::to_string(k));
    if (users[k]++ > 0) return;
    // Somewhere else each time, so that a stale pointer reads zeros.
    memory.push_back(values[k].clone());
    lent[k]->lend(memory.back().data_ptr());
  }
  void release(const torch::nn::Module& block) noexcept override {
    story.push_back("release " + std::to_string(index(block)));
    give_back(index(block), 1);
  }

  std::vector<std::string> story;
  std::vector<int> users;

 private:
  size_t index(const torch::nn::Module& block) const {
    return static_cast<size_t>(std::find(modules.begin(), modules.end(), &block) - modules.begin());
  }
  void give_back(size_t k, int count) noexcept {
    if (count == 0) return;
    users[k] -= count;
    if (users[k] > 0) return;
    lent[k]->take_back();
    for (torch::Tensor& piece : memory) {
      if (piece.sizes() == values[k].sizes() && torch::equal(piece, values[k])) piece.zero_();
    }
  }
  std::vector<torch::Tensor> values, memory;
  std::vector<std::unique_ptr<LentStorage>> lent;
  std::vector<const torch::nn::Module*> modules;
};

std::vector<torch::Tensor> gradients(Net& net) {
  std::vector<torch::Tensor> out;
  for (const auto& layer : net.layers) out.push_back(layer->weight.grad().clone());
  return out;
}

TEST(Block, ParametersAreThereWhileItRunsForwardAndBackward) {
  Net whole, sharded;
  whole.loss().backward();
  Lender lender(sharded);
  {
    const BlockScope scope({&lender});
    const torch::Tensor loss = sharded.loss();
    EXPECT_THAT(lender.users, testing::Each(0));
    loss.backward();
  }
  const auto want = gradients(whole), got = gradients(sharded);
  for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(torch::equal(want[k], got[k])) << k;
  // The input needs no gradient: the end takes back what the first block still has.
  EXPECT_THAT(lender.story,
              testing::ElementsAre("begin", "acquire 0", "release 0", "acquire 1", "release 1",
                                   "acquire 2", "release 2", "acquire 1", "release 1",  // backward:
                                   "acquire 1", "release 1", "acquire 2", "release 2", "acquire 1",
                                   "release 1", "acquire 0", "end"));
  EXPECT_THAT(lender.users, testing::Each(0));
}

TEST(Block, ParametersMayStayUntilBackward) {
  Net whole, sharded;
  whole.loss().backward();
  Lender lender(sharded);
  {
    const BlockScope scope({&lender, true});
    sharded.loss().backward();
  }
  const auto want = gradients(whole), got = gradients(sharded);
  for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(torch::equal(want[k], got[k])) << k;
  EXPECT_THAT(lender.story, testing::ElementsAre("begin", "acquire 0", "acquire 1", "acquire 2",
                                                 "acquire 1",  // backward:
                                                 "release 1", "release 2", "release 1", "end"));
}

TEST(Block, NothingIsKeptWithoutGradients) {
  Net net;
  Lender lender(net);
  {
    const BlockScope scope({&lender});
    torch::NoGradGuard no_grad;
    net.loss();
    EXPECT_THAT(lender.users, testing::Each(0));
  }
  EXPECT_EQ(lender.story.size(), 10u);
}

TEST(Block, AnErrorInsideLetsParametersGo) {
  Net net;
  Lender lender(net);
  {
    const BlockScope scope({&lender});
    EXPECT_THROW(run_block(*net.layers[2], {},
                           [](const Tensors&) -> Tensors { throw std::runtime_error("broken"); }),
                 std::runtime_error);
    EXPECT_THAT(lender.users, testing::Each(0));
  }
  EXPECT_ANY_THROW(net.layers[2]->weight.data_ptr<float>()) << "nothing is lent";
}

// A skip connection and two uses inside: three gradients are added to one tensor, and their order
// is the same whether parameters come and go or not.
TEST(Block, GradientsAreAddedUpAlikeUnderEveryPolicy) {
  const auto run = [](bool lend) {
    Net net;
    std::unique_ptr<Lender> lender = lend ? std::make_unique<Lender>(net) : nullptr;
    const BlockScope scope({lender.get()});
    const torch::Tensor x = torch::randn({4, 5}).requires_grad_();
    const torch::Tensor middle = x * 1.1;
    const torch::Tensor out = run_block(*net.layers[0], {middle}, [&](const Tensors& in) {
      return Tensors{torch::matmul(in[0], net.layers[0]->weight) + in[0].sin()};
    })[0];
    (out + 0.3 * middle).square().sum().backward();
    return x.grad().clone();
  };
  EXPECT_TRUE(torch::equal(run(false), run(true)));
}

TEST(Block, WhatIsComputedAgainInBackwardHasTheSameBits) {
  Net plain, again;
  plain.loss().backward();
  const auto want = gradients(plain);
  {
    const BlockScope scope({nullptr, false, true});
    again.loss().backward();
  }
  auto got = gradients(again);
  for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(torch::equal(want[k], got[k])) << k;
  for (const bool keep : {false, true}) {
    Net other;
    Lender lender(other);
    {
      const BlockScope scope({&lender, keep, true});
      other.loss().backward();
    }
    got = gradients(other);
    for (size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(torch::equal(want[k], got[k])) << k;
    EXPECT_THAT(lender.users, testing::Each(0));
    if (keep) continue;
    EXPECT_THAT(lender.story, testing::ElementsAre(
                                  "begin", "acquire 0", "release 0", "acquire 1", "release 1",
                                  "acquire 2", "release 2", "acquire 1", "release 1",  // backward:
                                  "acquire 1", "release 1", "acquire 2", "release 2", "acquire 1",
                                  "release 1", "acquire 0", "release 0", "end"));
  }
}

// A body is run once forward and once more in backward, and forward keeps nothing of it.
TEST(Block, OnlyInputsAreKeptWhenItIsComputedAgain) {
  Net net;
  int runs = 0;
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> inner;
  const BlockScope scope({nullptr, false, true});
  const torch::Tensor x = torch::randn({4, 5}).requires_grad_();
  const torch::Tensor out = run_block(*net.layers[0], {x}, [&](const Tensors& in) {
    const torch::Tensor middle = torch::matmul(in[0], net.layers[0]->weight);
    if (runs++ == 0) inner.emplace(middle.getIntrusivePtr());
    return Tensors{middle.sin(), {}};
  })[0];
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(inner->expired());
  out.sum().backward();
  EXPECT_EQ(runs, 2);
}

TEST(Block, AParameterThatIsNotItsOwnIsFoundOut) {
  Net net;
  const BlockScope scope({nullptr, false, true});
  const torch::Tensor out = run_block(*net.layers[0], {net.x}, [&](const Tensors& in) {
    return Tensors{
        torch::matmul(torch::matmul(in[0], net.layers[0]->weight), net.layers[1]->weight)};
  })[0];
  try {
    out.sum().backward();
    FAIL();
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("a parameter that is not its own"));
  }
}

}  // namespace
}  // namespace craton::tensor
