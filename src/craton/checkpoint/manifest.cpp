#include "craton/checkpoint/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "craton/base/error.h"

namespace craton::checkpoint {
namespace {

constexpr const char* kFormatName = "craton checkpoint";
constexpr std::string_view kStepPrefix = "step-";

bool is_file_name(const std::string& name) {
  return !name.empty() && name.size() < 200 && name.find('/') == std::string::npos &&
         name.front() != '.';
}

ParameterEntry parse_parameter(const nlohmann::json& json) {
  ParameterEntry entry;
  entry.name = json.at("name").get<std::string>();
  entry.shape = json.at("shape").get<std::vector<int64_t>>();
  entry.dtype = json.at("dtype").get<std::string>();
  entry.trained = json.at("trained").get<bool>();
  element_count(entry.shape);
  if (dtype_bytes(entry.dtype) == 0)
    fail(ErrorCode::kCorrupt, "'{}' has the unknown type '{}'", entry.name, entry.dtype);
  return entry;
}

}  // namespace

std::string manifest_text(const Manifest& manifest, const FileList& files) {
  nlohmann::ordered_json json;
  json["format"] = kFormatName;
  json["format_version"] = kFormatVersion;
  json["step"] = manifest.step;
  json["updates"] = manifest.updates;
  json["samples_seen"] = manifest.samples_seen;
  json["generation"] = manifest.generation;
  json["recipe_digest"] = manifest.recipe_digest;
  json["state_sha256"] = manifest.state_sha256;
  json["notes"] = manifest.notes;
  json["files"] = nlohmann::ordered_json::array();
  for (const auto& [name, size] : files) json["files"].push_back({{"name", name}, {"bytes", size}});
  json["parameters"] = nlohmann::ordered_json::array();
  for (const ParameterEntry& p : manifest.parameters) {
    json["parameters"].push_back(
        {{"name", p.name}, {"shape", p.shape}, {"dtype", p.dtype}, {"trained", p.trained}});
  }
  return json.dump(1) + "\n";
}

std::pair<Manifest, FileList> parse_manifest(std::string_view text,
                                             const std::filesystem::path& path) {
  Manifest m;
  FileList files;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") != kFormatName)
      fail(ErrorCode::kCorrupt, "it is not the manifest of a checkpoint");
    const int version = json.at("format_version").get<int>();
    if (version != kFormatVersion) {
      fail(ErrorCode::kUnsupported, "{} has format version {}; this program reads version {}",
           path.string(), version, kFormatVersion);
    }
    m.step = json.at("step").get<int64_t>();
    m.updates = json.at("updates").get<int64_t>();
    m.samples_seen = json.at("samples_seen").get<int64_t>();
    m.generation = json.at("generation").get<uint64_t>();
    m.recipe_digest = json.at("recipe_digest").get<std::string>();
    m.state_sha256 = json.at("state_sha256").get<std::string>();
    m.notes = json.at("notes").get<std::map<std::string, std::string>>();
    if (m.step < 0 || m.updates < 0 || m.samples_seen < 0)
      fail(ErrorCode::kCorrupt, "it counts below zero");
    for (const auto& file : json.at("files")) {
      files.emplace_back(file.at("name").get<std::string>(), file.at("bytes").get<uint64_t>());
      if (!is_file_name(files.back().first))
        fail(ErrorCode::kCorrupt, "it names the file '{}'", files.back().first);
    }
    std::set<std::string> names;
    for (const auto& parameter : json.at("parameters")) {
      m.parameters.push_back(parse_parameter(parameter));
      if (!names.insert(m.parameters.back().name).second) {
        fail(ErrorCode::kCorrupt, "it has '{}' twice", m.parameters.back().name);
      }
    }
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kCorrupt, "{} is damaged: not the JSON of a checkpoint's manifest",
         path.string());
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kUnsupported) throw;
    fail(ErrorCode::kCorrupt, "{} is damaged: {}", path.string(), e.message());
  }
  return {std::move(m), std::move(files)};
}

std::string part_name(std::string_view group, int part, int parts) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", group, part + 1, parts);
}

std::string tensor_name(StateKind kind, std::string_view parameter) {
  switch (kind) {
    case StateKind::kParameter:
      break;
    case StateKind::kExpAvg:
      return fmt::format("exp_avg.{}", parameter);
    case StateKind::kExpAvgSq:
      return fmt::format("exp_avg_sq.{}", parameter);
  }
  return std::string(parameter);
}

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

int64_t step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return -1;
  name.remove_prefix(kStepPrefix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
}

}  // namespace craton::checkpoint
