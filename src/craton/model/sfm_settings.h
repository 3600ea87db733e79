#pragma once

#include <cstdint>
#include <vector>

#include "craton/model/patches.h"
#include "craton/recipe/settings.h"

namespace craton::model {

enum class Positions { kSinCos, kRotary };

/// What the decoder's tokens attend to. With most patches hidden, `full` costs far more than the
/// encoder.
enum class DecoderAttention {
  kFull,    ///< all tokens to all
  kCross,   ///< hidden ones to the visible ones only, which stay as the encoder left them
  kWindow,  ///< all tokens to those in their box of neighbours; every second block displaced
};

/// A recipe's `model` section for `kind: sfm`; the names are those of the recipe.
struct SfmSettings {
  std::vector<int64_t> window{32, 64,
                              64};  ///< samples per axis, 2 or 3 axes, the last one time or depth
  std::vector<int64_t> patch{8, 8, 8};       ///< samples per axis of a token; divides the window
  double mask_ratio = 0.75;                  ///< share of the tokens that training hides
  Positions positions = Positions::kSinCos;  ///< `sincos` (fixed) or `rotary`
  double rotary_base = 100;
  bool qk_norm = false;  ///< normalises queries and keys per head (Dehghani et al., ViT-22B, 2023)
  double norm_eps = 1e-6;
  int64_t dim = 192;
  int64_t depth = 6;
  int64_t heads = 6;
  double mlp_ratio = 4;
  int64_t decoder_dim = 96;
  int64_t decoder_depth = 1;
  int64_t decoder_heads = 3;
  double decoder_mlp_ratio = 4;
  DecoderAttention decoder_attention = DecoderAttention::kFull;  ///< `full`, `cross` or `window`
  /// Patches per axis of a box; empty: 8 x 8, or 4 x 4 x 8.
  std::vector<int64_t> decoder_window;
  /// Weight in the training loss of predicting each patch's mean and log deviation; 0 leaves that
  /// head out. Without it a patch whose truth is missing can be predicted only up to scale.
  /// Validation loss never contains it.
  double amplitude_weight = 0.05;

  /// Reads and checks; throws Error with file and line. Does not call finish(), which is the
  /// caller's.
  static SfmSettings read(const recipe::Settings& settings);

  PatchGrid grid() const { return {window, patch}; }
};

}  // namespace craton::model
