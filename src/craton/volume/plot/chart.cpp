#include "craton/volume/plot/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "craton/base/check.h"

namespace craton::volume::plot {
namespace {

constexpr int kText = 2;    // size of titles
constexpr int kNumber = 2;  // size of numbers along the axes
constexpr int kTick = 6;
constexpr int kGap = 6;

std::string tick_text(double value, double step) {
  if (value == 0) return "0";
  const double size = std::abs(value);
  if (size >= 1e6 || size < 1e-3) return fmt::format("{:.3g}", value);
  const int decimals = step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step) - 1e-9));
  return fmt::format("{:.{}f}", value, std::clamp(decimals, 0, 6));
}

// Cells [first, last) that pixel `p` of `pixels` covers, at least one.
std::pair<int64_t, int64_t> cells_of(int p, int pixels, int64_t cells) {
  const int64_t first = static_cast<int64_t>(p) * cells / pixels;
  const int64_t last = std::max(first + 1, static_cast<int64_t>(p + 1) * cells / pixels);
  return {first, std::min(last, cells)};
}

struct Frame {
  int left = 0, top = 0, width = 0, height = 0;  // of the data area
};

struct Ticks {
  std::vector<double> values;
  double step = 1;
  std::vector<std::string> texts;
};

Ticks ticks_for(double from, double to, int pixels, int pixels_per_tick) {
  Ticks t;
  t.values =
      round_ticks(std::min(from, to), std::max(from, to), std::max(2, pixels / pixels_per_tick));
  if (t.values.size() > 1) t.step = t.values[1] - t.values[0];
  for (const double v : t.values) t.texts.push_back(tick_text(v, t.step));
  return t;
}

Ticks whole_ones(const Ticks& ticks) {
  Ticks t;
  for (const double v : ticks.values) {
    if (std::abs(v - std::round(v)) > 1e-6) continue;
    t.values.push_back(std::round(v));
    t.texts.push_back(tick_text(t.values.back(), 1));
  }
  return t;
}

int widest(const Ticks& ticks) {
  int width = 0;
  for (const std::string& text : ticks.texts) width = std::max(width, text_width(text, kNumber));
  return width;
}

void draw_across(Image& image, const Frame& f, const Ticks& ticks, double from, double to,
                 const std::string& title) {
  const int y = f.top + f.height;
  int free_from = -1;
  for (size_t n = 0; n < ticks.values.size(); ++n) {
    const double share = to != from ? (ticks.values[n] - from) / (to - from) : 0.5;
    if (share < -1e-9 || share > 1 + 1e-9) continue;
    const int x = f.left + static_cast<int>(share * (f.width - 1) + 0.5);
    image.fill(x, y, 1, kTick, kBlack);
    const int width = text_width(ticks.texts[n], kNumber);
    if (x - width / 2 < free_from) continue;
    draw_text(image, x - width / 2, y + kTick + 3, ticks.texts[n], kBlack, kNumber);
    free_from = x + width / 2 + 3 * kNumber;
  }
  draw_text(image, f.left + (f.width - text_width(title, kText)) / 2,
            y + kTick + 3 + text_height(kNumber) + kGap, title, kBlack, kText);
}

void draw_down(Image& image, const Frame& f, const Ticks& ticks, double from, double to,
               const std::string& title, int title_x) {
  for (size_t n = 0; n < ticks.values.size(); ++n) {
    const double share = to != from ? (ticks.values[n] - from) / (to - from) : 0.5;
    if (share < -1e-9 || share > 1 + 1e-9) continue;
    const int y = f.top + static_cast<int>(share * (f.height - 1) + 0.5);
    image.fill(f.left - kTick, y, kTick, 1, kBlack);
    draw_text(image, f.left - kTick - 3 - text_width(ticks.texts[n], kNumber),
              y - text_height(kNumber) / 2, ticks.texts[n], kBlack, kNumber);
  }
  draw_text_upwards(image, title_x, f.top + (f.height + text_width(title, kText)) / 2, title,
                    kBlack, kText);
}

constexpr int kBarWidth = 18;

void draw_color_bar(Image& image, const Frame& f, const ColorScale& scale, const Ticks& ticks,
                    const std::string& title) {
  const int left = f.left + f.width + 3 * kGap;
  for (int y = 0; y < f.height; ++y) {
    const float share = 1 - static_cast<float>(y) / static_cast<float>(std::max(1, f.height - 1));
    image.fill(left, f.top + y, kBarWidth, 1, scale(scale.low + share * (scale.high - scale.low)));
  }
  image.outline(left - 1, f.top - 1, kBarWidth + 2, f.height + 2, kBlack);
  for (size_t n = 0; n < ticks.values.size(); ++n) {
    const double share =
        (ticks.values[n] - scale.low) / (static_cast<double>(scale.high) - scale.low);
    if (share < -1e-9 || share > 1 + 1e-9) continue;
    const int y = f.top + static_cast<int>((1 - share) * (f.height - 1) + 0.5);
    image.fill(left + kBarWidth + 1, y, kTick / 2, 1, kBlack);
    draw_text(image, left + kBarWidth + kTick, y - text_height(kNumber) / 2, ticks.texts[n], kBlack,
              kNumber);
  }
  if (!title.empty()) {
    draw_text_upwards(image, left + kBarWidth + kTick + widest(ticks) + kGap,
                      f.top + (f.height + text_width(title, kText)) / 2, title, kBlack, kText);
  }
}

void draw_box(Image& image, const Frame& f, const Box& box, const Raster& raster) {
  const double sx = static_cast<double>(f.width) / static_cast<double>(raster.columns);
  const double sy = static_cast<double>(f.height) / static_cast<double>(raster.rows);
  const auto x = static_cast<int>(box.column * sx), y = static_cast<int>(box.row * sy);
  const auto width = static_cast<int>((box.column + box.columns) * sx) - x;
  const auto height = static_cast<int>((box.row + box.rows) * sy) - y;
  image.outline(f.left + x - 1, f.top + y - 1, width + 2, height + 2, kWhite, 5);
  image.outline(f.left + x, f.top + y, width, height, box.color, 3);
  if (box.label.empty()) return;
  const int label_width = text_width(box.label, kText) + 8, label_height = text_height(kText) + 8;
  image.fill(f.left + x, f.top + y, label_width, label_height, box.color);
  draw_text(image, f.left + x + 4, f.top + y + 4, box.label, kWhite, kText);
}

// Pixels for `cells`: whole multiples when small, so that cells stay equal; the limits of
// ChartStyle otherwise.
int pixels_for(int64_t cells, int wanted) {
  if (wanted > 0) return std::clamp(wanted, 16, 16000);
  if (cells >= 1600) return 1600;
  if (cells >= 480) return static_cast<int>(cells);
  const int64_t most = std::min<int64_t>(8, (480 + cells - 1) / cells);
  return static_cast<int>(cells * std::max(most, (240 + cells - 1) / cells));
}

// Room around the data: numbers and titles of the axes, the title, the colour bar.
struct Margins {
  int left, right, top, bottom;
};

Margins margins_for(const ChartStyle& style, const Ticks& down, const Ticks* bar) {
  Margins m;
  m.left = text_height(kText) + 2 * kGap + widest(down) + kTick + 3;
  m.top = style.title.empty() ? 2 * kGap : text_height(kText) + 3 * kGap;
  m.bottom = kTick + 3 + text_height(kNumber) + 2 * kGap + text_height(kText) + kGap;
  m.right = 4 * kGap;
  if (bar != nullptr) {
    m.right += 2 * kGap + kBarWidth + kTick + widest(*bar);
    if (!style.value_title.empty()) m.right += kGap + text_height(kText);
  }
  return m;
}

void draw_title(Image& image, const Frame& f, const std::string& title) {
  const int x = f.left + (f.width - text_width(title, kText)) / 2;
  draw_text(image, std::max(x, kGap), kGap + 2, title, kBlack, kText);
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  if (!(high > low) || !std::isfinite(high - low)) return {low};
  const double rough = (high - low) / std::max(1, count);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (rough <= factor * power * 1.0001) step = factor * power;
  }
  const double first = std::ceil(low / step - 1e-9);
  for (int n = 0; n <= 4 * count + 4; ++n) {
    const double value = (first + n) * step;
    if (value > high + 1e-9 * step) break;
    ticks.push_back(std::abs(value) < 1e-12 * step ? 0 : value);
  }
  return ticks;
}

Image render(const Raster& raster, const ColorScale& scale, int width, int height) {
  CRATON_CHECK(raster.rows > 0 && raster.columns > 0 &&
               raster.values.size() == static_cast<size_t>(raster.rows * raster.columns));
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    const auto [row_from, row_to] = cells_of(y, height, raster.rows);
    for (int x = 0; x < width; ++x) {
      const auto [from, to] = cells_of(x, width, raster.columns);
      double sum = 0;
      int64_t count = 0;
      for (int64_t r = row_from; r < row_to; ++r) {
        for (int64_t c = from; c < to; ++c) {
          const float v = raster.values[static_cast<size_t>(r * raster.columns + c)];
          if (!std::isfinite(v)) continue;
          sum += v;
          ++count;
        }
      }
      image.set(x, y,
                scale(count > 0 ? static_cast<float>(sum / static_cast<double>(count))
                                : std::numeric_limits<float>::quiet_NaN()));
    }
  }
  return image;
}

Image draw_chart(const Raster& raster, const ColorScale& scale, const ChartStyle& style) {
  Frame f;
  f.width = pixels_for(raster.columns, style.width);
  f.height = pixels_for(raster.rows, style.height);
  const auto end = [](const AxisLabels& a, int64_t cells) {
    return a.start + a.step * static_cast<double>(cells - 1);
  };
  const double across_end = end(style.across, raster.columns),
               down_end = end(style.down, raster.rows);
  const double half_across = style.across.step / 2, half_down = style.down.step / 2;
  const Ticks across = ticks_for(style.across.start, across_end, f.width, 90);
  const Ticks down = ticks_for(style.down.start, down_end, f.height, 60);
  Ticks bar = ticks_for(scale.low, scale.high, f.height, 60);
  if (style.counts && bar.step < 1) bar = whole_ones(bar);
  const Margins m = margins_for(style, down, style.color_bar ? &bar : nullptr);
  f.left = m.left;
  f.top = m.top;
  const int title_room = text_width(style.title, kText) + 2 * kGap;
  Image image(std::max(m.left + f.width + m.right, title_room), m.top + f.height + m.bottom);
  image.paste(render(raster, scale, f.width, f.height), f.left, f.top);
  image.outline(f.left - 1, f.top - 1, f.width + 2, f.height + 2, kBlack);
  for (const Box& box : style.boxes) draw_box(image, f, box, raster);
  draw_title(image, f, style.title);
  // The sides of the picture are those of its outer cells.
  draw_across(image, f, across, style.across.start - half_across, across_end + half_across,
              style.across.title);
  draw_down(image, f, down, style.down.start - half_down, down_end + half_down, style.down.title,
            kGap);
  if (style.color_bar) draw_color_bar(image, f, scale, bar, style.value_title);
  return image;
}

Image draw_curves(std::span<const Curve> curves, const ChartStyle& style) {
  double x0 = std::numeric_limits<double>::infinity(), x1 = -x0, y0 = x0, y1 = -x0;
  for (const Curve& c : curves) {
    for (size_t n = 0; n < std::min(c.x.size(), c.y.size()); ++n) {
      if (!std::isfinite(c.x[n]) || !std::isfinite(c.y[n])) continue;
      x0 = std::min(x0, c.x[n]), x1 = std::max(x1, c.x[n]);
      y0 = std::min(y0, c.y[n]), y1 = std::max(y1, c.y[n]);
    }
  }
  if (!(x1 > x0)) x0 = std::isfinite(x0) ? x0 - 1 : 0, x1 = x0 + 2;
  if (!(y1 > y0)) y0 = std::isfinite(y0) ? y0 - 1 : 0, y1 = y0 + 2;
  Frame f;
  f.width = style.width > 0 ? std::clamp(style.width, 16, 16000) : 800;
  f.height = style.height > 0 ? std::clamp(style.height, 16, 16000) : 480;
  const Ticks across = ticks_for(x0, x1, f.width, 90), down = ticks_for(y0, y1, f.height, 60);
  const Margins m = margins_for(style, down, nullptr);
  f.left = m.left;
  f.top = m.top;
  Image image(m.left + f.width + m.right, m.top + f.height + m.bottom);
  image.outline(f.left - 1, f.top - 1, f.width + 2, f.height + 2, kBlack);
  int legend_y = f.top + kGap;
  for (const Curve& c : curves) {
    const auto pixel_x = [&](size_t n) { return (c.x[n] - x0) / (x1 - x0) * (f.width - 1); };
    const auto pixel_y = [&](size_t n) { return (y1 - c.y[n]) / (y1 - y0) * (f.height - 1); };
    for (size_t n = 0; n + 1 < std::min(c.x.size(), c.y.size()); ++n) {
      const double dx = pixel_x(n + 1) - pixel_x(n), dy = pixel_y(n + 1) - pixel_y(n);
      if (!std::isfinite(dx) || !std::isfinite(dy)) continue;
      const int steps = 1 + static_cast<int>(2 * std::max(std::abs(dx), std::abs(dy)));
      for (int k = 0; k <= steps; ++k) {
        const double t = static_cast<double>(k) / steps;
        image.fill(f.left + static_cast<int>(pixel_x(n) + t * dx),
                   f.top + static_cast<int>(pixel_y(n) + t * dy), 2, 2, c.color);
      }
    }
    if (c.label.empty()) continue;
    draw_text(image, f.left + f.width - text_width(c.label, kText) - kGap, legend_y, c.label,
              c.color, kText);
    legend_y += text_height(kText) + kGap;
  }
  draw_title(image, f, style.title);
  draw_across(image, f, across, x0, x1, style.across.title);
  draw_down(image, f, down, y1, y0, style.down.title, kGap);
  return image;
}

}  // namespace craton::volume::plot
