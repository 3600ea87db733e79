#include "craton/store/s3/profile.h"

#include <filesystem>

#include "craton/runtime/file.h"

namespace craton::store::s3 {

namespace {

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

/// A "#" or ";" behind a blank begins a comment.
std::string_view without_comment(std::string_view value) {
  for (size_t i = 1; i < value.size(); ++i)
    if ((value[i] == '#' || value[i] == ';') && (value[i - 1] == ' ' || value[i - 1] == '\t'))
      return trimmed(value.substr(0, i));
  return value;
}

std::string section_name(std::string_view line) {
  std::string_view name = trimmed(line.substr(1, line.find(']') - 1));
  if (name.starts_with("profile ") || name.starts_with("profile\t")) name = trimmed(name.substr(8));
  if (name.size() >= 2 && name.front() == '"' && name.back() == '"')
    name = name.substr(1, name.size() - 2);
  return std::string(name);
}

void read_into(Profile& profile, const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return;
  parse_profile(runtime::read_text(path), profile);
}

}  // namespace

std::string_view Profile::get(std::string_view setting) const {
  const auto it = settings.find(setting);
  return it == settings.end() ? std::string_view() : std::string_view(it->second);
}

void parse_profile(std::string_view text, Profile& profile) {
  bool inside = false;
  std::string nest;
  while (!text.empty()) {
    const std::string_view raw = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(raw.size() + 1, text.size()));
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      inside = section_name(line) == profile.name;
      profile.found |= inside;
      nest.clear();
      continue;
    }
    const size_t equals = line.find('=');
    if (!inside || equals == line.npos) continue;
    const std::string setting(trimmed(line.substr(0, equals)));
    const std::string value(without_comment(trimmed(line.substr(equals + 1))));
    const bool indented = raw.front() == ' ' || raw.front() == '\t';
    if (indented && !nest.empty()) {
      profile.settings[nest + "." + setting] = value;
      continue;
    }
    nest = value.empty() ? setting : "";
    if (!value.empty()) profile.settings[setting] = value;
  }
}

Profile read_profile(const std::string& name, const Environment& environment) {
  Profile profile;
  profile.name = !name.empty() ? name : environment("AWS_PROFILE").value_or("default");
  const auto home = environment("HOME");
  const auto path = [&](const char* variable, const char* file) {
    return environment(variable).value_or(home ? *home + "/.aws/" + file : "");
  };
  read_into(profile, path("AWS_CONFIG_FILE", "config"));
  read_into(profile, path("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
  return profile;
}

}  // namespace craton::store::s3
