#include "craton/app/cli/verbs.h"
#include "craton/app/cli/volume_verbs.h"

namespace craton::app {

void add_volume(CLI::App& app) {
  CLI::App* volume =
      app.add_subcommand("volume", "Make, convert, inspect and draw seismic volumes");
  volume->require_subcommand(1);
  add_volume_synth(*volume);
  add_volume_ingest(*volume);
  add_volume_info(*volume);
  add_volume_view(*volume);
  add_volume_export(*volume);
  add_volume_cp(*volume);
}

}  // namespace craton::app
