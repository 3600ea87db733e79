#include "craton/control/worker_list.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace craton::control {
namespace fs = std::filesystem;
namespace {

/// Ticks since boot at which a process started; with its number it names it for ever. 0: no such
/// process, or it has ended and waits for its parent.
uint64_t start_time(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // the name may contain anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

}  // namespace

void write_worker_list(const fs::path& folder, const std::vector<ListedWorker>& list) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ListedWorker& worker : list) {
    json.push_back({{"number", worker.number},
                    {"pid", worker.pid},
                    {"started", start_time(worker.pid)},
                    {"id", worker.id.value()}});
  }
  const fs::path path = folder / "workers.json", next = folder / "workers.json.next";
  std::ofstream(next) << json.dump(1) << "\n";
  std::error_code error;
  fs::rename(next, path, error);
}

std::vector<ListedWorker> live_workers(const fs::path& folder) {
  std::vector<ListedWorker> out;
  std::ifstream file(folder / "workers.json");
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_array()) return out;
  for (const auto& entry : json) {
    const ListedWorker worker{entry.value("number", 0), entry.value("pid", 0),
                              cluster::WorkerId(entry.value("id", uint64_t{0}))};
    const uint64_t started = start_time(worker.pid);
    if (started != 0 && started == entry.value("started", uint64_t{0})) out.push_back(worker);
  }
  return out;
}

}  // namespace craton::control
