#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "craton/base/error.h"
#include "craton/volume/synth/geology.h"
#include "craton/volume/synth/noise.h"
#include "craton/volume/synth/portable_math.h"

namespace craton::volume::synth {
namespace {

using Shape = std::vector<int64_t>;

struct Block {
  std::vector<float> samples;
  std::vector<uint8_t> live;
};

Block make(const SyntheticGeology& geology, const Shape& origin, const Shape& shape) {
  Block block;
  int64_t traces = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) traces *= shape[d];
  block.live.resize(static_cast<size_t>(traces));
  block.samples.resize(static_cast<size_t>(traces * shape.back()));
  geology.generate(origin, shape, block.samples, block.live);
  return block;
}

Block make_all(const SyntheticGeology& geology) {
  const Shape& shape = geology.options().shape;
  return make(geology, Shape(shape.size(), 0), shape);
}

double correlation(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 1e-30, bb = 1e-30;
  for (size_t n = 0; n < a.size(); ++n) {
    ab += a[n] * b[n], aa += a[n] * a[n], bb += b[n] * b[n];
  }
  return ab / std::sqrt(aa * bb);
}

double deviation(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float v : values) sum += v, squares += double(v) * v;
  const double n = static_cast<double>(values.size());
  return std::sqrt(squares / n - sum / n * sum / n);
}

TEST(PortableMath, AgreesWithTheSystem) {
  for (double x = -700; x < 700; x += 0.37) {
    EXPECT_NEAR(exponential(x) / std::exp(x), 1, 1e-12) << x;
    EXPECT_NEAR(sine_of_turns(x), std::sin(2 * 3.14159265358979323846 * (x - std::round(x))), 1e-10)
        << x;
  }
  EXPECT_EQ(sine_of_turns(1e5), 0);
  EXPECT_EQ(smooth_step(-1), 0);
  EXPECT_EQ(smooth_step(0.5), 0.5);
  EXPECT_EQ(smooth_step(2), 1);
}

TEST(SyntheticGeology, EveryBlockCanBeMadeAlone) {
  const SyntheticGeology geology({.shape = {52, 90, 100}, .seed = 11, .dead = 0.05});
  const Block all = make_all(geology);
  for (const Shape& origin :
       {Shape{0, 0, 0}, Shape{30, 60, 64}, Shape{7, 35, 3}, Shape{51, 89, 99}}) {
    const Shape shape = {std::min<int64_t>(17, 52 - origin[0]),
                         std::min<int64_t>(23, 90 - origin[1]),
                         std::min<int64_t>(36, 100 - origin[2])};
    const SyntheticGeology again({.shape = {52, 90, 100}, .seed = 11, .dead = 0.05});
    const Block block = make(again, origin, shape);
    size_t n = 0;
    for (int64_t i = 0; i < shape[0]; ++i) {
      for (int64_t x = 0; x < shape[1]; ++x) {
        const int64_t trace = (origin[0] + i) * 90 + origin[1] + x;
        ASSERT_EQ(block.live[static_cast<size_t>(i * shape[1] + x)],
                  all.live[static_cast<size_t>(trace)]);
        for (int64_t t = 0; t < shape[2]; ++t, ++n) {
          ASSERT_EQ(block.samples[n],
                    all.samples[static_cast<size_t>(trace * 100 + origin[2] + t)]);
        }
      }
    }
  }
}

TEST(SyntheticGeology, SeedsAndNoiseMatter) {
  const Shape shape = {24, 40, 128};
  const Block a = make_all(SyntheticGeology({.shape = shape, .seed = 1, .dead = 0}));
  const Block b = make_all(SyntheticGeology({.shape = shape, .seed = 2, .dead = 0}));
  const Block quiet =
      make_all(SyntheticGeology({.shape = shape, .seed = 1, .dead = 0, .noise = 0}));
  EXPECT_LT(std::abs(correlation(a.samples, b.samples)), 0.4);
  EXPECT_GT(correlation(a.samples, quiet.samples), 0.9);
  EXPECT_NE(a.samples, quiet.samples);
}

// Layers: neighbours look alike, but not the same; far traces do not. The sections are neither flat
// nor empty.
TEST(SyntheticGeology, IsLayeredAndFolded) {
  for (const uint64_t seed : {3u, 4u, 5u}) {
    const SyntheticGeology geology({.shape = {8, 256, 256}, .seed = seed, .dead = 0, .noise = 0});
    const Block block = make_all(geology);
    const auto trace = [&](size_t x) { return std::span(block.samples).subspan(x * 256, 256); };
    double near = 0, far = 0;
    for (size_t x = 0; x + 100 < 256; ++x) {
      near += correlation(trace(x), trace(x + 1)) / 156;
      far += correlation(trace(x), trace(x + 100)) / 156;
    }
    EXPECT_GT(near, 0.75);
    EXPECT_LT(near, 0.9999);
    EXPECT_LT(far, 0.6);
    EXPECT_GT(deviation(block.samples), 0.5);
    EXPECT_LT(deviation(block.samples), 2);
  }
}

TEST(SyntheticGeology, FrequencyFallsWithDepth) {
  const SyntheticGeology geology({.shape = {16, 64, 512}, .seed = 6, .dead = 0, .noise = 0});
  const Block block = make_all(geology);
  const auto crossings = [&](size_t from, size_t to) {
    int64_t count = 0;
    for (size_t trace = 0; trace < 16 * 64; ++trace) {
      const float* s = block.samples.data() + trace * 512;
      for (size_t t = from; t + 1 < to; ++t) count += s[t] * s[t + 1] < 0;
    }
    return count;
  };
  EXPECT_GT(crossings(80, 180), 1.3 * crossings(400, 500));
}

TEST(SyntheticGeology, DeadTracesAreZeroAndAsManyAsAskedFor) {
  for (const double share : {0.0, 0.02, 0.3}) {
    const SyntheticGeology geology({.shape = {200, 200, 8}, .seed = 8, .dead = share});
    const Block block = make_all(geology);
    int64_t dead = 0;
    for (size_t trace = 0; trace < block.live.size(); ++trace) {
      if (block.live[trace]) continue;
      ++dead;
      for (size_t t = 0; t < 8; ++t) ASSERT_EQ(block.samples[trace * 8 + t], 0);
    }
    EXPECT_NEAR(static_cast<double>(dead) / 40000, share, 0.2 * share);
  }
}

TEST(SyntheticGeology, WhiteNoiseIsWhite) {
  std::vector<float> a(20000), b(20000);
  white_noise(1, 5, 6, 0, a);
  white_noise(1, 5, 7, 0, b);
  EXPECT_NEAR(deviation(a), 1, 0.03);
  EXPECT_NEAR(std::accumulate(a.begin(), a.end(), 0.0) / 20000, 0, 0.03);
  EXPECT_NEAR(correlation(a, b), 0, 0.03);
  EXPECT_NEAR(correlation(std::span(a).subspan(1), std::span(a).first(19999)), 0, 0.03);
  std::vector<float> part(100);
  white_noise(1, 5, 6, 333, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), a.begin() + 333));
}

TEST(SyntheticGeology, LinesAndTinyAndThinSurveys) {
  for (const Shape& shape : {Shape{300, 256}, Shape{8, 8, 8}, Shape{8, 400, 64}, Shape{8, 2000}}) {
    const SyntheticGeology geology({.shape = shape, .seed = 2});
    const Block block = make_all(geology);
    EXPECT_GT(deviation(block.samples), 0.1);
    const auto axes = geology.axes();
    ASSERT_EQ(axes.size(), shape.size());
    EXPECT_EQ(axes.front().name, shape.size() == 2 ? "cdp" : "inline");
    EXPECT_EQ(axes.back().coordinates[1], 4);
    for (const float v : block.samples) ASSERT_TRUE(std::isfinite(v));
  }
}

TEST(SyntheticGeology, SaysWhatIsWrongWithTheOptions) {
  const auto message = [](GeologyOptions options) {
    try {
      SyntheticGeology geology(options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({.shape = {64}}), testing::HasSubstr("2 axes"));
  EXPECT_THAT(message({.shape = {64, 64, 4}}), testing::HasSubstr("expected 8"));
  EXPECT_THAT(message({.shape = {64, 64, int64_t{1} << 40}}), testing::HasSubstr("expected 8"));
  EXPECT_THAT(message({.shape = {64, 64, 64}, .dead = -0.1}), testing::HasSubstr("dead"));
  EXPECT_THAT(message({.shape = {64, 64, 64}, .noise = std::nan("")}), testing::HasSubstr("noise"));
}

}  // namespace
}  // namespace craton::volume::synth
