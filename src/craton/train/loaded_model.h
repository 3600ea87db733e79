#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "craton/model/sfm.h"
#include "craton/recipe/recipe.h"

namespace craton::train {

/// A trained model, ready for use.
struct LoadedModel {
  recipe::Recipe recipe;  ///< of the job that trained it
  std::shared_ptr<model::Sfm> model;
  int64_t step = 0;
  std::string checkpoint;    ///< its folder
  std::string state_sha256;  ///< of the training state; may be empty
};

/// `path` as for checkpoint::CheckpointReader. Error when there is no checkpoint, its model is no
/// `sfm`, or its parameters are not those that its recipe describes.
LoadedModel load_model(const std::filesystem::path& path);

}  // namespace craton::train
