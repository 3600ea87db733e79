#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "craton/base/error.h"
#include "craton/volume/plot/chart.h"
#include "craton/volume/plot/color_scale.h"
#include "craton/volume/plot/font.h"
#include "craton/volume/plot/raster.h"
#include "craton/volume/plot/view.h"
#include "craton/volume/sampling/formula_volume.h"

namespace craton::volume::plot {
namespace {

using Shape = std::vector<int64_t>;

TEST(Png, DecodesToTheSamePixels) {
  Image image(37, 21);
  for (int y = 0; y < 21; ++y) {
    for (int x = 0; x < 37; ++x)
      image.set(
          x, y,
          {static_cast<uint8_t>(x * 6), static_cast<uint8_t>(y * 11), static_cast<uint8_t>(x ^ y)});
  }
  const std::vector<std::byte> bytes = encode_png(image);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  ASSERT_NE(png_image_begin_read_from_memory(&header, bytes.data(), bytes.size()), 0);
  ASSERT_EQ(header.width, 37u);
  ASSERT_EQ(header.height, 21u);
  header.format = PNG_FORMAT_RGB;
  std::vector<Color> pixels(37 * 21);
  ASSERT_NE(png_image_finish_read(&header, nullptr, pixels.data(), 0, nullptr), 0);
  for (int n = 0; n < 37 * 21; ++n)
    ASSERT_EQ(pixels[static_cast<size_t>(n)], image.at(n % 37, n / 37));
}

TEST(Raster, DrawingOutsideIsHarmless) {
  Image image(10, 10);
  image.fill(-5, -5, 8, 8, kBlack);
  image.outline(5, 5, 100, 100, kGrey, 3);
  draw_text(image, -3, 8, "abc\n\xff", kBlack, 2);
  draw_text_upwards(image, 8, 3, "up", kBlack, 3);
  EXPECT_EQ(image.at(2, 2), kBlack);
  EXPECT_EQ(image.at(3, 3), kWhite);
  EXPECT_EQ(image.at(9, 5), kGrey);
}

TEST(Font, EveryGlyphIsItsOwn) {
  std::set<std::array<uint8_t, kGlyphWidth>> seen;
  for (char c = ' '; c <= '~'; ++c) EXPECT_TRUE(seen.insert(glyph(c)).second) << c;
  EXPECT_EQ(glyph('\n'), glyph('?'));
  EXPECT_EQ(text_width("ab", 2), 22);
}

TEST(ColorScale, ClipsAtPercentilesAndMarksWhatIsMissing) {
  std::vector<float> values(1000, 1.0f);
  for (size_t n = 0; n < 5; ++n) values[n] = -1000;
  values[5] = std::numeric_limits<float>::quiet_NaN();
  const ColorScale scale = ColorScale::symmetric(values, 99, ColorMap::kSeismic);
  EXPECT_EQ(scale.high, 1);
  EXPECT_EQ(scale.low, -1);
  EXPECT_EQ(scale(-1000), scale(-1));
  EXPECT_EQ(scale(values[5]), scale.missing);
  EXPECT_GT(scale(1).r, scale(1).b);    // positive is red
  EXPECT_LT(scale(-1).r, scale(-1).b);  // negative is blue
  EXPECT_EQ((ColorScale{.map = ColorMap::kGrey, .low = 0, .high = 1}(0.5f)),
            (Color{128, 128, 128}));
  const ColorScale flat = ColorScale::symmetric(std::vector<float>(10, 0.0f), 99, ColorMap::kGrey);
  EXPECT_LT(flat.low, flat.high);
  EXPECT_EQ(ColorScale::ranged(values, 99, ColorMap::kViridis).high, 2);  // all but a few are equal
  EXPECT_THROW(color_map("jet"), Error);
}

TEST(Chart, TicksAreRoundAndInside) {
  EXPECT_THAT(round_ticks(0, 1020, 6), testing::ElementsAre(0, 200, 400, 600, 800, 1000));
  EXPECT_THAT(round_ticks(-0.13, 0.27, 4),
              testing::ElementsAre(testing::DoubleEq(-0.1), 0, testing::DoubleEq(0.1),
                                   testing::DoubleEq(0.2)));
  EXPECT_EQ(round_ticks(5, 5, 4).size(), 1u);
  EXPECT_LE(round_ticks(1e-9, 3e7, 5).size(), 24u);
  EXPECT_EQ(round_ticks(0, std::numeric_limits<double>::infinity(), 4).size(), 1u);
}

TEST(Chart, RenderAveragesWhenItShrinksAndRepeatsWhenItGrows) {
  const ColorScale scale{.map = ColorMap::kGrey, .low = 0, .high = 1};
  const std::vector<float> stripes = {0, 1, 0, 1, 0, 1, 0, 1};
  const Image small = render({stripes, 1, 8}, scale, 4, 1);
  for (int x = 0; x < 4; ++x) EXPECT_EQ(small.at(x, 0), (Color{128, 128, 128}));
  const Image large = render({stripes, 1, 8}, scale, 16, 3);
  EXPECT_EQ(large.at(0, 2), (Color{0, 0, 0}));
  EXPECT_EQ(large.at(3, 0), (Color{255, 255, 255}));
}

TEST(Chart, HoldsTheDataTheBoxesAndTheTitles) {
  std::vector<float> values(60 * 40);
  for (size_t n = 0; n < values.size(); ++n) values[n] = static_cast<float>(n % 40);
  ChartStyle style;
  style.title = "a title";
  style.across = {"trace", 100, 1};
  style.down = {"time (ms)", 0, 4};
  style.boxes = {{10, 10, 20, 20, "20x20", {1, 2, 3}}};
  const Image chart =
      draw_chart({values, 60, 40}, {.map = ColorMap::kGrey, .low = 0, .high = 40}, style);
  EXPECT_GT(chart.width(), 320);
  int box = 0, text = 0;
  for (int y = 0; y < chart.height(); ++y) {
    for (int x = 0; x < chart.width(); ++x) {
      box += chart.at(x, y) == Color{1, 2, 3};
      text += y < 30 && chart.at(x, y) == kBlack;
    }
  }
  EXPECT_GT(box, 500);
  EXPECT_GT(text, 50);
  const Curve empty{}, one{{1}, {2}, kBlack, "one"};
  EXPECT_GT(draw_curves(std::vector<Curve>{empty, one}, style).width(), 100);
}

TEST(Chart, SmallPicturesAreLargeEnoughForTheirLabels) {
  const ColorScale scale{.map = ColorMap::kGrey, .low = 0, .high = 1};
  ChartStyle style;
  style.counts = true;
  const std::vector<float> two = {0, 1};
  const Image chart = draw_chart({two, 1, 2}, scale, style);
  EXPECT_GE(chart.width(), 240);
  EXPECT_GE(chart.height(), 240);
}

TEST(Font, LettersWithATailReachBelowTheLine) {
  for (char c = 'a'; c <= 'z'; ++c) {
    bool below = false;
    for (const uint8_t column : glyph(c)) below = below || (column & 0x80) != 0;
    EXPECT_EQ(below, std::string_view("gjpqy").find(c) != std::string_view::npos) << c;
  }
}

// Samples tell their place: inline * 10000 + crossline * 100 + time.
std::shared_ptr<FormulaVolume> cube() {
  const auto volume = std::make_shared<FormulaVolume>(
      Shape{5, 7, 20}, Shape{2, 4, 8},
      [](auto at) { return static_cast<float>(at[0] * 10000 + at[1] * 100 + at[2]); }, "cube");
  FormulaVolume& v = *volume;
  for (int64_t n = 0; n < 5; ++n)
    v.editable_info().axes[0].coordinates[static_cast<size_t>(n)] =
        1000.0 + 2.0 * static_cast<double>(n);
  for (double& t : v.editable_info().axes[2].coordinates) t *= 4;
  v.editable_info().axes[2].unit = "ms";
  v.editable_live()[2 * 7 + 3] = 0;
  return volume;
}

TEST(View, SectionsHaveSamplesDownAndSlicesInlinesDown) {
  const auto owned = cube();
  const FormulaVolume& v = *owned;
  const Section inline_section = read_section(v, {{"inline", 1004}});
  ASSERT_EQ(inline_section.rows, 20);
  ASSERT_EQ(inline_section.columns, 7);
  EXPECT_EQ(inline_section.values[5 * 7 + 2], 20205);
  EXPECT_TRUE(std::isnan(inline_section.values[5 * 7 + 3]));
  EXPECT_EQ(inline_section.down_labels.step, 4);
  EXPECT_THAT(inline_section.title, testing::HasSubstr("inline 1004"));
  const Section crossline = read_section(v, {{"crossline", 3}});
  EXPECT_EQ(crossline.values[5 * 5 + 1], 10305);
  EXPECT_TRUE(std::isnan(crossline.values[5 * 5 + 2]));
  const Section slice = read_section(v, {{"time", 21}});  // nearest sample: 20 ms
  ASSERT_EQ(slice.rows, 5);
  EXPECT_EQ(slice.values[4 * 7 + 6], 40605);
  EXPECT_EQ(slice.down_labels.start, 1000);
  EXPECT_EQ(slice.down_labels.step, 2);
  EXPECT_EQ(read_section(v, {}).title, inline_section.title);  // the middle inline
}

TEST(View, GathersOfPrestackVolumes) {
  FormulaVolume v({4, 3, 6, 10}, {4, 3, 6, 10}, [](auto at) {
    return static_cast<float>(at[0] * 1000 + at[1] * 100 + at[2] * 10 + at[3]);
  });
  v.editable_info().axes[2].name = "offset";
  EXPECT_EQ(read_section(v, {}).columns, 6);  // a gather
  const Section gather = read_section(v, {{"inline", 1}, {"crossline", 2}});
  EXPECT_EQ(gather.values[7 * 6 + 5], 1257);
  const Section section = read_section(v, {{"inline", 1}, {"offset", 2}});
  EXPECT_EQ(section.values[7 * 3 + 2], 1227);
  EXPECT_EQ(read_section(v, {{"inline", 1}}).columns, 3);  // the middle offset
  v.editable_live()[5] = 0;
  EXPECT_EQ(fold_map(v).values[0], 5);
  EXPECT_EQ(fold_map(v).values[1], 6);
  EXPECT_EQ(live_map(v).values[0], 1);
}

TEST(View, MapsAndSpectrum) {
  FormulaVolume v({9, 11, 64}, {4, 4, 16}, [](auto at) {
    return static_cast<float>(at[0] + 1) *
           static_cast<float>(std::sin(2 * 3.14159265358979 * 0.125 * static_cast<double>(at[2])));
  });
  v.editable_info().axes[2].unit = "ms";
  for (double& t : v.editable_info().axes[2].coordinates) t *= 4;
  v.editable_live()[5 * 11 + 6] = 0;
  const Section map = amplitude_map(v, 2);
  ASSERT_EQ(map.rows, 9);
  EXPECT_NEAR(map.values[0], std::sqrt(0.5), 1e-5);
  EXPECT_NEAR(map.values[8 * 11 + 3], 9 * std::sqrt(0.5), 1e-4);
  EXPECT_TRUE(std::isnan(map.values[5 * 11 + 6]));
  const Curve curve = spectrum(v);
  const auto most = std::max_element(curve.y.begin(), curve.y.end()) - curve.y.begin();
  EXPECT_NEAR(curve.x[static_cast<size_t>(most)], 31.25, 0.1);  // 0.125 cycles per 4 ms
  EXPECT_NEAR(curve.y[static_cast<size_t>(most)], 0, 1e-6);
  EXPECT_LT(curve.y.back(), -30);
}

TEST(View, WindowsAreCentredAndLargeOnesNamed) {
  const auto windows = parse_windows("256x256,512x512,640x1024");
  const WindowBoxes boxes = window_boxes(windows, 600, 700);
  ASSERT_EQ(boxes.boxes.size(), 2u);
  EXPECT_EQ(boxes.boxes[0].label, "512x512");
  EXPECT_EQ(boxes.boxes[1].column, (700 - 256) / 2.0);
  EXPECT_THAT(boxes.skipped, testing::ElementsAre("640x1024"));
  EXPECT_TRUE(parse_windows("").empty());
  for (const char* bad : {"256", "256x", "ax5", "0x5", "5x-1", "5x5x5", "256x256;"})
    EXPECT_THROW(parse_windows(bad), Error) << bad;
}

TEST(View, SaysWhatDoesNotExist) {
  const auto owned = cube();
  const FormulaVolume& v = *owned;
  const auto message = [&](const std::vector<Place>& places) {
    try {
      read_section(v, places);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message({{"inline", 999}}),
              testing::AllOf(testing::HasSubstr("1000 to 1008"), testing::HasSubstr("inline 999")));
  EXPECT_THAT(message({{"inline", 1001}}), testing::HasSubstr("nearest"));
  EXPECT_THAT(message({{"cdp", 1}}), testing::HasSubstr("inline, crossline, time"));
  EXPECT_THAT(message({{"inline", 1000}, {"crossline", 1}}), testing::HasSubstr("two free axes"));
  EXPECT_THAT(message({{"time", 4000}}), testing::HasSubstr("no time 4000"));
}

}  // namespace
}  // namespace craton::volume::plot
