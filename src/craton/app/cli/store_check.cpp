#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <memory>

#include "craton/app/cli/store_verbs.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/store/http/message.h"
#include "craton/store/object_store.h"
#include "craton/store/s3/s3_store.h"
#include "craton/store/uri.h"

namespace craton::app {

namespace {

/// One line per question; a question that fails does not keep the others from being asked.
class Report {
 public:
  void say(const std::string& subject, const std::string& text) {
    fmt::print("  {:<12} {}\n", subject, text);
  }
  void ask(const std::string& subject, const std::function<std::string()>& question) {
    const auto start = std::chrono::steady_clock::now();
    try {
      const std::string answer = question();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      say(subject, answer + ", " + format_seconds(took.count()));
    } catch (const Error& e) {
      ++failures_;
      say(subject, fmt::format("FAILED: {}", e.what()));
    }
  }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
};

std::string clock_text(const store::http::Response& response) {
  const auto date = store::http::parse_http_date(response.headers.get("date"));
  if (!date) return "the server gives no time";
  const double ahead =
      std::chrono::duration<double>(std::chrono::system_clock::now() - *date).count();
  if (std::abs(ahead) < 2) return "agrees with the server's";
  return fmt::format("{} {} the server's{}", format_seconds(std::abs(ahead)),
                     ahead > 0 ? "ahead of" : "behind",
                     std::abs(ahead) > 300 ? "; S3 refuses more than 15 minutes" : "");
}

void check_s3(store::s3::S3Store& store, Report& report) {
  const store::s3::Location location = store.service().location();
  report.say("endpoint", fmt::format("{}, {} style{}", location.endpoint.origin(),
                                     location.path_style ? "path" : "virtual-host",
                                     location.endpoint_is_given ? "" : ", from the region"));
  report.ask("credentials", [&] { return store.service().credentials_name(); });
  report.ask("list", [&] {
    const auto response = store.probe();
    report.say("clock", clock_text(response));
    return std::string("works");
  });
  report.say("region", store.service().location().region);
}

/// The first object found by going down the first folders.
std::string find_object(store::ObjectStore& store) {
  std::string folder;
  for (int depth = 0; depth < 32; ++depth) {
    const auto names = store.list_children(folder);
    for (const std::string& name : names)
      if (!name.ends_with('/')) return folder + name;
    if (names.empty()) return "";
    folder += names.front();
  }
  return "";
}

std::string read_range(store::ObjectStore& store, const std::string& key) {
  const auto info = store.head(key);
  if (!info) fail(ErrorCode::kNotFound, "there is no object {}", store::join_uri(store.uri(), key));
  const uint64_t last = info->size / 2;
  if (info->size == 0) return fmt::format("\"{}\" is empty: nothing to read", key);
  const auto range = store.get_range(key, last, 1);
  const auto suffix = store.get_suffix(key, 1);
  if (!range || !suffix) fail(ErrorCode::kIo, "\"{}\" was there and is missing now", key);
  return fmt::format("works: byte {} and the last byte of \"{}\" ({})", last, key,
                     format_bytes(static_cast<double>(info->size)));
}

int run_check(const std::string& location) {
  fmt::print("{}\n", location.substr(0, location.find('?')));
  Report report;
  const bool is_web = location.starts_with("http://") || location.starts_with("https://");
  const store::ObjectPlace place =
      is_web ? store::split_uri(location) : store::ObjectPlace{location, ""};
  const auto store = store::open_store(place.root);
  if (auto* s3 = dynamic_cast<store::s3::S3Store*>(store.get())) check_s3(*s3, report);
  report.ask("range read", [&]() -> std::string {
    const std::string key = is_web ? place.key : find_object(*store);
    return key.empty() ? "there is no object to read yet" : read_range(*store, key);
  });
  return report.failures();
}

}  // namespace

void add_store_check(CLI::App& store) {
  auto location = std::make_shared<std::string>();
  CLI::App* verb = store.add_subcommand(
      "check",
      "Say what endpoint, region, credentials and clock are in use, and whether reads work");
  verb->footer(
      "Nothing is written. Exits with 1 when something does not work.\n"
      "Examples:\n"
      "  craton store check s3://surveys\n"
      "  craton store check \"s3://open-data/f3?anonymous=1&region=eu-west-1\"\n"
      "  craton store check https://example.org/f3.mdio/zarr.json");
  verb->add_option("location", *location, "s3://bucket/prefix, a path, or a web server's object")
      ->required();
  verb->callback([location] {
    const int failures = run_check(*location);
    if (failures > 0) fail(ErrorCode::kIo, "{} of the checks of this location failed", failures);
  });
}

}  // namespace craton::app
