#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace craton::volume::plot {

struct Color {
  uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Color&) const = default;
};

inline constexpr Color kBlack{20, 20, 20}, kWhite{255, 255, 255}, kGrey{128, 128, 128};

/// An RGB picture, rows from the top.
class Image {
 public:
  Image(int width, int height, Color background = kWhite);
  int width() const { return width_; }
  int height() const { return height_; }
  Color at(int x, int y) const {
    return pixels_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
  }
  /// Outside of the picture: nothing happens.
  void set(int x, int y, Color color);
  void fill(int x, int y, int width, int height, Color color);
  /// One pixel wide outline; `thickness` grows inwards.
  void outline(int x, int y, int width, int height, Color color, int thickness = 1);
  void paste(const Image& other, int x, int y);
  const Color* row(int y) const {
    return pixels_.data() + static_cast<size_t>(y) * static_cast<size_t>(width_);
  }

 private:
  int width_, height_;
  std::vector<Color> pixels_;
};

/// Printable ASCII in a 5 x 7 font; `scale` multiplies its size. Other characters are drawn as '?'.
void draw_text(Image& image, int x, int y, std::string_view text, Color color, int scale = 1);
/// The same from bottom to top.
void draw_text_upwards(Image& image, int x, int y, std::string_view text, Color color,
                       int scale = 1);
int text_width(std::string_view text, int scale = 1);
int text_height(int scale = 1);

/// The bytes of a PNG file.
std::vector<std::byte> encode_png(const Image& image);

}  // namespace craton::volume::plot
