#include "craton/app/cli/job_argument.h"

#include <fmt/format.h>

#include "craton/base/error.h"
#include "craton/control/operator_service.h"

namespace craton::app {

void add_job_argument(CLI::App& verb, std::string& job) {
  verb.add_option("job", job, "Name of the job (a folder in ./runs) or the folder of its run")
      ->required();
}

std::string what_to_do(const control::JobOnDisk& job) {
  if (!job.log || job.running) return "";
  if (job.log->phase == cluster::JobPhase::kFinished) return "";
  return fmt::format("`craton resume {}` goes on", job.name);
}

std::string find_operator(const std::string& job) {
  const auto folder = control::find_job(job);
  const control::JobOnDisk found = control::inspect_job(folder);
  if (!found.running) {
    const std::string hint = what_to_do(found);
    fail(ErrorCode::kInvalidArgument, "{} does not run: {}{}", found.name, control::describe(found),
         hint.empty() ? "" : "; " + hint);
  }
  const auto address = control::read_operator_address(folder);
  if (!address)
    fail(ErrorCode::kNotFound, "{} is just starting or ending; try again in a moment", found.name);
  return address->calls;
}

std::optional<protocol::JobStatus> try_status(const std::filesystem::path& folder) {
  const auto address = control::read_operator_address(folder);
  if (!address) return std::nullopt;
  try {
    return control::ask_status(address->calls);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kPeerLost) throw;
    return std::nullopt;
  }
}

void print_or_fail(const protocol::Answer& answer) {
  if (!answer.accepted) fail(ErrorCode::kInvalidArgument, "{}", answer.text);
  fmt::print("{}\n", answer.text);
}

}  // namespace craton::app
