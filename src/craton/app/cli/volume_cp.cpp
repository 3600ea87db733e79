#include <fmt/format.h>

#include <memory>
#include <string>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/progress_bar.h"
#include "craton/app/cli/volume_verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/volume/mdio/copy_volume.h"

namespace craton::app {
namespace {

struct CopyArguments {
  std::string from, to;
  volume::CopyOptions options;
};

void run_cp(CopyArguments& arguments) {
  ProgressBar bar("copy");
  const Interrupt interrupt;
  arguments.options.cancel = &interrupt.flag();
  arguments.options.progress = [&](uint64_t done, uint64_t total) {
    bar.show("volume", done, total);
  };
  volume::CopyResult result;
  try {
    result = volume::copy_volume(arguments.from, arguments.to, arguments.options);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kAlreadyExists) throw;
    fail(ErrorCode::kAlreadyExists, "{}; --replace overwrites it", e.message());
  }
  if (result.objects_before > 0)
    fmt::print("went on from an earlier run: {} of {} objects were there\n", result.objects_before,
               result.objects);
  fmt::print("{}: {} objects, {}\n", arguments.to.substr(0, arguments.to.find('?')), result.objects,
             format_bytes(static_cast<double>(result.bytes)));
}

}  // namespace

void add_volume_cp(CLI::App& volume) {
  auto arguments = std::make_shared<CopyArguments>();
  CLI::App* verb =
      volume.add_subcommand("cp", "Copy a volume as it is stored, between any two stores");
  verb->footer(
      "The copy becomes visible when all of it is there. After a failure, Ctrl-C or kill -9 the "
      "same "
      "command goes on\nfrom what is there, if the original is still the same.\n"
      "Examples:\n"
      "  craton volume cp f3.mdio s3://surveys/f3.mdio\n"
      "  craton volume cp s3://surveys/f3.mdio /scratch/f3.mdio");
  verb->add_option("from", arguments->from, "A volume: a path or URI")->required();
  verb->add_option("to", arguments->to, "Where the copy is made")->required();
  verb->add_option("--parallel", arguments->options.parallel, "Objects at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb->add_flag("--replace", arguments->options.replace, "Replace what is there");
  verb->callback([arguments] { run_cp(*arguments); });
}

}  // namespace craton::app
