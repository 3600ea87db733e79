#include "craton/volume/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/volume/sampling/formula_volume.h"
#include "craton/volume/sampling/pass_plan.h"
#include "craton/volume/sampling/permutation.h"

namespace craton::volume {
namespace {

using Shape = std::vector<int64_t>;

std::shared_ptr<FormulaVolume> cube(Shape shape, Shape chunk, std::string name = "cube") {
  return std::make_shared<FormulaVolume>(
      std::move(shape), std::move(chunk),
      [](auto at) { return static_cast<float>(at.back() % 7) - 3; }, std::move(name));
}

SamplerSettings settings_for(Shape window) {
  SamplerSettings s;
  s.window = std::move(window);
  s.seed = 5;
  s.working_set_bytes = 8 << 20;
  return s;
}

bool overlap(const WindowSpec& a, const WindowSpec& b) {
  if (a.volume != b.volume) return false;
  for (size_t d = 0; d < a.origin.size(); ++d) {
    if (a.origin[d] >= b.origin[d] + b.shape[d] || b.origin[d] >= a.origin[d] + a.shape[d])
      return false;
  }
  return true;
}

void expect_inside(const WindowSpec& w, const Volume& v) {
  const Shape shape = v.info().shape();
  for (size_t d = 0; d < shape.size(); ++d) {
    ASSERT_GE(w.origin[d], 0);
    ASSERT_LE(w.origin[d] + w.shape[d], shape[d]);
  }
}

template <typename Make>
std::string message_of(Make make) {
  try {
    make();
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Permutation, IsOneForEverySizeAndDiffersByKey) {
  for (const int64_t size : {1, 2, 3, 7, 64, 1000, 4097}) {
    std::vector<int> seen(static_cast<size_t>(size));
    const Permutation p(size, Philox(1, RandomPurpose::kTest, 2));
    int64_t fixed = 0;
    for (int64_t n = 0; n < size; ++n) {
      ++seen[static_cast<size_t>(p(n))];
      fixed += p(n) == n;
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), size);
    if (size > 50) {
      EXPECT_LT(fixed, 10);
    }
  }
  const Permutation a(1000, Philox(1, RandomPurpose::kTest, 2)),
      b(1000, Philox(1, RandomPurpose::kTest, 3));
  int same = 0;
  for (int64_t n = 0; n < 1000; ++n) same += a(n) == b(n);
  EXPECT_LT(same, 15);
}

TEST(Space, SlabsLieApartAndCoverTheVolume) {
  const std::vector<Orientation> o = {{{0, 1, 2}, {16, 64, 64}, {8, 32, 32}}};
  const Shape shape = {256, 256, 256};
  const Split split = split_space(shape, o, 0.1);
  EXPECT_EQ(split.axis, 0);  // where a window is thinnest, least is lost
  ASSERT_EQ(split.validation.size(), 1u);
  EXPECT_EQ(split.validation[0].extent(0), 26);
  ASSERT_EQ(split.training.size(), 1u);
  EXPECT_EQ(split.training[0].high[0], split.validation[0].low[0]);
  // Large ones get several slabs, spread evenly.
  const Split large = split_space(Shape{2000, 700, 500}, o, 0.1);
  EXPECT_EQ(large.validation.size(), 4u);
  int64_t held = 0, trained = 0;
  for (const Box& b : large.validation) held += b.extent(0);
  for (const Box& b : large.training) trained += b.extent(0);
  EXPECT_EQ(held, 200);
  EXPECT_EQ(trained, 1800);
  // A volume that is one window wide is cut along the samples; without room anywhere there is no
  // validation.
  EXPECT_EQ(split_space(Shape{16, 64, 200}, o, 0.1).axis, 2);
  EXPECT_EQ(split_space(Shape{16, 64, 100}, o, 0.1).axis, -1);
  EXPECT_EQ(split_space(shape, o, 0).axis, -1);
}

TEST(Space, BlocksPartitionTheBoxAtChunkBorders) {
  const std::vector<Orientation> o = {{{0, 1, 2}, {16, 32, 32}, {8, 16, 16}}};
  const Box box{{10, 0, 0}, {500, 310, 640}};
  const Shape chunk = {64, 64, 64};
  std::vector<std::vector<Box>> cuts;
  for (const int cut : {0, 1}) {
    const auto blocks = cut_blocks(box, chunk, o, 8 << 20, cut);
    EXPECT_GT(blocks.size(), 8u);
    int64_t volume = 0;
    for (const Box& b : blocks) {
      volume += b.extent(0) * b.extent(1) * b.extent(2);
      EXPECT_TRUE(fits(o[0], b));
      EXPECT_LE(chunk_bytes_of(b, chunk), 12u << 20);  // whole chunks, and room for windows
      for (size_t d = 0; d < 3; ++d) {
        EXPECT_TRUE(b.low[d] == box.low[d] || b.low[d] % 64 == 0);
        EXPECT_TRUE(b.high[d] == box.high[d] || b.high[d] % 64 == 0);
      }
    }
    EXPECT_EQ(volume, int64_t{490} * 310 * 640);
    cuts.push_back(blocks);
  }
  EXPECT_NE(cuts[0], cuts[1]);
  // Blocks stay large enough for a window, whatever the bytes.
  for (const Box& b : cut_blocks(box, chunk, o, 1, 1)) EXPECT_TRUE(fits(o[0], b));
}

TEST(Sampler, APassUsesEveryWindowOnce) {
  // Small enough a working set for many blocks: 2 x 16 MiB volume.
  const auto volume = cube({96, 96, 128}, {32, 32, 32});
  SamplerSettings s = settings_for({8, 16, 16});
  s.working_set_bytes = 1 << 20;
  const WindowSampler sampler({{volume}}, s);
  int64_t number = 0;
  for (int64_t pass = 0; pass < 4; ++pass) {
    std::set<Shape> origins;
    std::map<Shape, int> cells;
    const int64_t count = sampler.windows_per_pass(0, pass);
    for (int64_t n = 0; n < count; ++n, ++number) {
      const WindowSpec w = sampler.locate(number);
      ASSERT_EQ(w.pass, pass);
      expect_inside(w, *volume);
      origins.insert(w.origin);
    }
    EXPECT_EQ(static_cast<int64_t>(origins.size()), count);
    EXPECT_EQ(sampler.locate(number).pass, pass + 1);
    // Each half stride of each axis was visited about as often as any other: the volume is covered.
    EXPECT_GT(count, 96 * 96 * 128 / (8 * 16 * 16));
  }
}

TEST(Sampler, CellsOfAPassAreDistinctAndComplete) {
  const Shape shape = {64, 80, 96}, chunk = {32, 32, 32};
  const std::vector<Orientation> o = {{{0, 1, 2}, {8, 16, 16}, {4, 8, 8}}};
  const DeadMap dead(std::vector<uint8_t>(64 * 80, 1), Shape{64, 80});
  const PassPlan plan(shape, chunk, o, split_space(shape, o, 0.2), dead, 0.5, 1 << 18, 1, 0);
  for (int64_t pass = 0, index = 0; pass < 3; ++pass) {
    std::set<std::pair<Shape, Shape>> cells;
    int64_t origins = 0;
    for (int64_t n = 0; n < plan.windows(pass); ++n, ++index) {
      int64_t found = -1;
      const auto cell = plan.cell(index, found);
      ASSERT_EQ(found, pass);
      for (size_t d = 0; d < 3; ++d) ASSERT_GE(cell.size[d], 1);
      origins += cell.size[0] * cell.size[1] * cell.size[2];
      ASSERT_TRUE(cells.emplace(cell.begin, cell.size).second);
    }
    // The cells hold every origin of every block once: their sizes add up to all origins.
    int64_t all = 0;
    for (const Box& part : split_space(shape, o, 0.2).training) {
      for (const Box& b : cut_blocks(part, chunk, o, (1 << 18) / 4, static_cast<int>(pass % 2))) {
        all += (b.extent(0) - 7) * (b.extent(1) - 15) * (b.extent(2) - 15);
      }
    }
    EXPECT_EQ(origins, all);
  }
}

TEST(Sampler, AnswersDoNotDependOnWhoAsksOrWhen) {
  const auto make = [] {
    return std::make_unique<WindowSampler>(
        std::vector<SampledVolume>{{cube({64, 64, 64}, {16, 16, 16}), 1},
                                   {cube({40, 50, 60}, {16, 16, 16}), 3}},
        settings_for({8, 16, 16}));
  };
  const auto a = make(), b = make();
  std::vector<WindowSpec> forward;
  for (int64_t n = 0; n < 3000; ++n) forward.push_back(a->locate(n * 7));
  std::vector<WindowSpec> backward(3000);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t n = 2999 - t; n >= 0; n -= 3)
        backward[static_cast<size_t>(n)] = b->locate(n * 7);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_TRUE(forward == backward);
  SamplerSettings other = settings_for({8, 16, 16});
  other.seed = 6;
  const WindowSampler c(
      {{cube({64, 64, 64}, {16, 16, 16}), 1}, {cube({40, 50, 60}, {16, 16, 16}), 3}}, other);
  int same = 0;
  for (int64_t n = 0; n < 3000; ++n) same += c.locate(n * 7) == forward[static_cast<size_t>(n)];
  EXPECT_LT(same, 10);
}

TEST(Sampler, NoTrainingWindowTouchesAValidationWindow) {
  for (const Shape& window : {Shape{8, 24, 24}, Shape{24, 32}}) {
    const auto volume = cube({60, 90, 120}, {32, 32, 32});
    SamplerSettings s = settings_for(window);
    s.working_set_bytes = 1 << 20;
    const WindowSampler sampler({{volume}}, s);
    ASSERT_GT(sampler.validation_size(), 4);
    for (int64_t v = 0; v < sampler.validation_size(); ++v) {
      const WindowSpec held = sampler.locate_validation(v);
      expect_inside(held, *volume);
      EXPECT_EQ(held.flips, 0u);
      EXPECT_EQ(held.gain, 1);
      EXPECT_EQ(held.noise, 0);
    }
    for (int64_t n = 0; n < 2 * sampler.windows(); n += 3) {
      const WindowSpec w = sampler.locate(n);
      for (int64_t v = 0; v < sampler.validation_size(); ++v)
        ASSERT_FALSE(overlap(w, sampler.locate_validation(v)));
    }
    s.seed = 99;  // the split is the volume's, not the seed's
    const WindowSampler other({{volume}}, s);
    EXPECT_EQ(sampler.locate_validation(3), other.locate_validation(3));
  }
}

TEST(Sampler, TakesSectionsOfCubesAndWindowsOfLines) {
  const auto volume = cube({40, 64, 64}, {16, 16, 16});
  SamplerSettings s = settings_for({32, 32});
  const WindowSampler both({{volume}}, s);
  std::map<std::vector<int32_t>, int> kinds;
  for (int64_t n = 0; n < both.windows(); ++n) {
    const WindowSpec w = both.locate(n);
    expect_inside(w, *volume);
    ++kinds[w.axes];
    EXPECT_EQ(w.shape, w.axes[0] == 1 ? (Shape{1, 32, 32}) : (Shape{32, 1, 32}));
    EXPECT_LT(w.flips, 2u);
  }
  EXPECT_EQ(kinds.size(), 2u);
  s.sections = "inline";
  const WindowSampler lines({{volume}}, s);
  for (int64_t n = 0; n < 50; ++n) EXPECT_EQ(lines.locate(n).axes, (std::vector<int32_t>{1, 2}));
  // Only crosslines are long enough here.
  s.sections = "both";
  s.window = {50, 32};
  EXPECT_EQ(WindowSampler({{volume}}, s).locate(0).axes, (std::vector<int32_t>{1, 2}));
  s.window = {32, 32};
  const WindowSampler line({{cube({300, 200}, {128, 128}, "line")}}, s);
  EXPECT_EQ(line.locate(1).axes, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(line.locate(1).shape, (Shape{32, 32}));
}

TEST(Sampler, VolumesComeInTheProportionOfTheirWeights) {
  const auto a = cube({64, 64, 64}, {32, 32, 32}, "a"), b = cube({128, 128, 64}, {32, 32, 32}, "b");
  const WindowSampler weighted({{a, 3}, {b, 1}}, settings_for({8, 16, 16}));
  int64_t from_a = 0;
  for (int64_t n = 0; n < 4096; ++n) from_a += weighted.locate(n).volume == 0;
  EXPECT_EQ(from_a, 3072);
  EXPECT_DOUBLE_EQ(weighted.share(0), 0.75);
  // Mixed sample by sample, not volume after volume.
  int64_t changes = 0;
  for (int64_t n = 0; n < 999; ++n)
    changes += weighted.locate(n).volume != weighted.locate(n + 1).volume;
  EXPECT_GT(changes, 250);
  // Each volume uses its windows once per pass of its own.
  for (const int32_t v : {0, 1}) {
    std::set<Shape> origins;
    int64_t count = 0;
    for (int64_t n = 0; count < weighted.windows_per_pass(v, 0); ++n) {
      const WindowSpec w = weighted.locate(n);
      if (w.volume != v) continue;
      ++count;
      ASSERT_EQ(w.pass, 0);
      origins.insert(w.origin);
    }
    EXPECT_EQ(static_cast<int64_t>(origins.size()), count);
  }
  const WindowSampler by_size({{a}, {b}}, settings_for({8, 16, 16}));
  const double expected =
      static_cast<double>(by_size.windows_per_pass(0, 0)) / static_cast<double>(by_size.windows());
  EXPECT_NEAR(by_size.share(0), expected, 0.01);
}

TEST(Sampler, AvoidsDeadAreas) {
  const auto volume = cube({64, 96, 64}, {32, 32, 32});
  auto& live = volume->editable_live();
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t x = 0; x < 96; ++x) {
      if (x > 20 && x < 60 && i > 10) live[static_cast<size_t>(i * 96 + x)] = 0;
    }
  }
  SamplerSettings s = settings_for({16, 16, 16});
  s.dead_fraction_limit = 0.25;
  const WindowSampler sampler({{volume}}, s);
  const DeadMap dead(live, Shape{64, 96});
  for (int64_t n = 0; n < 2 * sampler.windows(); ++n) {
    const WindowSpec w = sampler.locate(n);
    ASSERT_LE(dead.fraction(w.origin, w.shape), 0.25);
  }
  for (int64_t v = 0; v < sampler.validation_size(); ++v) {
    const WindowSpec w = sampler.locate_validation(v);
    EXPECT_LE(dead.fraction(w.origin, w.shape), 0.25);
  }
  // Neighbours of the hole are still used.
  bool near = false;
  for (int64_t n = 0; n < sampler.windows(); ++n) {
    const WindowSpec w = sampler.locate(n);
    near = near || dead.fraction(w.origin, w.shape) > 0.1;
  }
  EXPECT_TRUE(near);
  std::fill(live.begin(), live.end(), 0);
  EXPECT_THAT(message_of([&] { WindowSampler all_dead({{volume}}, s); }),
              testing::HasSubstr("dead"));
}

TEST(Sampler, AugmentationHasTheStatedStatistics) {
  SamplerSettings s = settings_for({8, 16, 16});
  s.augmentation = {.flip = true, .polarity = true, .gain = 0.3, .noise = 0.2};
  const WindowSampler sampler({{cube({64, 64, 64}, {32, 32, 32})}}, s);
  const int64_t count = 20000;
  double gain = 0, noise = 0, negative = 0, low = 9, high = 0;
  std::map<uint32_t, int64_t> flips;
  for (int64_t n = 0; n < count; ++n) {
    const WindowSpec w = sampler.locate(n);
    ++flips[w.flips];
    negative += w.gain < 0;
    const double size = std::abs(w.gain);
    gain += size, low = std::min(low, size), high = std::max(high, size);
    noise += w.noise;
    EXPECT_LT(w.noise, 0.2);
  }
  ASSERT_EQ(flips.size(), 4u);
  for (const auto& [bits, times] : flips)
    EXPECT_NEAR(static_cast<double>(times) / count, 0.25, 0.015);
  EXPECT_NEAR(negative / count, 0.5, 0.015);
  EXPECT_NEAR(gain / count, 1, 0.006);
  EXPECT_NEAR(low, 0.7, 0.002);
  EXPECT_NEAR(high, 1.3, 0.002);
  EXPECT_NEAR(noise / count, 0.1, 0.002);
  s.augmentation = {.flip = false, .gain = 0};
  const WindowSpec plain = WindowSampler({{cube({64, 64, 64}, {32, 32, 32})}}, s).locate(5);
  EXPECT_EQ(plain.flips, 0u);
  EXPECT_EQ(plain.gain, 1);
}

TEST(Sampler, SaysWhatIsWrong) {
  const auto volume = cube({64, 64, 64}, {32, 32, 32}, "f3");
  const auto with = [&](auto change) {
    SamplerSettings s = settings_for({8, 16, 16});
    change(s);
    return message_of([&] { WindowSampler sampler({{volume}}, s); });
  };
  const std::string large = with([](auto& s) { s.window = {8, 128, 16}; });
  EXPECT_THAT(large, testing::AllOf(testing::HasSubstr("8x128x16"), testing::HasSubstr("f3"),
                                    testing::HasSubstr("64x64x64")));
  EXPECT_THAT(with([](auto& s) { s.window = {8}; }), testing::HasSubstr("expected 2"));
  EXPECT_THAT(with([](auto& s) { s.window = {8, 0, 8}; }), testing::HasSubstr("window: 0"));
  EXPECT_THAT(with([](auto& s) { s.stride = {8}; }), testing::HasSubstr("stride"));
  EXPECT_THAT(with([](auto& s) { s.validation_fraction = 0.9; }),
              testing::HasSubstr("validation fraction"));
  EXPECT_THAT(with([](auto& s) { s.sections = "inlines"; }), testing::HasSubstr("inlines"));
  EXPECT_THAT(with([](auto& s) { s.augmentation.gain = 1.5; }), testing::HasSubstr("gain"));
  EXPECT_THAT(message_of([&] {
                WindowSampler s({{cube({64, 64}, {32, 32}, "line")}}, settings_for({8, 16, 16}));
              }),
              testing::HasSubstr("line"));
  EXPECT_THAT(message_of([&] {
                WindowSampler s({}, settings_for({8, 16, 16}));
              }),
              testing::HasSubstr("no volume"));
  EXPECT_THAT(message_of([&] {
                WindowSampler s({{volume, 1}, {volume, 0}}, settings_for({8, 16, 16}));
              }),
              testing::HasSubstr("weight"));
  auto flat = std::make_shared<FormulaVolume>(
      Shape{32, 32, 32}, Shape{32, 32, 32}, [](auto) { return 1.0f; }, "flat");
  flat->editable_info().statistics = {};
  EXPECT_THAT(message_of([&] {
                WindowSampler s({{flat}}, settings_for({8, 16, 16}));
              }),
              testing::HasSubstr("nothing to learn"));
}

TEST(Normalisation, ComesFromTheStoreOrFromTheSamples) {
  const auto volume =
      std::make_shared<FormulaVolume>(Shape{40, 40, 40}, Shape{16, 16, 16},
                                      [](auto at) { return 10 + (at[2] % 2 == 0 ? 4.0f : -4.0f); });
  volume->editable_info().statistics = {.count = 10, .sum = 20, .sum_squares = 130};
  const Normalisation stored = normalisation_of(*volume, 5);
  EXPECT_FLOAT_EQ(stored.mean, 2);
  EXPECT_FLOAT_EQ(stored.deviation, 3);
  EXPECT_FLOAT_EQ(stored.apply(5), 1);
  EXPECT_FLOAT_EQ(stored.apply(500), 5);
  EXPECT_FLOAT_EQ(stored.invert(stored.apply(-4)), -4);
  volume->editable_info().statistics = {};
  const Normalisation measured = normalisation_of(*volume, 0);
  EXPECT_FLOAT_EQ(measured.mean, 10);
  EXPECT_FLOAT_EQ(measured.deviation, 4);
}

}  // namespace
}  // namespace craton::volume
