#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "craton/control/job_folder.h"
#include "craton/protocol/operator_requests.h"

namespace craton::app {

/// The JOB that `status`, `events`, `scale` and `drain` take: the name of a run or its folder.
void add_job_argument(CLI::App& verb, std::string& job);

/// Address of the job's operator. Error kNotFound when no such job exists, kInvalidArgument when it
/// does not run; both say what to do.
std::string find_operator(const std::string& job);

/// The operator's own word; nothing when it does not answer (it may be starting or ending).
std::optional<protocol::JobStatus> try_status(const std::filesystem::path& folder);

/// A sentence for the user of a job that does not run; may be empty.
std::string what_to_do(const control::JobOnDisk& job);

/// Prints the operator's answer; Error with its text when it refuses.
void print_or_fail(const protocol::Answer& answer);

}  // namespace craton::app
