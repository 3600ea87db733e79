#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "craton/app/cli/job_argument.h"
#include "craton/app/cli/verbs.h"
#include "craton/base/units.h"

namespace craton::app {
namespace {

struct EventsOptions {
  std::string job;
  bool json = false;
};

std::string who(const nlohmann::json& event) {
  if (event.contains("number")) return fmt::format("worker {}", event["number"].get<int>());
  return "";
}

void show_events(const EventsOptions& options) {
  const auto path = control::find_job(options.job) / "events.jsonl";
  std::ifstream file(path);
  if (!options.json)
    fmt::print("{:>9} {:>4} {:>6}  {:<11} {:<9} {}\n", "time", "gen", "step", "what", "who", "");
  for (std::string line; std::getline(file, line);) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (event.is_discarded()) continue;  // being written
    if (options.json) {
      fmt::print("{}\n", line);
      continue;
    }
    fmt::print("{:>8.2f}s {:>4} {:>6}  {:<11} {:<9} {}\n", event.value("elapsed_seconds", 0.0),
               event.value("generation", uint64_t{0}), event.value("step", int64_t{0}),
               event.value("kind", std::string()), who(event), event.value("text", std::string()));
  }
}

}  // namespace

void add_events(CLI::App& app) {
  auto options = std::make_shared<EventsOptions>();
  CLI::App* verb = app.add_subcommand(
      "events", "Show who joined and left a job, why, and how long each phase of that took");
  add_job_argument(*verb, options->job);
  verb->add_flag("--json", options->json, "One JSON object a line, with the times in seconds");
  verb->callback([options] { show_events(*options); });
}

}  // namespace craton::app
