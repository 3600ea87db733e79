#include "craton/volume/plot/raster.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/volume/plot/font.h"

namespace craton::volume::plot {

Image::Image(int width, int height, Color background) : width_(width), height_(height) {
  CRATON_CHECK(width > 0 && height > 0 && width <= 32768 && height <= 32768, "{} x {}", width,
               height);
  pixels_.assign(static_cast<size_t>(width) * static_cast<size_t>(height), background);
}

void Image::set(int x, int y, Color color) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  pixels_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)] = color;
}

void Image::fill(int x, int y, int width, int height, Color color) {
  const int right = std::min(x + width, width_), bottom = std::min(y + height, height_);
  for (int row = std::max(y, 0); row < bottom; ++row) {
    for (int column = std::max(x, 0); column < right; ++column) set(column, row, color);
  }
}

void Image::outline(int x, int y, int width, int height, Color color, int thickness) {
  const int t = std::min({thickness, width, height});
  fill(x, y, width, t, color);
  fill(x, y + height - t, width, t, color);
  fill(x, y, t, height, color);
  fill(x + width - t, y, t, height, color);
}

void Image::paste(const Image& other, int x, int y) {
  for (int row = 0; row < other.height(); ++row) {
    for (int column = 0; column < other.width(); ++column) {
      set(x + column, y + row, other.at(column, row));
    }
  }
}

namespace {

template <typename Put>
void for_each_dot(std::string_view text, int scale, Put put) {
  int left = 0;
  for (const char character : text) {
    const auto& columns = glyph(character);
    for (int column = 0; column < kGlyphWidth; ++column) {
      for (int row = 0; row <= kGlyphHeight; ++row) {
        if ((columns[static_cast<size_t>(column)] >> row & 1) == 0) continue;
        for (int dot = 0; dot < scale * scale; ++dot) {
          put(left + column * scale + dot % scale, row * scale + dot / scale);
        }
      }
    }
    left += (kGlyphWidth + 1) * scale;
  }
}

}  // namespace

void draw_text(Image& image, int x, int y, std::string_view text, Color color, int scale) {
  for_each_dot(text, scale, [&](int dx, int dy) { image.set(x + dx, y + dy, color); });
}

void draw_text_upwards(Image& image, int x, int y, std::string_view text, Color color, int scale) {
  for_each_dot(text, scale, [&](int dx, int dy) { image.set(x + dy, y - dx, color); });
}

int text_width(std::string_view text, int scale) {
  return text.empty() ? 0 : (static_cast<int>(text.size()) * (kGlyphWidth + 1) - 1) * scale;
}

int text_height(int scale) { return kGlyphHeight * scale; }

std::vector<std::byte> encode_png(const Image& image) {
  std::vector<std::byte> out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  if (info == nullptr) {
    png_destroy_write_struct(&png, nullptr);
    fail(ErrorCode::kResourceExhausted, "libpng cannot start");
  }
  // libpng reports errors by longjmp: nothing with a destructor is made between here and the end.
  if (setjmp(png_jmpbuf(png)) != 0) {
    png_destroy_write_struct(&png, &info);
    fail(ErrorCode::kInternal, "libpng cannot encode a picture of {} x {}", image.width(),
         image.height());
  }
  const auto append = [](png_structp p, png_bytep data, size_t size) {
    auto* bytes = static_cast<std::vector<std::byte>*>(png_get_io_ptr(p));
    const auto* from = reinterpret_cast<const std::byte*>(data);
    bytes->insert(bytes->end(), from, from + size);
  };
  png_set_write_fn(png, &out, append, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width()),
               static_cast<png_uint_32>(image.height()), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(png, 6);
  png_write_info(png, info);
  for (int y = 0; y < image.height(); ++y) {
    png_write_row(png, reinterpret_cast<png_const_bytep>(image.row(y)));
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace craton::volume::plot
