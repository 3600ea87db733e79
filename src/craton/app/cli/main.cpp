#include <cstdio>
#include <cstdlib>
#include <exception>

#include "craton/app/cli/verbs.h"
#include "craton/base/error.h"
#include "craton/base/fault_point.h"

namespace craton::app {

const char* version() { return "craton 0.1.0"; }

}  // namespace craton::app

int main(int argc, char** argv) {
  CLI::App app("Craton trains foundation models on large volumes; the same bits whatever happens.",
               "craton");
  app.require_subcommand(1);
  app.set_version_flag("--version", craton::app::version());
  app.get_formatter()->column_width(34);
  craton::app::add_volume(app);
  craton::app::add_train(app);
  craton::app::add_predict(app);
  craton::app::add_store(app);
  craton::app::add_bench(app);
  craton::app::add_cache(app);
  craton::app::add_plan(app);
  craton::app::add_resume(app);
  craton::app::add_jobs(app);
  craton::app::add_status(app);
  craton::app::add_top(app);
  craton::app::add_events(app);
  craton::app::add_scale(app);
  craton::app::add_drain(app);
  craton::app::add_agent(app);
  try {
    if (const char* faults = std::getenv("CRATON_FAULTS")) craton::arm_faults(faults);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const craton::Error& e) {
    std::fprintf(stderr, "craton: %s\n", e.what());
    return 1;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "craton: out of memory\n");
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "craton: internal error: %s\n", e.what());
    return 1;
  }
  return 0;
}
