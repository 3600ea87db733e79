#include "craton/volume/sampling/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <mutex>
#include <set>
#include <thread>

#include "craton/base/error.h"
#include "craton/volume/sampling/formula_volume.h"

namespace craton::volume {
namespace {

using Shape = std::vector<int64_t>;

// A sample says where it is.
float address(std::span<const int64_t> at) {
  float value = 1;
  for (const int64_t n : at) value = value * 128 + static_cast<float>(n);
  return value;
}

std::shared_ptr<FormulaVolume> addressed(Shape shape, Shape chunk) {
  auto volume =
      std::make_shared<FormulaVolume>(std::move(shape), std::move(chunk), address, "addressed");
  return volume;
}

SamplerSettings plain(Shape window) {
  SamplerSettings s;
  s.window = std::move(window);
  s.seed = 3;
  s.clip_deviations = 0;
  s.working_set_bytes = 4 << 20;
  s.augmentation = {.flip = false, .gain = 0};
  return s;
}

std::shared_ptr<WindowSampler> sampler_of(std::shared_ptr<const Volume> volume, SamplerSettings s) {
  return std::make_shared<WindowSampler>(std::vector<SampledVolume>{{std::move(volume)}},
                                         std::move(s));
}

std::vector<float> take(WindowLoader& loader, int64_t number) {
  std::vector<float> out(static_cast<size_t>(loader.sampler().largest_window()), -1);
  loader.take(number, out);
  return out;
}

// The window's samples one by one, by the definition of WindowSpec.
std::vector<float> expected(const WindowSpec& w, const Volume& v, const Shape& window) {
  std::vector<float> out;
  Shape at(window.size(), 0);
  for (;;) {
    Shape place = w.origin;
    for (size_t k = 0; k < window.size(); ++k) {
      place[static_cast<size_t>(w.axes[k])] +=
          (w.flips >> k & 1) != 0 ? window[k] - 1 - at[k] : at[k];
    }
    const Shape one(place.size(), 1);
    std::vector<float> sample(1);
    v.read(place, one, sample);
    out.push_back(sample[0] * w.gain);
    size_t d = window.size();
    while (d-- > 0) {
      if (++at[d] < window[d]) break;
      at[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return out;
  }
}

TEST(Loader, GivesTheSamplesThatTheSpecNames) {
  for (const bool augmented : {false, true}) {
    for (const Shape& window : {Shape{5, 12, 20}, Shape{12, 20}}) {
      const auto volume = addressed({40, 50, 60}, {16, 16, 16});
      volume->editable_live()[50 * 7 + 9] = 0;
      SamplerSettings s = plain(window);
      if (augmented) s.augmentation = {.flip = true, .polarity = true, .gain = 0.5};
      const auto sampler = sampler_of(volume, s);
      WindowLoader loader(sampler, {.threads = 0, .budget_bytes = 1 << 20});
      uint32_t flips = 0;
      for (int64_t n = 0; n < 40; ++n) {
        const WindowSpec w = sampler->locate(n);
        flips |= w.flips;
        ASSERT_EQ(take(loader, n), expected(w, *volume, window));
      }
      EXPECT_EQ(flips, !augmented ? 0u : window.size() == 3 ? 3u : 1u);
      std::vector<float> held(static_cast<size_t>(sampler->largest_window()));
      loader.take_validation(2, held);
      EXPECT_EQ(held, expected(sampler->locate_validation(2), *volume, window));
    }
  }
  const auto line = addressed({100, 90}, {32, 64});
  const auto sampler = sampler_of(line, plain({30, 20}));
  WindowLoader loader(sampler, {.threads = 0, .budget_bytes = 1 << 20});
  for (int64_t n = 0; n < 20; ++n)
    ASSERT_EQ(take(loader, n), expected(sampler->locate(n), *line, {30, 20}));
}

TEST(Loader, EachVolumeMayHaveAWindowOfItsOwn) {
  const auto wide = addressed({100, 90}, {32, 64}), narrow = addressed({20, 70}, {16, 32});
  const auto sampler = std::make_shared<WindowSampler>(
      std::vector<SampledVolume>{{wide}, {narrow, 0, {12, 8}}}, plain({30, 20}));
  EXPECT_EQ(sampler->largest_window(), 600);
  WindowLoader loader(sampler, {.threads = 1, .budget_bytes = 1 << 20});
  std::vector<int64_t> numbers(60);
  for (size_t n = 0; n < numbers.size(); ++n) numbers[n] = static_cast<int64_t>(n);
  loader.expect(numbers);
  std::set<Shape> seen;
  for (const int64_t n : numbers) {
    const WindowSpec w = sampler->locate(n);
    const Shape window = w.volume == 0 ? Shape{30, 20} : Shape{12, 8};
    seen.insert(w.window_shape());
    ASSERT_EQ(w.window_shape(), window);
    std::vector<float> out(static_cast<size_t>(w.elements()));
    loader.take(n, out);
    ASSERT_EQ(out, expected(w, sampler->volume(w.volume), window)) << n;
  }
  EXPECT_EQ(seen.size(), 2u);
  bool both[2] = {};
  for (int64_t k = 0; k < sampler->validation_size(); ++k)
    both[sampler->locate_validation(k).volume] = true;
  EXPECT_TRUE(both[0] && both[1]);
  EXPECT_THROW(WindowSampler({{narrow, 0, {12}}}, plain({30, 20})), Error);
}

TEST(Loader, NormalisesClipsAndKeepsDeadTracesAtZero) {
  const auto volume =
      std::make_shared<FormulaVolume>(Shape{32, 32, 32}, Shape{32, 32, 32}, [](auto at) {
        if (at[2] == 3) return std::numeric_limits<float>::quiet_NaN();
        return at[2] == 5 ? 1e9f : 30.0f;
      });
  volume->editable_info().statistics = {
      .count = 2, .sum = 20, .sum_squares = 400};  // mean 10, deviation 10
  volume->editable_live()[5 * 32 + 5] = 0;
  SamplerSettings s = plain({32, 32, 32});
  s.clip_deviations = 4;
  s.validation_fraction = 0;
  s.augmentation.noise = 1;
  WindowLoader loader(sampler_of(volume, s), {.threads = 1, .budget_bytes = 1 << 20});
  const WindowSpec w = loader.sampler().locate(0);
  ASSERT_GT(w.noise, 0);
  const std::vector<float> out = take(loader, 0);
  const auto at = [&](size_t i, size_t x, size_t t) { return out[(i * 32 + x) * 32 + t]; };
  for (size_t t = 0; t < 32; ++t) EXPECT_EQ(at(5, 5, t), 0);
  double sum = 0, squares = 0, clipped = 0, missing = 0;
  for (size_t i = 0; i < 32; ++i) {
    for (size_t x = 0; x < 32; ++x) {
      if (i == 5 && x == 5) continue;
      const double v = at(i, x, 10) - 2.0;
      sum += v, squares += v * v;
      clipped += at(i, x, 5), missing += at(i, x, 3);
    }
  }
  const double deviation = std::sqrt(squares / 1023);
  EXPECT_NEAR(sum / 1023, 0, 0.15 * w.noise);
  EXPECT_NEAR(deviation / w.noise, 1, 0.1);
  EXPECT_NEAR(clipped / 1023, 4, 0.15 * w.noise);
  EXPECT_NEAR(missing / 1023, 0, 0.15 * w.noise);
}

TEST(Loader, BitsDoNotDependOnThreadsOrderOrForesight) {
  SamplerSettings s = plain({6, 16, 16});
  s.augmentation = {.flip = true, .polarity = true, .gain = 0.3, .noise = 0.5};
  const auto sampler = sampler_of(addressed({48, 64, 64}, {16, 16, 16}), s);
  WindowLoader quiet(sampler, {.threads = 0, .budget_bytes = 4 << 20});
  std::vector<std::vector<float>> truth;
  for (int64_t n = 0; n < 60; ++n) truth.push_back(take(quiet, n));
  for (const size_t threads : {1u, 3u}) {
    // A tight budget: chunks and windows come and go.
    WindowLoader loader(sampler, {.threads = threads, .budget_bytes = 160 << 10});
    std::vector<int64_t> future;
    for (int64_t n = 0; n < 50; ++n) future.push_back(n);
    loader.expect(future);
    for (int64_t n = 0; n < 25; ++n) ASSERT_EQ(take(loader, n), truth[static_cast<size_t>(n)]);
    future.assign({40, 41, 42, 30, 31});  // the plan changed
    loader.expect(future);
    for (const int64_t n : {42, 30, 59, 41, 40, 31, 42})
      ASSERT_EQ(take(loader, n), truth[static_cast<size_t>(n)]);
    EXPECT_LE(loader.metrics().peak_bytes, 160u << 10);
    EXPECT_GT(loader.metrics().peak_bytes, 0u);
  }
}

// Workers that share a window read a slab of it each: together exactly the window, whatever was
// done to it.
TEST(Loader, PartsOfAWindowMakeUpTheWindow) {
  for (const Shape& window : {Shape{20, 12, 10}, Shape{20, 10}}) {
    const auto volume = addressed({60, 50, 40}, {16, 16, 16});
    SamplerSettings s = plain(window);
    s.augmentation = {.flip = true, .polarity = true, .gain = 0.3, .noise = 0.5};
    const auto whole = sampler_of(volume, s);
    WindowLoader of_whole(whole, {});
    for (const int64_t parts : {2, 3, 5}) {
      s.parts = parts;
      s.grain = 4;
      const auto shared = sampler_of(volume, s);
      WindowLoader of_parts(shared, {});
      std::set<int64_t> sizes;
      for (int64_t n = 0; n < 12; ++n) {
        std::vector<float> together;
        for (int64_t p = 0; p < parts; ++p) {
          const WindowSpec w = shared->locate(n * parts + p);
          EXPECT_EQ(w.first_row * (w.elements() / w.window_shape()[0]),
                    static_cast<int64_t>(together.size()));
          EXPECT_EQ(w.window_shape()[0] % 4, 0);
          EXPECT_LE(w.elements(), shared->largest_window());
          sizes.insert(w.window_shape()[0]);
          std::vector<float> part(static_cast<size_t>(w.elements()));
          of_parts.take(n * parts + p, part);
          together.insert(together.end(), part.begin(), part.end());
          std::vector<float> pieces;  // the part, four rows at a time
          for (int64_t row = 0; row < w.window_shape()[0]; row += 4) {
            const WindowSpec tile = w.slab(row, 4);
            EXPECT_EQ(tile.first_row, w.first_row + row);
            std::vector<float> samples(static_cast<size_t>(tile.elements()));
            of_parts.assemble(tile, samples);
            pieces.insert(pieces.end(), samples.begin(), samples.end());
          }
          ASSERT_EQ(pieces, part) << "part " << p << " of sample " << n;
        }
        ASSERT_EQ(together, take(of_whole, n)) << parts << " parts of sample " << n;
      }
      EXPECT_EQ(sizes.size(), parts == 5 ? 1u : 2u) << parts;  // 5 patches of 4 rows
    }
  }
}

TEST(Loader, ManyCallersShareTheBudget) {
  const auto sampler = sampler_of(addressed({48, 64, 64}, {16, 16, 16}), plain({6, 16, 16}));
  WindowLoader quiet(sampler, {.threads = 0, .budget_bytes = 4 << 20});
  std::vector<std::vector<float>> truth;
  for (int64_t n = 0; n < 120; ++n) truth.push_back(take(quiet, n));
  const uint64_t budget = 100 << 10;
  WindowLoader loader(sampler, {.threads = 2, .budget_bytes = budget});
  std::vector<int64_t> future;
  for (int64_t n = 0; n < 120; ++n) future.push_back(n);
  loader.expect(future);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int64_t c = 0; c < 4; ++c) {
    callers.emplace_back([&, c] {
      for (int64_t n = c; n < 120; n += 4)
        wrong += take(loader, n) != truth[static_cast<size_t>(n)];
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
  const LoaderMetrics m = loader.metrics();
  EXPECT_LE(m.peak_bytes, budget);
  EXPECT_EQ(m.windows_ready + m.windows_late, 120);
}

// One pass over a volume many times larger than the working set: each chunk is fetched about once.
TEST(Loader, FetchesAChunkAboutOncePerPass) {
  const auto volume = addressed({64, 128, 128}, {16, 16, 16});  // 256 chunks of 16 KiB: 4 MiB
  SamplerSettings s = plain({4, 8, 8});
  s.working_set_bytes = 1 << 20;
  s.validation_fraction = 0.125;
  const auto sampler = sampler_of(volume, s);
  WindowLoader loader(sampler, {.threads = 1, .budget_bytes = s.working_set_bytes + (64 << 10)});
  int64_t number = 0;
  std::vector<float> out(static_cast<size_t>(sampler->largest_window()));
  for (int64_t pass = 0; pass < 2; ++pass) {
    const int64_t before = volume->chunk_reads();
    for (const int64_t end = number + sampler->windows_per_pass(0, pass); number < end; ++number) {
      if (number % 16 == 0) {
        std::vector<int64_t> future(32);
        for (size_t k = 0; k < 32; ++k) future[k] = number + static_cast<int64_t>(k);
        loader.expect(future);
      }
      loader.take(number, out);
    }
    const auto touched = static_cast<double>(volume->chunks_touched().size());
    EXPECT_GT(touched, 200);
    EXPECT_LE(static_cast<double>(volume->chunk_reads() - before), 1.1 * touched);
  }
  EXPECT_GT(loader.metrics().chunk_hits, 10 * loader.metrics().chunks_fetched);
}

TEST(Loader, ServesFromReadyWindowsAndCountsWaiting) {
  const auto sampler = sampler_of(addressed({48, 64, 64}, {16, 16, 16}), plain({6, 16, 16}));
  WindowLoader loader(sampler, {.threads = 1, .budget_bytes = 4 << 20});
  take(loader, 0);
  EXPECT_EQ(loader.metrics().windows_late, 1);
  EXPECT_GT(loader.metrics().seconds_waited, 0);
  loader.expect({1, 2, 3});
  while (loader.metrics().windows_finished < 3) std::this_thread::yield();
  const double waited = loader.metrics().seconds_waited;
  for (const int64_t n : {3, 1, 2}) take(loader, n);
  const LoaderMetrics m = loader.metrics();
  EXPECT_EQ(m.windows_ready, 3);
  EXPECT_EQ(m.windows_late, 1);
  EXPECT_EQ(m.seconds_waited, waited);
  EXPECT_EQ(m.windows_finished, 0);
}

TEST(Loader, ReadErrorsReachTheOneWhoTakes) {
  const auto volume = addressed({48, 64, 64}, {16, 16, 16});
  const auto sampler = sampler_of(volume, plain({6, 16, 16}));
  for (int64_t a = 0; a < 3; ++a) {
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t c = 0; c < 4; ++c) volume->break_chunk({a, b, c});
    }
  }
  WindowLoader loader(sampler, {.threads = 2, .budget_bytes = 4 << 20});
  loader.expect({0, 1, 2, 3});
  for (const int64_t n : {0, 1, 2, 3, 0}) EXPECT_THROW(take(loader, n), Error);
  // Threads that help with a window may still be about to fail.
  while (loader.metrics().bytes_held > 0) std::this_thread::yield();
}

/// Reads wait until so many threads are reading.
class GatheringVolume final : public FormulaVolume {
 public:
  explicit GatheringVolume(size_t wanted)
      : FormulaVolume({32, 32, 64}, {16, 16, 16}, address), wanted_(wanted) {}
  void read_chunk(std::span<const int64_t> chunk, std::span<float> out) const override {
    {
      std::unique_lock lock(mutex_);
      readers_.insert(std::this_thread::get_id());
      changed_.notify_all();
      changed_.wait_for(lock, std::chrono::seconds(30), [&] { return readers_.size() >= wanted_; });
    }
    FormulaVolume::read_chunk(chunk, out);
  }
  size_t readers() const {
    const std::lock_guard lock(mutex_);
    return readers_.size();
  }

 private:
  const size_t wanted_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::set<std::thread::id> readers_;
};

TEST(Loader, AWindowThatIsWaitedForIsReadByAllThreadsTogether) {
  const auto volume = std::make_shared<GatheringVolume>(3);
  SamplerSettings s = plain({32, 32, 64});  // 16 chunks
  s.validation_fraction = 0;
  const auto sampler = sampler_of(volume, s);
  WindowLoader loader(sampler, {.threads = 2, .budget_bytes = 4 << 20});
  loader.expect({0});
  EXPECT_EQ(take(loader, 0), expected(sampler->locate(0), *volume, {32, 32, 64}));
  EXPECT_EQ(volume->readers(), 3u);
  EXPECT_EQ(volume->chunk_reads(), 16);
}

std::filesystem::path test_data() {
  if (const char* given = std::getenv("CRATON_TEST_DATA")) return given;
  // The tests run somewhere below the repository.
  for (auto at = std::filesystem::current_path(); at != at.root_path(); at = at.parent_path()) {
    if (std::filesystem::exists(at / "shared" / "data" / "mdio_v0")) return at / "shared" / "data";
  }
  return {};
}

// A real survey: windows of its store are its samples, normalised by its statistics.
TEST(Loader, ReadsAStoredSurvey) {
  const std::filesystem::path data = test_data();
  if (data.empty())
    GTEST_SKIP() << "no ../shared/data beside the repository and no CRATON_TEST_DATA";
  const std::shared_ptr<const Volume> f3 = open_volume((data / "mdio_v0" / "f3_v0.mdio").string());
  SamplerSettings s = plain({4, 6, 32});
  const auto sampler = sampler_of(f3, s);
  const Normalisation n = sampler->normalisation(0);
  EXPECT_GT(n.deviation, 0);
  WindowLoader loader(sampler, {.threads = 1, .budget_bytes = 64 << 20});
  loader.expect({0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<float> raw(4 * 6 * 32);
  for (int64_t k = 0; k < 8; ++k) {
    const WindowSpec w = sampler->locate(k);
    f3->read(w.origin, w.shape, raw);
    const std::vector<float> window = take(loader, k);
    for (size_t e = 0; e < raw.size(); ++e) {
      if (raw[e] != 0) {
        ASSERT_NEAR(window[e], n.apply(raw[e]), 1e-5);
      }
    }
  }
}

TEST(Loader, RefusesABudgetThatCannotWork) {
  const auto sampler = sampler_of(addressed({48, 64, 64}, {16, 16, 16}), plain({6, 16, 16}));
  try {
    WindowLoader loader(sampler, {.threads = 4, .budget_bytes = 32 << 10});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                testing::AllOf(testing::HasSubstr("32.0 KiB"), testing::HasSubstr("4 threads"),
                               testing::HasSubstr("at least")));
  }
}

}  // namespace
}  // namespace craton::volume
