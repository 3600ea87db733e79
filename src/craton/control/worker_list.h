#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

#include "craton/cluster/messages.h"

namespace craton::control {

/// A worker's process, as `workers.json` in the job's folder has it for whoever takes the job over.
struct ListedWorker {
  int number = 0;
  pid_t pid = 0;
  cluster::WorkerId id;  ///< 0: it has not introduced itself
};

/// Replaces the list. Not durable: after a crash of the machine no worker lives.
void write_worker_list(const std::filesystem::path& folder, const std::vector<ListedWorker>& list);
/// Those of the list whose process still exists (the same one, not a later one of that number).
std::vector<ListedWorker> live_workers(const std::filesystem::path& folder);

}  // namespace craton::control
