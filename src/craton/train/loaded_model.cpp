#include "craton/train/loaded_model.h"

#include "craton/base/error.h"
#include "craton/checkpoint/checkpoint.h"

namespace craton::train {

LoadedModel load_model(const std::filesystem::path& path) {
  const checkpoint::CheckpointReader reader(path);
  LoadedModel loaded;
  loaded.checkpoint = reader.folder().string();
  loaded.step = reader.manifest().step;
  loaded.state_sha256 = reader.manifest().state_sha256;
  auto settings = recipe::Settings::parse(reader.recipe_yaml(), loaded.checkpoint + "/recipe.yaml");
  settings.override_with("device=cpu");
  loaded.recipe = recipe::Recipe::read(settings);
  auto model = model::create_model(loaded.recipe.model, loaded.recipe.seed);
  loaded.recipe.model.finish();
  loaded.model = std::dynamic_pointer_cast<model::Sfm>(model);
  if (!loaded.model) {
    fail(ErrorCode::kUnsupported,
         "{} holds a model of another kind; predict works with `model.kind: sfm`",
         loaded.checkpoint);
  }
  for (const auto& item : model->named_parameters()) {
    const checkpoint::ParameterEntry* entry = reader.find(item.key());
    if (entry == nullptr || entry->shape != item.value().sizes().vec()) {
      fail(ErrorCode::kCorrupt, "{}: parameter {} of its recipe's model is {}", loaded.checkpoint,
           item.key(), entry == nullptr ? "not in it" : "of another shape in it");
    }
    reader.read(checkpoint::StateKind::kParameter, item.key(), 0,
                {item.value().data_ptr<float>(), static_cast<size_t>(item.value().numel())});
  }
  loaded.model->eval();
  return loaded;
}

}  // namespace craton::train
