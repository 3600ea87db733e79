#include "craton/model/sfm_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace craton::model {
namespace {

// Limits that keep products of sizes far from overflow; far above any model that runs on CPUs.
constexpr int64_t kMaxExtent = 1 << 16;
constexpr int64_t kMaxPatchSamples = 1 << 20;
constexpr int64_t kMaxTokens = 1 << 24;
constexpr int64_t kMaxWidth = 1 << 15;
constexpr int64_t kMaxDepth = 1024;

int64_t bounded(const recipe::Settings& settings, std::string_view key, int64_t fallback,
                int64_t low, int64_t high) {
  const int64_t value = settings.integer(key, fallback);
  if (value < low || value > high) {
    settings.reject(key, fmt::format("must be between {} and {}, found {}", low, high, value));
  }
  return value;
}

double bounded_number(const recipe::Settings& settings, std::string_view key, double fallback,
                      double low, double high) {
  const double value = settings.number(key, fallback);
  if (!(value >= low && value <= high)) {
    settings.reject(key, fmt::format("must be between {} and {}, found {}", low, high, value));
  }
  return value;
}

void check_shape(const recipe::Settings& settings, const SfmSettings& s) {
  if (s.window.size() != 2 && s.window.size() != 3) {
    settings.reject("window", fmt::format("must have 2 or 3 extents, found {}", s.window.size()));
  }
  for (const int64_t extent : s.window) {
    if (extent < 1 || extent > kMaxExtent) {
      settings.reject(
          "window", fmt::format("extents must be between 1 and {}, found {}", kMaxExtent, extent));
    }
  }
  if (s.patch.size() != s.window.size()) {
    settings.reject("patch",
                    fmt::format("must have as many extents as the window, [{}], found [{}]",
                                fmt::join(s.window, ", "), fmt::join(s.patch, ", ")));
  }
  int64_t samples = 1, tokens = 1;
  for (size_t a = 0; a < s.patch.size(); ++a) {
    if (s.patch[a] < 1 || s.window[a] % s.patch[a] != 0) {
      settings.reject("patch", fmt::format("must divide the window [{}] on each axis, found [{}]",
                                           fmt::join(s.window, ", "), fmt::join(s.patch, ", ")));
    }
    samples *= s.patch[a];
    tokens *= s.window[a] / s.patch[a];
  }
  if (samples < 2 || samples > kMaxPatchSamples) {
    settings.reject("patch", fmt::format("must hold between 2 and {} samples, found {}",
                                         kMaxPatchSamples, samples));
  }
  if (tokens < 2 || tokens > kMaxTokens) {
    settings.reject("patch", fmt::format("must cut the window into 2 to {} patches, found {}",
                                         kMaxTokens, tokens));
  }
}

void check_heads(const recipe::Settings& settings, const SfmSettings& s, std::string_view dim_key,
                 int64_t dim, std::string_view heads_key, int64_t heads) {
  if (dim % heads != 0) {
    settings.reject(heads_key, fmt::format("must divide {} ({}), found {}", dim_key, dim, heads));
  }
  if (s.positions == Positions::kRotary && dim / heads % 2 != 0) {
    settings.reject(heads_key, fmt::format("rotary positions need an even {} / {}, found {}",
                                           dim_key, heads_key, dim / heads));
  }
  if (s.positions == Positions::kSinCos && dim % 2 != 0) {
    settings.reject(dim_key, fmt::format("sincos positions need an even number, found {}", dim));
  }
}

void read_decoder_attention(const recipe::Settings& settings, SfmSettings& s) {
  const std::string name =
      settings.choice("decoder_attention", "full", {"full", "cross", "window"});
  s.decoder_window = settings.integers("decoder_window", {});
  if (name != "window") {
    s.decoder_attention = name == "cross" ? DecoderAttention::kCross : DecoderAttention::kFull;
    if (!s.decoder_window.empty()) {
      settings.reject("decoder_window",
                      fmt::format("goes with decoder_attention window, found {}", name));
    }
    return;
  }
  s.decoder_attention = DecoderAttention::kWindow;
  if (s.decoder_window.empty()) {
    s.decoder_window =
        s.window.size() == 2 ? std::vector<int64_t>{8, 8} : std::vector<int64_t>{4, 4, 8};
  }
  if (s.decoder_window.size() != s.window.size()) {
    settings.reject("decoder_window",
                    fmt::format("must have as many extents as the window, [{}], found [{}]",
                                fmt::join(s.window, ", "), fmt::join(s.decoder_window, ", ")));
  }
  for (const int64_t extent : s.decoder_window) {
    if (extent < 1 || extent > kMaxExtent) {
      settings.reject("decoder_window",
                      fmt::format("counts patches per axis, so it must be between "
                                  "1 and {}, found {}",
                                  kMaxExtent, extent));
    }
  }
}

}  // namespace

SfmSettings SfmSettings::read(const recipe::Settings& settings) {
  SfmSettings s;
  s.window = settings.integers("window", s.window);
  s.patch = settings.integers("patch", s.patch);
  check_shape(settings, s);
  s.mask_ratio = settings.number("mask_ratio", s.mask_ratio);
  if (!(s.mask_ratio > 0 && s.mask_ratio < 1)) {
    settings.reject("mask_ratio", fmt::format("must lie between 0 and 1, found {}", s.mask_ratio));
  }
  s.positions = settings.choice("positions", "sincos", {"sincos", "rotary"}) == "rotary"
                    ? Positions::kRotary
                    : Positions::kSinCos;
  s.rotary_base = bounded_number(settings, "rotary_base", s.rotary_base, 1, 1e9);
  s.qk_norm = settings.boolean("qk_norm", s.qk_norm);
  s.norm_eps = bounded_number(settings, "norm_eps", s.norm_eps, 1e-12, 1);
  s.dim = bounded(settings, "dim", s.dim, 1, kMaxWidth);
  s.depth = bounded(settings, "depth", s.depth, 1, kMaxDepth);
  s.heads = bounded(settings, "heads", s.heads, 1, kMaxWidth);
  s.mlp_ratio = bounded_number(settings, "mlp_ratio", s.mlp_ratio, 0.01, 64);
  s.decoder_dim = bounded(settings, "decoder_dim", s.decoder_dim, 1, kMaxWidth);
  s.decoder_depth = bounded(settings, "decoder_depth", s.decoder_depth, 1, kMaxDepth);
  s.decoder_heads = bounded(settings, "decoder_heads", s.decoder_heads, 1, kMaxWidth);
  s.decoder_mlp_ratio =
      bounded_number(settings, "decoder_mlp_ratio", s.decoder_mlp_ratio, 0.01, 64);
  read_decoder_attention(settings, s);
  s.amplitude_weight = bounded_number(settings, "amplitude_weight", s.amplitude_weight, 0, 100);
  check_heads(settings, s, "dim", s.dim, "heads", s.heads);
  check_heads(settings, s, "decoder_dim", s.decoder_dim, "decoder_heads", s.decoder_heads);
  return s;
}

}  // namespace craton::model
