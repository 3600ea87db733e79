#include <fmt/format.h>

#include <memory>
#include <string>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/progress_bar.h"
#include "craton/app/cli/volume_verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/synth/write.h"

namespace craton::app {
namespace {

struct SynthOptions {
  std::string out;
  volume::synth::GeologyOptions geology;
  volume::synth::WriteOptions write;
};

void run_synth(SynthOptions& o) {
  if (o.geology.shape.empty()) o.geology.shape = {256, 256, 256};
  const volume::synth::SyntheticGeology geology(o.geology);
  int64_t samples = 1;
  std::string shape;
  for (const int64_t n : o.geology.shape) {
    samples *= n;
    shape += (shape.empty() ? "" : " x ") + std::to_string(n);
  }
  ProgressBar bar("synth");
  o.write.progress = [&](int64_t done) {
    bar.show("samples", 4 * static_cast<uint64_t>(done), 4 * static_cast<uint64_t>(samples));
  };
  const Interrupt interrupt;
  o.write.cancel = &interrupt.flag();
  try {
    volume::synth::write_synthetic_volume(o.out, geology, o.write);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kAlreadyExists) throw;
    fail(ErrorCode::kAlreadyExists, "{}; --replace overwrites it", e.message());
  }
  fmt::print("{}: {} samples ({}), seed {}\n", o.out, shape,
             format_bytes(4.0 * static_cast<double>(samples)), o.geology.seed);
}

}  // namespace

void add_volume_synth(CLI::App& volume) {
  auto options = std::make_shared<SynthOptions>();
  CLI::App* synth = volume.add_subcommand(
      "synth", "Make a synthetic survey: layers, folds, faults, a channel, salt, noise");
  synth->footer(
      "Example: craton volume synth demo.mdio --shape 256,256,256 --seed 7\nThe same shape and "
      "seed give the same samples on every machine.");
  auto& o = *options;
  o.write.threads = runtime::available_cores();
  synth->add_option("OUT", o.out, "Store to make: a path or URI")->required();
  synth
      ->add_option("--shape", o.geology.shape,
                   "INLINES,CROSSLINES,SAMPLES or CDPS,SAMPLES (256,256,256)")
      ->delimiter(',');
  synth->add_option("--seed", o.geology.seed, "Which geology")->capture_default_str();
  synth
      ->add_option("--chunks", o.write.chunk_shape, "Chunk shape (64 per axis; 512,512 for a line)")
      ->delimiter(',');
  synth->add_option("--dead", o.geology.dead, "Share of dead traces, 0 to 0.9")
      ->capture_default_str();
  synth->add_option("--noise", o.geology.noise, "Noise against signal, 0 to 10")
      ->capture_default_str();
  synth->add_option("--interval", o.geology.sample_interval_ms, "Sample interval in ms")
      ->capture_default_str();
  synth->add_option("--threads", o.write.threads, "Threads (all cores)")
      ->check(CLI::Range(1, 1024));
  synth->add_flag("--replace", o.write.replace, "Replace a store that is there");
  synth->callback([options] { run_synth(*options); });
}

}  // namespace craton::app
