#include "craton/results/result.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "craton/runtime/file.h"

namespace craton::results {

std::string result_json(const Result& r) {
  nlohmann::ordered_json json;
  json["name"] = r.name;
  json["steps"] = r.steps;
  json["train_loss"] = r.train_loss;
  json["val_loss"] = nullptr;
  if (r.validation_loss) json["val_loss"] = *r.validation_loss;
  json["state_sha256"] = r.state_sha256;
  json["stopped"] = r.stopped;
  json["skipped_steps"] = r.skipped_steps;
  json["lost_steps"] = r.lost_steps;
  json["failures"] = r.failures;
  json["downtime_seconds"] = r.downtime_seconds;
  json["goodput"] = r.goodput;
  json["workers"] = r.workers;
  json["strategy"] = r.strategy;
  json["parameters"] = r.parameters;
  json["resumed_from_step"] = r.resumed_from_step;
  json["seconds"] = r.seconds;
  json["training_seconds"] = r.training_seconds;
  json["samples_per_second"] = r.samples_per_second;
  json["data_wait_share"] = r.data_wait_share;
  json["recipe_digest"] = r.recipe_digest;
  json["started"] = r.started;
  json["finished"] = r.finished;
  return json.dump(2) + "\n";
}

void write_result(const std::filesystem::path& path, const Result& result) {
  runtime::write_file_atomically(path, result_json(result));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, length};
}

}  // namespace craton::results
