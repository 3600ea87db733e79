#include "craton/protocol/operator_messages.h"

#include "craton/base/error.h"
#include "craton/protocol/wire.h"
#include "operator.pb.h"

namespace craton::protocol {
namespace {

using namespace cluster;  // NOLINT: each of its events and actions has a message of the same name

std::vector<WorkerId> read_ids(const google::protobuf::RepeatedField<uint64_t>& from) {
  std::vector<WorkerId> ids;
  for (uint64_t id : from) ids.push_back(WorkerId(id));
  return ids;
}

template <typename Message>
void add_ids(Message& to, const std::vector<WorkerId>& ids) {
  for (WorkerId id : ids) to.add_to(id.value());
}

struct EventEncoder {
  wire::OperatorEvent& out;
  Instant now;

  bool operator()(const OperatorStarted&) { return false; }
  bool operator()(const PersistRefused&) { return false; }
  bool operator()(const Tick&) { return false; }
  bool operator()(const WorkerReady& e) {
    wire::fill(*out.mutable_ready()->mutable_worker(), e.worker);
    out.mutable_ready()->set_generation(e.generation.value());
    return true;
  }
  bool operator()(const WorkerExited& e) {
    auto* to = out.mutable_exited();
    to->set_worker(e.worker.value());
    to->set_kind(static_cast<wire::WorkerExited::Kind>(e.kind));
    to->set_log_tail(e.log_tail);
    return true;
  }
  bool operator()(const StartFailed& e) {
    out.mutable_start_failed()->set_count(e.count);
    out.mutable_start_failed()->set_why(e.why);
    out.mutable_start_failed()->set_fatal(e.fatal);
    return true;
  }
  bool operator()(const WorkersSuspected& e) {
    for (WorkerId id : e.workers) out.mutable_suspected()->add_workers(id.value());
    out.mutable_suspected()->set_why(e.why);
    return true;
  }
  bool operator()(const Stalled& e) {
    out.mutable_stalled()->set_why(e.why);
    return true;
  }
  bool operator()(const ReportReceived& e) {
    wire::fill(*out.mutable_report(), e.report);
    return true;
  }
  bool operator()(const StepCommitted& e) {
    out.mutable_committed()->set_step(e.step.value());
    return true;
  }
  bool operator()(const WorkerFinished& e) {
    out.mutable_finished()->set_worker(e.worker.value());
    out.mutable_finished()->set_stopped(e.stopped);
    return true;
  }
  bool operator()(const ScaleRequested& e) {
    out.mutable_scale()->set_workers(e.workers);
    return true;
  }
  bool operator()(const DrainRequested& e) {
    auto* to = out.mutable_drain();
    to->set_node(e.node);
    if (e.worker) to->set_worker(e.worker->value());
    if (e.deadline) to->set_deadline_milliseconds((*e.deadline - now).count());
    return true;
  }
  bool operator()(const UndrainRequested& e) {
    out.mutable_undrain()->set_node(e.node);
    return true;
  }
  bool operator()(const CheckpointPublished& e) {
    out.mutable_checkpoint()->set_step(e.state.step.value());
    out.mutable_checkpoint()->set_position(e.state.position);
    return true;
  }
  bool operator()(const StopRequested& e) {
    out.mutable_stop()->set_why(e.why);
    return true;
  }
};

void fill(wire::Progress& to, const AgentProgress& from) {
  to.set_node(from.node);
  for (const AgentProgress::Worker& w : from.workers) {
    auto* p = to.add_workers();
    p->set_worker(w.worker.value());
    p->set_phase(static_cast<uint32_t>(w.word.phase));
    p->set_step(w.word.step.value());
    p->set_operation(w.word.operation);
    p->set_waiting(w.word.waiting);
    p->set_unchanged_milliseconds(w.unchanged.count());
  }
}

AgentProgress read(const wire::Progress& from) {
  AgentProgress progress{from.node(), {}};
  for (const auto& w : from.workers()) {
    if (w.phase() > static_cast<uint32_t>(StepPhase::kFenced))
      throw Error(ErrorCode::kCorrupt, "progress: unknown phase");
    progress.workers.push_back(
        {WorkerId(w.worker()),
         {static_cast<StepPhase>(w.phase()), Step(w.step()), w.operation(), w.waiting()},
         Duration(w.unchanged_milliseconds())});
  }
  return progress;
}

ExitKind read_kind(wire::WorkerExited::Kind kind) {
  switch (kind) {
    case wire::WorkerExited::DRAINED:
      return ExitKind::kDrained;
    case wire::WorkerExited::STOPPED:
      return ExitKind::kStopped;
    case wire::WorkerExited::FATAL:
      return ExitKind::kFatal;
    default:
      return ExitKind::kCrash;
  }
}

DrainRequested read(const wire::DrainRequest& from, Instant now) {
  DrainRequested drain{from.node(), std::nullopt, std::nullopt};
  if (from.has_worker()) drain.worker = WorkerId(from.worker());
  if (from.has_deadline_milliseconds())
    drain.deadline = now + Duration(from.deadline_milliseconds());
  return drain;
}

}  // namespace

std::optional<std::string> encode_event(const OperatorInput& input, Instant now) {
  wire::OperatorEvent out;
  if (const auto* progress = std::get_if<AgentProgress>(&input)) {
    fill(*out.mutable_progress(), *progress);
  } else if (!std::visit(EventEncoder{out, now}, std::get<EventBody>(input))) {
    return std::nullopt;
  }
  return out.SerializeAsString();
}

OperatorInput decode_event(std::string_view bytes, Instant now) {
  wire::OperatorEvent in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorCode::kCorrupt, "an event for the operator does not parse");
  }
  using Case = wire::OperatorEvent::WhatCase;
  switch (in.what_case()) {
    case Case::kReady:
      return EventBody(
          WorkerReady{wire::read(in.ready().worker()), Generation(in.ready().generation())});
    case Case::kExited:
      return EventBody(WorkerExited{WorkerId(in.exited().worker()), read_kind(in.exited().kind()),
                                    in.exited().log_tail()});
    case Case::kStartFailed:
      return EventBody(StartFailed{in.start_failed().count(), in.start_failed().why(),
                                   in.start_failed().fatal()});
    case Case::kSuspected:
      return EventBody(WorkersSuspected{read_ids(in.suspected().workers()), in.suspected().why()});
    case Case::kStalled:
      return EventBody(Stalled{in.stalled().why()});
    case Case::kReport:
      return EventBody(ReportReceived{wire::read(in.report())});
    case Case::kCommitted:
      return EventBody(StepCommitted{Step(in.committed().step())});
    case Case::kFinished:
      return EventBody(WorkerFinished{WorkerId(in.finished().worker()), in.finished().stopped()});
    case Case::kScale:
      return EventBody(ScaleRequested{in.scale().workers()});
    case Case::kDrain:
      return EventBody(read(in.drain(), now));
    case Case::kUndrain:
      return EventBody(UndrainRequested{in.undrain().node()});
    case Case::kCheckpoint:
      return EventBody(
          CheckpointPublished{{Step(in.checkpoint().step()), in.checkpoint().position()}});
    case Case::kStop:
      return EventBody(StopRequested{in.stop().why()});
    case Case::kProgress:
      return read(in.progress());
    case Case::WHAT_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kCorrupt, "an event for the operator is of an unknown kind");
}

std::optional<std::string> encode_action(const Action& action) {
  wire::OperatorAction out;
  if (const auto* a = std::get_if<Announce>(&action)) {
    wire::fill(*out.mutable_announce()->mutable_membership(), a->membership);
    add_ids(*out.mutable_announce(), a->to);
  } else if (const auto* a = std::get_if<SendDecision>(&action)) {
    wire::fill(*out.mutable_decision()->mutable_decision(), a->decision);
    add_ids(*out.mutable_decision(), a->to);
  } else if (const auto* a = std::get_if<StartWorkers>(&action)) {
    out.mutable_start()->set_count(a->count);
    for (const std::string& node : a->avoid_nodes) out.mutable_start()->add_avoid_nodes(node);
  } else if (const auto* a = std::get_if<StopWorker>(&action)) {
    out.mutable_stop()->set_worker(a->worker.value());
    out.mutable_stop()->set_reason(a->reason);
  } else if (const auto* a = std::get_if<RestartWorker>(&action)) {
    out.mutable_restart()->set_worker(a->worker.value());
  } else if (const auto* a = std::get_if<PublishEvent>(&action)) {
    auto* to = out.mutable_event();
    to->set_kind(a->kind);
    to->set_generation(a->generation.value());
    if (a->worker) to->set_worker(a->worker->value());
    to->set_text(a->text);
  } else if (const auto* a = std::get_if<EndJob>(&action)) {
    out.mutable_end()->set_phase(static_cast<int32_t>(a->phase));
    out.mutable_end()->set_reason(a->reason);
  } else {
    return std::nullopt;
  }
  return out.SerializeAsString();
}

Action decode_action(std::string_view bytes) {
  wire::OperatorAction in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorCode::kCorrupt, "an action of the operator does not parse");
  }
  using Case = wire::OperatorAction::WhatCase;
  switch (in.what_case()) {
    case Case::kAnnounce:
      return Announce{wire::read(in.announce().membership()), read_ids(in.announce().to())};
    case Case::kDecision:
      return SendDecision{wire::read(in.decision().decision()), read_ids(in.decision().to())};
    case Case::kStart:
      return StartWorkers{in.start().count(),
                          {in.start().avoid_nodes().begin(), in.start().avoid_nodes().end()}};
    case Case::kStop:
      return StopWorker{WorkerId(in.stop().worker()), in.stop().reason()};
    case Case::kRestart:
      return RestartWorker{WorkerId(in.restart().worker())};
    case Case::kEvent: {
      PublishEvent event{in.event().kind(), Generation(in.event().generation()), std::nullopt,
                         in.event().text()};
      if (in.event().has_worker()) event.worker = WorkerId(in.event().worker());
      return event;
    }
    case Case::kEnd:
      if (in.end().phase() < 0 || in.end().phase() > static_cast<int32_t>(JobPhase::kSuperseded))
        break;
      return EndJob{static_cast<JobPhase>(in.end().phase()), in.end().reason()};
    case Case::WHAT_NOT_SET:
      break;
  }
  throw Error(ErrorCode::kCorrupt, "an action of the operator is of an unknown kind");
}

}  // namespace craton::protocol
