#include "craton/store/lustre.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/runtime/process.h"

namespace craton::store {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kLustreMagic = 0x0BD00BD3;
constexpr size_t kFilesOfCommand = 256;
constexpr size_t kMostSeen = 1 << 20;
constexpr auto kPatience = std::chrono::seconds(60);
constexpr uint64_t kBytesOfStripe = 32 << 20;
constexpr int64_t kMostStripes = 8;

std::string find_program(const Environment& environment, std::string_view name) {
  const std::string path = environment("PATH").value_or("");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    const fs::path candidate = fs::path(path.substr(at, end - at)) / name;
    if (end > at && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    at = end + 1;
  }
  return "";
}

bool is_lustre(const fs::path& folder) {
  fs::path existing = folder;
  std::error_code error;
  while (!fs::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  struct statfs info;
  return ::statfs(existing.c_str(), &info) == 0 && int64_t{info.f_type} == kLustreMagic;
}

/// A released file has its size and at most one block.
bool is_released(const fs::path& file) {
  struct stat info;
  return ::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_blocks <= 1 &&
         info.st_size > 512 * info.st_blocks;
}

}  // namespace

int64_t stripes_for(uint64_t object_bytes) {
  return std::clamp<int64_t>(static_cast<int64_t>(object_bytes / kBytesOfStripe), 1, kMostStripes);
}

std::shared_ptr<Lustre> Lustre::of(const fs::path& folder, const Environment& environment) {
  const std::string said = environment("CRATON_LUSTRE").value_or("");
  if (said == "no" || (said != "yes" && !is_lustre(folder))) return nullptr;
  std::string program = find_program(environment, "lfs");
  if (program.empty()) return nullptr;
  return std::shared_ptr<Lustre>(new Lustre(std::move(program)));
}

bool Lustre::run(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {program_};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::string trouble;
  try {
    runtime::ProgramOptions options;
    options.timeout = kPatience;
    const auto result = runtime::run_program(command, options);
    if (result.exit_code == 0) return true;
    trouble = fmt::format("ended with {}: {}", result.exit_code,
                          result.errors.substr(0, std::min<size_t>(result.errors.find('\n'), 200)));
  } catch (const Error& e) {
    trouble = e.what();
  }
  const std::lock_guard lock(mutex_);
  if (!std::exchange(warned_, true))
    log_warning("{} {}: {}; what it could do for the speed is left out", program_, arguments[0],
                trouble);
  return false;
}

size_t Lustre::restore(std::span<const fs::path> files) {
  std::vector<std::string> released;
  for (const fs::path& file : files) {
    {
      const std::lock_guard lock(mutex_);
      if (seen_.size() >= kMostSeen) seen_.clear();
      if (!seen_.insert(file.string()).second) continue;
    }
    if (is_released(file)) released.push_back(file.string());
  }
  for (size_t at = 0; at < released.size(); at += kFilesOfCommand) {
    const auto from = released.begin() + static_cast<ptrdiff_t>(at);
    const auto count = std::min(kFilesOfCommand, released.size() - at);
    std::vector<std::string> arguments = {"hsm_restore"};
    arguments.insert(arguments.end(), from, from + static_cast<ptrdiff_t>(count));
    if (!run(arguments)) return at;
  }
  return released.size();
}

size_t Lustre::restore_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    files.push_back(it->path());
  std::ranges::sort(files);
  return restore(files);
}

void Lustre::expect_objects(const fs::path& folder, uint64_t bytes) {
  const int64_t stripes = stripes_for(bytes);
  std::vector<std::string> arguments = {"setstripe", "-c", std::to_string(stripes)};
  if (stripes > 1) arguments.insert(arguments.end(), {"-S", "4M"});
  arguments.push_back(folder.string());
  run(arguments);
}

}  // namespace craton::store
