#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "craton/app/cli/segy_options.h"
#include "craton/app/cli/volume_verbs.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/segy/ingest.h"
#include "craton/volume/segy/survey_report.h"
#include "craton/volume/volume.h"

namespace craton::app {

namespace {

namespace segy = volume::segy;

struct InfoArguments {
  std::vector<std::string> paths;
  SegyOptions segy;
  std::string variable;
  bool json = false, text = false;
};

void info_of_files(const InfoArguments& arguments) {
  const std::vector<std::filesystem::path> files(arguments.paths.begin(), arguments.paths.end());
  const auto sources = segy::open_sources(files, arguments.segy.read());
  const segy::SurveyReport report = segy::survey(
      sources, arguments.segy.fields(), arguments.segy.geometry(), runtime::available_cores());
  if (arguments.json) {
    fmt::print("{}\n", segy::to_json(report));
    return;
  }
  if (arguments.text) {
    for (const std::string& line : report.text)
      fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
  fmt::print("{}", segy::to_text(report));
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, " x "));
}

int64_t live_traces(const volume::Volume& volume) {
  int64_t live = 0;
  for (uint8_t trace : volume.live()) live += trace != 0 ? 1 : 0;
  return live;
}

void print_store(const volume::Volume& volume) {
  const volume::VolumeInfo& info = volume.info();
  const volume::Statistics& s = info.statistics;
  fmt::print("{}\n  {:<12} {}{}\n", info.uri, "kind", info.format,
             info.name.empty() ? "" : ", " + info.name);
  for (const volume::Axis& axis : info.axes)
    fmt::print("  {:<12} {}\n", axis.name, segy::describe(axis));
  fmt::print("  {:<12} {} of {}\n", "shape", shape_text(info.shape()), info.sample_type);
  fmt::print("  {:<12} {}\n", "chunks", shape_text(info.chunk_shape));
  if (!info.shard_shape.empty())
    fmt::print("  {:<12} {}\n", "shards", shape_text(info.shard_shape));
  fmt::print("  {:<12} {}\n", "codec", info.codec);
  fmt::print("  {:<12} {} of {} traces\n", "live", live_traces(volume), volume.live().size());
  if (s.count == 0) {
    fmt::print("  {:<12} none stored, or all samples are 0\n", "statistics");
    return;
  }
  fmt::print(
      "  {:<12} {:.6g}..{:.6g}, mean {:.6g}, standard deviation {:.6g}, {} nonzero samples\n",
      "statistics", s.min, s.max, s.mean(), s.standard_deviation(), s.count);
}

void print_store_json(const volume::Volume& volume) {
  const volume::VolumeInfo& info = volume.info();
  const volume::Statistics& s = info.statistics;
  nlohmann::json axes = nlohmann::json::array();
  for (const volume::Axis& axis : info.axes) {
    const auto step = segy::regular_step(axis.coordinates);
    axes.push_back({{"name", axis.name},
                    {"unit", axis.unit},
                    {"size", axis.size()},
                    {"first", axis.coordinates.empty() ? nlohmann::json(nullptr)
                                                       : nlohmann::json(axis.coordinates.front())},
                    {"last", axis.coordinates.empty() ? nlohmann::json(nullptr)
                                                      : nlohmann::json(axis.coordinates.back())},
                    {"step", step ? nlohmann::json(*step) : nlohmann::json(nullptr)}});
  }
  const nlohmann::json out = {{"uri", info.uri},
                              {"format", info.format},
                              {"name", info.name},
                              {"axes", axes},
                              {"shape", info.shape()},
                              {"sample_type", info.sample_type},
                              {"chunk_shape", info.chunk_shape},
                              {"shard_shape", info.shard_shape},
                              {"codec", info.codec},
                              {"traces", volume.live().size()},
                              {"live_traces", live_traces(volume)},
                              {"statistics",
                               {{"count", s.count},
                                {"mean", s.mean()},
                                {"standard_deviation", s.standard_deviation()},
                                {"min", s.min},
                                {"max", s.max}}}};
  fmt::print("{}\n", out.dump(2));
}

bool is_store(const std::string& path) {
  return path.find("://") != std::string::npos || std::filesystem::is_directory(path);
}

void run_info(const InfoArguments& arguments) {
  if (!is_store(arguments.paths.front())) {
    info_of_files(arguments);
    return;
  }
  if (arguments.paths.size() > 1)
    fail(ErrorCode::kInvalidArgument, "volume info takes one store, or one or more SEG-Y files");
  const auto volume = volume::open_volume(arguments.paths.front(), arguments.variable);
  arguments.json ? print_store_json(*volume) : print_store(*volume);
}

}  // namespace

void add_volume_info(CLI::App& volume) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App* verb = volume.add_subcommand("info", "Say what a volume or a SEG-Y file holds");
  verb->footer(
      "Examples:\n"
      "  craton volume info f3.mdio\n"
      "  craton volume info unknown.sgy          which bytes number the traces, and what is "
      "suspicious\n"
      "  craton volume info unknown.sgy --json");
  verb->add_option("paths", arguments->paths, "A store, or SEG-Y files of one survey")
      ->required()
      ->type_name("STORE | FILE...");
  verb->add_flag("--json", arguments->json, "For programs");
  verb->add_flag("--text", arguments->text, "Show the text header too");
  verb->add_option("--variable", arguments->variable, "Another array of the store");
  arguments->segy.add_to(*verb);
  verb->callback([arguments] { run_info(*arguments); });
}

}  // namespace craton::app
