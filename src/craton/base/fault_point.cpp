#include "craton/base/fault_point.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "craton/base/check.h"
#include "craton/base/error.h"

namespace craton {
namespace {

struct Fault {
  std::string point, action;
  std::optional<int64_t> rank, step;
  int64_t occurrence = 1;
  int64_t delay_ms = 0;
  std::string hold;
  int64_t seen = 0;
  bool fired = false;
};

std::mutex g_mutex;
std::vector<Fault> g_faults;
std::atomic<int32_t> g_rank{-1};
std::atomic<int64_t> g_step{0};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

int64_t parse_number(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::kInvalidArgument, "fault '{}': '{}' is no number", whole, text);
  return value;
}

Fault parse_fault(std::string_view text) {
  const auto parts = split(text, ':');
  Fault fault;
  fault.point = parts[0];
  const auto& known = fault_points();
  if (std::none_of(known.begin(), known.end(),
                   [&](const FaultPoint& p) { return p.name == fault.point; })) {
    fail(ErrorCode::kInvalidArgument,
         "unknown fault point '{}'; craton-worker --list-fault-points prints them", fault.point);
  }
  for (size_t k = 1; k < parts.size(); ++k) {
    const auto pair = split(parts[k], '=');
    const std::string_view value = pair.size() > 1 ? pair[1] : "";
    if (pair[0] == "rank") {
      fault.rank = parse_number(value, text);
    } else if (pair[0] == "step") {
      fault.step = parse_number(value, text);
    } else if (pair[0] == "occurrence") {
      fault.occurrence = parse_number(value, text);
    } else {
      fault.action = pair[0];
      if (fault.action == "delay") fault.delay_ms = parse_number(value, text);
      if (fault.action == "hold") fault.hold = value;
    }
  }
  static constexpr std::string_view kActions[] = {"kill", "stop", "throw", "delay",
                                                  "hold", "flip", "full"};
  if (std::find(std::begin(kActions), std::end(kActions), fault.action) == std::end(kActions)) {
    fail(ErrorCode::kInvalidArgument,
         "fault '{}' has no action; expected kill, stop, throw, delay=MS, hold=FILE, flip or full",
         text);
  }
  return fault;
}

}  // namespace

void set_fault_rank(int32_t rank) { g_rank = rank; }

void set_fault_step(int64_t step) { g_step = step; }

void arm_faults(std::string_view text) {
  std::lock_guard lock(g_mutex);
  g_faults.clear();
  for (std::string_view entry : split(text, ';')) {
    if (!entry.empty()) g_faults.push_back(parse_fault(entry));
  }
  detail::faults_armed = !g_faults.empty();
}

namespace detail {

bool faults_armed = false;

bool reach_fault_point(std::string_view name) {
  std::string action, hold;
  int64_t delay_ms = 0;
  {
    std::lock_guard lock(g_mutex);
    for (Fault& fault : g_faults) {
      if (fault.fired || fault.point != name || (fault.rank && *fault.rank != g_rank) ||
          (fault.step && *fault.step != g_step))
        continue;
      if (++fault.seen < fault.occurrence) continue;
      fault.fired = true;
      action = fault.action;
      delay_ms = fault.delay_ms;
      hold = fault.hold;
      break;
    }
  }
  if (action == "kill") ::kill(::getpid(), SIGKILL);
  if (action == "stop") ::kill(::getpid(), SIGSTOP);
  if (action == "delay") std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  while (action == "hold" && ::access(hold.c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (action == "throw") fail(ErrorCode::kInternal, "fault injected at {}", name);
  return action == "flip" || action == "full";
}

}  // namespace detail
}  // namespace craton
