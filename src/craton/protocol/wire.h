#pragma once

// Conversions between the plain structs of cluster/ and their protobuf forms; internal to
// protocol/.

#include <utility>

#include "craton.pb.h"
#include "craton/cluster/failure_detector.h"
#include "craton/cluster/membership.h"
#include "craton/cluster/messages.h"
#include "operator.pb.h"

namespace craton::wire {

void fill(Worker& to, const cluster::WorkerInfo& from);
void fill(Membership& to, const cluster::Membership& from);
void fill(Report& to, const cluster::Report& from);
void fill(Decision& to, const cluster::Decision& from);
void fill(LogRecord& to, const cluster::LogRecord& from);
void fill(ProgressWord& to, const cluster::ProgressWord& from, cluster::Duration unchanged);

cluster::WorkerInfo read(const Worker& from);
cluster::Membership read(const Membership& from);
cluster::Report read(const Report& from);
cluster::Decision read(const Decision& from);
cluster::LogRecord read(const LogRecord& from);
/// With the time since it has changed.
std::pair<cluster::ProgressWord, cluster::Duration> read(const ProgressWord& from);

}  // namespace craton::wire
