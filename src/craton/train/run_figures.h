#pragma once

#include <filesystem>

#include "craton/train/trainer.h"

namespace craton::train {

/// Saves what the report shows of the trained model, for models that can show it: a section with
/// the context windows over it, and masked input, reconstruction, truth and difference of
/// validation windows. Nothing for other models.
void save_run_figures(Trainer& trainer, const std::filesystem::path& folder);

}  // namespace craton::train
