#pragma once

// Conversions between the plain structs of cluster/ and their protobuf forms; internal to
// protocol/.

#include "craton.pb.h"
#include "craton/cluster/membership.h"
#include "craton/cluster/messages.h"

namespace craton::wire {

void fill(Worker& to, const cluster::WorkerInfo& from);
void fill(Membership& to, const cluster::Membership& from);
void fill(Report& to, const cluster::Report& from);
void fill(Decision& to, const cluster::Decision& from);
void fill(LogRecord& to, const cluster::LogRecord& from);

cluster::WorkerInfo read(const Worker& from);
cluster::Membership read(const Membership& from);
cluster::Report read(const Report& from);
cluster::Decision read(const Decision& from);
cluster::LogRecord read(const LogRecord& from);

}  // namespace craton::wire
