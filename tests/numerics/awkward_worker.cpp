// A worker that knows `kind: awkward`.
#include "craton/train/worker_main.h"
#include "tests/numerics/awkward_model.h"

int main(int argc, char** argv) {
  craton::model::register_model("awkward", [](const auto& settings, uint64_t seed) {
    return std::make_shared<craton::tests::AwkwardModel>(settings, seed);
  });
  return craton::train::worker_main(argc, argv);
}
