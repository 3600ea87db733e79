#pragma once

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "craton/model/model.h"
#include "craton/model/patches.h"
#include "craton/model/positions.h"
#include "craton/model/sfm_settings.h"
#include "craton/model/vit_block.h"

namespace craton::model {

/// What the autoencoder makes of windows from which patches were hidden.
struct Reconstruction {
  torch::Tensor prediction;  ///< [batch, window...] in the input's units: hidden patches predicted,
                             ///< visible ones as they came
  torch::Tensor mask;        ///< [batch, tokens] bool, true = hidden
};

/// Where the mean and deviation of a predicted patch come from.
enum class Amplitude {
  kPredicted,  ///< from the model; what filling a gap needs
  kTruth,      ///< from the hidden truth, as pictures of masked autoencoders usually show it
};

/// `kind: sfm`: a masked autoencoder for windows of seismic samples, in 2D or 3D. The encoder sees
/// the visible patches only; a light decoder predicts each masked patch, normalised by its own mean
/// and deviation. Tokens stay in the order "visible, then masked" to the end (Tong et al.,
/// "VideoMAE", 2022; He et al., "Masked autoencoders are scalable vision learners", 2021). No class
/// token. Loss of a window: mean squared error over its masked patches that are not dead; of a
/// batch: the mean over windows.
class Sfm : public Model {
 public:
  Sfm(const SfmSettings& settings, uint64_t seed);

  torch::Tensor loss(const Batch& batch) override;
  int64_t tokens_per_sample() const override { return grid().tokens(); }
  double forward_flops_per_sample() const override;
  int64_t context_grain() const override;
  std::vector<AttentionHeads> shared_attention() const override;

  /// Hides patches and predicts them; no gradients. Without `mask`, the one that training would
  /// use; with it (bool [batch, tokens]), exactly those patches. A window whose patches are all
  /// hidden comes back as zeros in the hidden places: nothing is known.
  Reconstruction reconstruct(const Batch& batch, const torch::Tensor& mask = {},
                             Amplitude amplitude = Amplitude::kPredicted);

  /// Features of all patches with nothing hidden, [batch, tokens, dim]; no gradients.
  torch::Tensor embed(const torch::Tensor& windows);

  const SfmSettings& settings() const { return settings_; }
  /// The grid of the settings' window.
  const PatchGrid& grid() const { return usual_->grid; }
  /// The grid of windows [batch, window...]: any shape that the patch divides.
  const PatchGrid& grid_of(const torch::Tensor& windows) const { return geometry_of(windows).grid; }

 private:
  /// What follows from the shape of a window.
  struct Geometry {
    PatchGrid grid;
    int64_t masked;
    TokenTable positions, decoder_positions;  // undefined with rotary
    TokenTable angles, decoder_angles;        // undefined without
  };
  struct Predicted {
    torch::Tensor patches;    // [batch, masked, patch samples], normalised
    torch::Tensor amplitude;  // [batch, masked, 2]: mean and log deviation, or undefined
  };

  Geometry make_geometry(const std::vector<int64_t>& window) const;
  const Geometry& geometry_of(std::vector<int64_t> window, int64_t window_rows) const;
  const Geometry& geometry_of(const torch::Tensor& windows) const;
  struct Slab;
  Slab slab_of(const Batch& batch, const Geometry& g) const;
  torch::Tensor in_model_type(const torch::Tensor& windows) const;
  torch::Tensor encode(const torch::Tensor& rows, const torch::Tensor& ids, const Geometry& g);
  Predicted predict(const torch::Tensor& encoded, const torch::Tensor& order, const Geometry& g);
  /// Hidden tokens [batch, masked, decoder dim], normed. `ids` [batch, tokens]: the visible ones,
  /// then the masked ones; `order`: the same, counted in `grid`, which is all of the window's or a
  /// worker's part of it.
  torch::Tensor decode(const torch::Tensor& encoded, const torch::Tensor& ids,
                       const torch::Tensor& order, const PatchGrid& grid, const Geometry& g);
  Stream decode_across(const torch::Tensor& visible_rows, const torch::Tensor& ids,
                       const Geometry& g);
  Stream decode_within(Stream x, const torch::Tensor& ids, const torch::Tensor& order,
                       const PatchGrid& grid, const Geometry& g);
  const TokenGroups& groups_of(const PatchGrid& grid, bool displaced);
  Rotation rotation(const TokenTable& angles, const torch::Tensor& ids) const;
  torch::Tensor predict_rows(const torch::Tensor& windows, const torch::Tensor& order,
                             int64_t visible, Amplitude amplitude, const Geometry& g);
  torch::Tensor loss_of_part(const Batch& batch);
  torch::Tensor amplitude_loss(const torch::Tensor& predicted, const PatchTargets& targets) const;

  SfmSettings settings_;
  BlockShape encoder_shape_, decoder_shape_;
  mutable std::map<std::vector<int64_t>, Geometry> geometries_;  // made when first seen
  const Geometry* usual_ = nullptr;                              // that of the settings' window
  std::map<std::pair<std::array<int64_t, 3>, bool>, TokenGroups> groups_;
  torch::Tensor embed_weight_, embed_bias_, encoder_norm_weight_, encoder_norm_bias_;
  torch::Tensor decoder_embed_weight_, mask_token_, decoder_norm_weight_, decoder_norm_bias_;
  torch::Tensor head_weight_, head_bias_, amplitude_weight_, amplitude_bias_;
  std::vector<std::shared_ptr<VitBlock>> encoder_, decoder_;
};

}  // namespace craton::model
