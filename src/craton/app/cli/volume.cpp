#include "craton/app/cli/verbs.h"

namespace craton::app {

void add_volume(CLI::App& app) {
  CLI::App* volume = app.add_subcommand("volume", "Make, convert, inspect and draw seismic volumes");
  volume->require_subcommand(1);
  // One function per sub-verb: volume_synth.cpp, volume_ingest.cpp, volume_info.cpp, volume_view.cpp.
}

}  // namespace craton::app
