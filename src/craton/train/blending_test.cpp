#include "craton/train/blending.h"

#include <gtest/gtest.h>

namespace craton::train {
namespace {

TEST(WindowOrigins, CoverEverySampleAndStayInside) {
  for (const int64_t size : {16, 17, 23, 24, 31, 100}) {
    for (const int64_t stride : {1, 3, 8, 16}) {
      std::vector<int> covered(static_cast<size_t>(size), 0);
      int64_t last = -1;
      for (const int64_t origin : window_origins(size, 16, stride)) {
        EXPECT_GT(origin, last);
        last = origin;
        for (int64_t i = 0; i < 16; ++i) covered.at(static_cast<size_t>(origin + i)) = 1;
      }
      EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), size) << size << " " << stride;
    }
  }
  EXPECT_EQ(window_origins(16, 16, 8), std::vector<int64_t>{0});
  EXPECT_EQ(window_origins(32, 16, 16), (std::vector<int64_t>{0, 16}));
  EXPECT_EQ(window_origins(20, 16, 8), (std::vector<int64_t>{0, 4}));
}

TEST(WindowStride, IsNeverNothing) {
  EXPECT_EQ(window_stride(32, 0.5), 16);
  EXPECT_EQ(window_stride(32, 0), 32);
  EXPECT_EQ(window_stride(32, 0.999), 1);
  EXPECT_EQ(window_stride(1, 0.5), 1);
}

TEST(Taper, RampsOfNeighboursSumToOne) {
  for (const auto& [window, overlap] : {std::pair<int64_t, int64_t>{32, 16}, {31, 15}, {32, 5}}) {
    const auto weights = taper(window, overlap);
    for (int64_t i = 0; i < overlap; ++i) {
      EXPECT_NEAR(
          weights[static_cast<size_t>(i)] + weights[static_cast<size_t>(window - overlap + i)], 1,
          1e-6);
    }
    for (int64_t i = overlap; i < window - overlap; ++i)
      EXPECT_EQ(weights[static_cast<size_t>(i)], 1);
    for (const float weight : weights) EXPECT_GT(weight, 0);
  }
  EXPECT_EQ(taper(1, 0), std::vector<float>{1});
  EXPECT_EQ(taper(1, 1), std::vector<float>{1});
}

// Predictions that agree on every sample must come out as they are, whatever the weights.
TEST(Blend, WeightsSumToOneEverywhere) {
  const Three volume = {9, 13, 22}, window = {4, 8, 8}, patch = {2, 4, 2};
  for (const double overlap : {0.0, 0.25, 0.5, 0.75}) {
    Blend::Geometry geometry{window, patch, {}, volume[1], volume[2]};
    for (size_t d = 0; d < 3; ++d) geometry.stride[d] = window_stride(window[d], overlap);
    Blend blend(geometry, [](int64_t, int64_t) { return true; });
    const auto value = [](int64_t i, int64_t x, int64_t t) {
      return static_cast<float>(100 * i + 10 * x + t);
    };
    const std::vector<uint8_t> hidden(2 * 2 * 4, 1);
    for (const int64_t a : window_origins(volume[0], window[0], geometry.stride[0])) {
      for (const int64_t b : window_origins(volume[1], window[1], geometry.stride[1])) {
        for (const int64_t c : window_origins(volume[2], window[2], geometry.stride[2])) {
          std::vector<float> prediction;
          for (int64_t i = 0; i < window[0]; ++i)
            for (int64_t x = 0; x < window[1]; ++x)
              for (int64_t t = 0; t < window[2]; ++t)
                prediction.push_back(value(a + i, b + x, c + t));
          blend.add({{a, b, c}, prediction, hidden});
        }
      }
    }
    for (int64_t i = 0; i < volume[0]; ++i) {
      for (int64_t x = 0; x < volume[1]; ++x) {
        const auto trace = blend.trace(i, x);
        ASSERT_TRUE(trace && trace->complete());
        for (int64_t t = 0; t < volume[2]; ++t) {
          const auto k = static_cast<size_t>(t);
          EXPECT_NEAR(trace->sum[k] / trace->weight[k], value(i, x, t), 1e-3);
        }
      }
    }
  }
}

TEST(Blend, TakesHiddenPatchesOfWantedTracesOnly) {
  const Blend::Geometry geometry{{2, 2, 4}, {1, 1, 2}, {2, 2, 4}, 2, 4};
  Blend blend(geometry, [](int64_t row, int64_t column) { return row == column; });
  std::vector<float> prediction(16, 5);
  std::vector<uint8_t> hidden(8, 0);
  hidden[1] = 1;              // trace (0, 0), lower half
  hidden[6] = hidden[7] = 1;  // trace (1, 1)
  hidden[2] = 1;              // trace (0, 1), which nobody wants
  blend.add({{0, 0, 0}, prediction, hidden});
  EXPECT_FALSE(blend.trace(0, 1));
  EXPECT_FALSE(blend.trace(0, 0)->complete());
  EXPECT_EQ(blend.trace(0, 0)->weight[1], 0);
  EXPECT_FLOAT_EQ(blend.trace(0, 0)->sum[2] / blend.trace(0, 0)->weight[2], 5);
  EXPECT_TRUE(blend.trace(1, 1)->complete());
  blend.drop_rows_before(1);
  EXPECT_FALSE(blend.trace(0, 0));
  EXPECT_TRUE(blend.trace(1, 1));
}

}  // namespace
}  // namespace craton::train
