#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/progress_bar.h"
#include "craton/app/cli/volume_verbs.h"
#include "craton/base/error.h"
#include "craton/volume/segy/export.h"

namespace craton::app {

namespace {

namespace segy = volume::segy;

struct ExportArguments {
  std::string store, file, headers_from, variable;
  std::optional<int> format;
  size_t threads = 0;
  bool replace = false, quiet = false;
};

/// The volume that `craton predict` made this one from, if it is still there and has SEG-Y headers
/// for the same grid; else nullptr.
std::shared_ptr<const volume::Volume> predicted_from(const volume::Volume& volume) {
  const auto attributes = nlohmann::json::parse(volume.info().attributes, nullptr, false);
  const nlohmann::json::json_pointer place("/craton/volume");
  if (volume.segy_file_header() || !attributes.is_object() || !attributes.contains(place) ||
      !attributes[place].is_string())
    return nullptr;
  try {
    auto source = volume::open_volume(attributes[place].get<std::string>());
    const bool fits = source->info().shape() == volume.info().shape() && source->segy_file_header();
    return fits ? source : nullptr;
  } catch (const Error&) {
    return nullptr;  // moved, or not for us to read: headers are made
  }
}

void run_export(const ExportArguments& arguments) {
  const auto volume = volume::open_volume(arguments.store, arguments.variable);
  std::shared_ptr<const volume::Volume> headers;
  if (!arguments.headers_from.empty()) {
    headers = volume::open_volume(arguments.headers_from);
  } else if ((headers = predicted_from(*volume))) {
    fmt::print(stderr, "note: headers and order of traces come from {}, which {} was made from\n",
               headers->info().uri, arguments.store);
  }
  segy::ExportOptions options;
  options.format = arguments.format;
  options.headers_from = headers.get();
  options.replace = arguments.replace;
  options.threads = arguments.threads;
  const Interrupt interrupt;
  options.cancel = &interrupt.flag();
  segy::ExportReport report;
  {
    ProgressBar bar("export");
    if (!arguments.quiet) {
      options.progress = [&](const segy::IngestProgress& p) {
        bar.show(p.stage, p.bytes_done, p.bytes_total);
      };
    }
    report = segy::export_segy(*volume, arguments.file, options);
  }
  if (report.clamped > 0) {
    fmt::print(stderr,
               "note: {} samples are beyond the range of format {} and were clamped [--format 5]\n",
               report.clamped, report.format);
  }
  fmt::print(
      "{}: {} traces as {}{}\n", arguments.file, report.traces, segy::format_name(report.format),
      report.made_headers > 0 ? fmt::format(", {} of them with new headers", report.made_headers)
                              : "");
}

}  // namespace

void add_volume_export(CLI::App& volume) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* verb = volume.add_subcommand("export", "Write a volume as SEG-Y");
  verb->footer(
      "Examples:\n"
      "  craton volume export f3.mdio f3.sgy                     the file that it was made from, "
      "byte by byte\n"
      "  craton volume export filled.mdio filled.sgy             what `craton predict` made, under "
      "the survey's headers\n"
      "  craton volume export other.mdio other.sgy --headers-from survey.mdio\n"
      "Killed or interrupted, the same command goes on from where it stopped.");
  verb->add_option("store", arguments->store, "The volume")->required();
  verb->add_option("file", arguments->file, "The SEG-Y file to write")->required();
  verb->add_option("--format", arguments->format,
                   "Sample format code, e.g. 1 (IBM float) or 5 (IEEE float)");
  verb->add_option("--headers-from", arguments->headers_from,
                   "Headers and order of traces come from this volume");
  verb->add_option("--variable", arguments->variable, "Another array of the store");
  verb->add_flag("--replace", arguments->replace, "Write over a file that is there already");
  verb->add_option("--threads", arguments->threads, "Threads (default: all cores)");
  verb->add_flag("--quiet", arguments->quiet, "No progress");
  verb->callback([arguments] { run_export(*arguments); });
}

}  // namespace craton::app
