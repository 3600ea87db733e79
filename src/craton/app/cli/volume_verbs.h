#pragma once

#include <CLI/CLI.hpp>

namespace craton::app {

/// The sub-verbs of `craton volume`; each adds itself below `volume`.
void add_volume_ingest(CLI::App& volume);
void add_volume_cp(CLI::App& volume);
void add_volume_info(CLI::App& volume);
void add_volume_export(CLI::App& volume);
void add_volume_synth(CLI::App& volume);
void add_volume_view(CLI::App& volume);

}  // namespace craton::app
