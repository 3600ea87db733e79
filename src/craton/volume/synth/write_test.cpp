#include "craton/volume/synth/write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "craton/base/error.h"
#include "craton/runtime/file.h"

namespace craton::volume::synth {
namespace {

using Shape = std::vector<int64_t>;

TEST(WriteSyntheticVolume, StoresWhatTheGeologySays) {
  const runtime::TemporaryDirectory folder;
  for (const Shape& shape : {Shape{20, 33, 50}, Shape{70, 90}}) {
    const SyntheticGeology geology({.shape = shape, .seed = 4, .dead = 0.1});
    int64_t traces = 1;
    for (size_t d = 0; d + 1 < shape.size(); ++d) traces *= shape[d];
    std::vector<float> truth(static_cast<size_t>(traces * shape.back()));
    std::vector<uint8_t> live(static_cast<size_t>(traces));
    geology.generate(Shape(shape.size(), 0), shape, truth, live);
    for (const size_t threads : {1u, 3u}) {
      const std::string path = (folder.path() / ("v" + std::to_string(shape.size()))).string();
      WriteOptions options;
      options.chunk_shape = shape.size() == 3 ? Shape{8, 16, 16} : Shape{32, 32};
      options.threads = threads;
      options.replace = true;
      int64_t last = 0;
      options.progress = [&](int64_t done) {
        EXPECT_GT(done, last);
        last = done;
      };
      write_synthetic_volume(path, geology, options);
      EXPECT_EQ(last, static_cast<int64_t>(truth.size()));
      const auto volume = open_volume(path);
      EXPECT_EQ(volume->info().shape(), shape);
      EXPECT_EQ(volume->info().chunk_shape, options.chunk_shape);
      EXPECT_EQ(volume->live(), live);
      std::vector<float> read(truth.size());
      volume->read(Shape(shape.size(), 0), shape, read);
      EXPECT_EQ(read, truth);
      double sum = 0;
      for (const float v : truth) sum += static_cast<double>(v) * v;
      EXPECT_NEAR(volume->info().statistics.sum_squares / sum, 1, 1e-5);
    }
  }
}

TEST(WriteSyntheticVolume, LeavesNothingBehindOnBadOptions) {
  const runtime::TemporaryDirectory folder;
  const SyntheticGeology geology({.shape = {16, 16, 16}});
  WriteOptions options;
  const auto message = [&](Shape chunks) {
    options.chunk_shape = std::move(chunks);
    try {
      write_synthetic_volume((folder.path() / "v").string(), geology, options);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({8, 8}), testing::HasSubstr("2 numbers for a volume of 3 axes"));
  EXPECT_THAT(message({8, 0, 8}), testing::HasSubstr("chunks: 0"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(message({8, 8, 8}), "accepted");
  EXPECT_THAT(message({8, 8, 8}), testing::HasSubstr("exists"));
}

TEST(WriteSyntheticVolume, CanBeInterrupted) {
  const runtime::TemporaryDirectory folder;
  const SyntheticGeology geology({.shape = {32, 32, 16}});
  std::atomic<bool> cancel{false};
  WriteOptions options;
  options.chunk_shape = {8, 8, 16};
  options.cancel = &cancel;
  options.progress = [&](int64_t) { cancel = true; };
  try {
    write_synthetic_volume((folder.path() / "v").string(), geology, options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCancelled);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace craton::volume::synth
