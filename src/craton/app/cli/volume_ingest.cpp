#include <fmt/format.h>

#include <memory>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/progress_bar.h"
#include "craton/app/cli/segy_options.h"
#include "craton/app/cli/volume_verbs.h"
#include "craton/base/units.h"
#include "craton/volume/segy/ingest.h"
#include "craton/volume/segy/survey_report.h"

namespace craton::app {

namespace {

namespace segy = volume::segy;

struct IngestArguments {
  std::vector<std::string> paths;
  SegyOptions segy;
  std::vector<int64_t> chunks, shards;
  std::string codec = "zstd", memory = "256MiB";
  int level = 3, zarr_format = 3;
  double tolerance = 0;
  size_t threads = 0;
  bool no_headers = false, replace = false, quiet = false;
};

void print_report(const segy::IngestReport& report, const std::string& store) {
  for (const segy::Remark& remark : report.remarks) {
    fmt::print(stderr, "note: {}{}\n", remark.text,
               remark.option.empty() ? "" : fmt::format(" [{}]", remark.option));
  }
  fmt::print("{}: {}\n", store, report.geometry.template_name);
  for (const volume::Axis& axis : report.geometry.axes)
    fmt::print("  {:<10} {}\n", axis.name, segy::describe(axis));
  fmt::print("  {:<10} {} of {} traces\n", "live", report.geometry.live, report.geometry.cells());
}

void run_ingest(const IngestArguments& arguments) {
  if (arguments.paths.size() < 2) {
    fail(ErrorCode::kInvalidArgument,
         "volume ingest needs at least one SEG-Y file and, last, the store to make");
  }
  const std::string store = arguments.paths.back();
  const std::vector<std::filesystem::path> files(arguments.paths.begin(),
                                                 arguments.paths.end() - 1);
  segy::IngestOptions options;
  options.read = arguments.segy.read();
  options.fields = arguments.segy.fields();
  options.geometry = arguments.segy.geometry();
  options.chunk_shape = arguments.chunks;
  options.shard_shape = arguments.shards;
  options.zarr_format = arguments.zarr_format;
  options.zfp_tolerance = arguments.tolerance;
  options.compressor = arguments.codec;
  options.compression_level = arguments.level;
  options.keep_headers = !arguments.no_headers;
  options.replace = arguments.replace;
  options.threads = arguments.threads;
  options.memory_bytes = parse_bytes(arguments.memory);
  const Interrupt interrupt;
  options.cancel = &interrupt.flag();
  segy::IngestReport report;
  {
    ProgressBar bar("ingest");
    if (!arguments.quiet) {
      options.progress = [&](const segy::IngestProgress& p) {
        bar.show(p.stage, p.bytes_done, p.bytes_total);
      };
    }
    report = segy::ingest(files, store, options);
  }
  print_report(report, store);
}

}  // namespace

void add_volume_ingest(CLI::App& volume) {
  auto arguments = std::make_shared<IngestArguments>();
  CLI::App* verb = volume.add_subcommand("ingest", "Turn SEG-Y files into an MDIO volume");
  verb->footer(
      "Examples:\n"
      "  craton volume ingest f3.sgy f3.mdio\n"
      "  craton volume ingest teapot.sgy teapot.mdio --inline 181 --crossline 185\n"
      "  craton volume ingest part-1.sgy part-2.sgy survey.mdio --duplicates first\n"
      "Several files become one volume. See `craton volume info FILE` for what a file holds.\n"
      "Killed or interrupted, the same command goes on from where it stopped.");
  verb->add_option("paths", arguments->paths, "SEG-Y files, and last the store to make")
      ->required()
      ->type_name("FILE... STORE");
  verb->add_option("--chunks", arguments->chunks, "Chunk shape, e.g. 64,64,64")->delimiter(',');
  verb->add_option("--shards", arguments->shards, "Shard shape, a multiple of the chunk shape")
      ->delimiter(',');
  verb->add_option("--zarr", arguments->zarr_format, "Zarr format, 3 or 2")
      ->check(CLI::IsMember({2, 3}));
  verb->add_option("--codec", arguments->codec, "zstd, lz4 or none")
      ->check(CLI::IsMember({"zstd", "lz4", "none"}));
  verb->add_option("--level", arguments->level, "Compression level")->check(CLI::Range(1, 9));
  verb->add_option("--tolerance", arguments->tolerance,
                   "Lossy (ZFP): no sample is off by more than this")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--no-headers", arguments->no_headers,
                 "Leave out what only the way back to SEG-Y needs");
  verb->add_flag("--replace", arguments->replace, "Replace a store that is there already");
  verb->add_option("--threads", arguments->threads, "Threads (default: all cores)");
  verb->add_option("--memory", arguments->memory,
                   "Bound for the samples in flight (default 256MiB)");
  verb->add_flag("--quiet", arguments->quiet, "No progress");
  arguments->segy.add_to(*verb);
  verb->callback([arguments] { run_ingest(*arguments); });
}

}  // namespace craton::app
