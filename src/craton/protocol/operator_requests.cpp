#include "craton/protocol/operator_requests.h"

#include <tuple>

#include "craton/base/error.h"
#include "craton/protocol/wire.h"
#include "operator.pb.h"

namespace craton::protocol {
namespace {

template <typename Message>
Message parse(std::string_view bytes, std::string_view what) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(ErrorCode::kCorrupt, "{} does not parse", what);
  return message;
}

}  // namespace

std::string encode_request(const EventBody& event, cluster::Instant now) {
  if (const auto* scale = std::get_if<cluster::ScaleRequested>(&event)) {
    wire::ScaleRequest out;
    out.set_workers(scale->workers);
    return out.SerializeAsString();
  }
  if (const auto* drain = std::get_if<cluster::DrainRequested>(&event)) {
    wire::DrainRequest out;
    out.set_node(drain->node);
    if (drain->worker) out.set_worker(drain->worker->value());
    if (drain->deadline) out.set_deadline_milliseconds((*drain->deadline - now).count());
    return out.SerializeAsString();
  }
  if (const auto* undrain = std::get_if<cluster::UndrainRequested>(&event)) {
    wire::UndrainRequest out;
    out.set_node(undrain->node);
    return out.SerializeAsString();
  }
  if (const auto* stop = std::get_if<cluster::StopRequested>(&event)) {
    wire::StopRequest out;
    out.set_why(stop->why);
    return out.SerializeAsString();
  }
  fail(ErrorCode::kInternal, "this event is no request");
}

EventBody decode_request(std::string_view method, std::string_view bytes, cluster::Instant now) {
  if (method == kScaleMethod)
    return cluster::ScaleRequested{parse<wire::ScaleRequest>(bytes, "a request").workers()};
  if (method == kDrainMethod) {
    const auto in = parse<wire::DrainRequest>(bytes, "a request");
    cluster::DrainRequested drain{in.node(), std::nullopt, std::nullopt};
    if (in.has_worker()) drain.worker = cluster::WorkerId(in.worker());
    if (in.has_deadline_milliseconds())
      drain.deadline = now + cluster::Duration(in.deadline_milliseconds());
    return drain;
  }
  if (method == kUndrainMethod)
    return cluster::UndrainRequested{parse<wire::UndrainRequest>(bytes, "a request").node()};
  if (method == kStopMethod)
    return cluster::StopRequested{parse<wire::StopRequest>(bytes, "a request").why()};
  fail(ErrorCode::kUnsupported, "the operator has no method {}", method);
}

std::string encode_answer(const Answer& answer) {
  wire::Answer out;
  out.set_accepted(answer.accepted);
  out.set_text(answer.text);
  return out.SerializeAsString();
}

Answer decode_answer(std::string_view bytes) {
  const auto in = parse<wire::Answer>(bytes, "an answer of the operator");
  return {in.accepted(), in.text()};
}

std::string encode_status(const JobStatus& status) {
  wire::JobStatus out;
  out.set_name(status.name);
  out.set_strategy(status.strategy);
  out.set_phase(static_cast<int32_t>(status.phase));
  out.set_generation(status.generation);
  out.set_step(status.step);
  out.set_steps(status.steps);
  out.set_checkpoint(status.checkpoint);
  out.set_requested(status.requested);
  out.set_min_workers(status.min_workers);
  out.set_max_workers(status.max_workers);
  out.set_spares(status.spares);
  out.set_loss(status.loss);
  out.set_seconds_per_step(status.seconds_per_step);
  out.set_elapsed_seconds(status.elapsed_seconds);
  out.set_pid(status.pid);
  out.set_batch(status.batch);
  out.set_learning_rate(status.learning_rate);
  for (const JobStatus::Worker& worker : status.workers) {
    auto* to = out.add_workers();
    to->set_worker(worker.id.value());
    to->set_number(worker.number);
    to->set_rank(worker.rank);
    to->set_node(worker.node);
    to->set_pid(worker.pid);
    to->set_state(worker.state);
    wire::fill(*to->mutable_progress(), worker.progress, worker.unchanged);
  }
  return out.SerializeAsString();
}

JobStatus decode_status(std::string_view bytes) {
  const auto in = parse<wire::JobStatus>(bytes, "a job's status");
  if (in.phase() < 0 || in.phase() > static_cast<int32_t>(cluster::JobPhase::kSuperseded))
    fail(ErrorCode::kCorrupt, "a job's status has an unknown phase");
  JobStatus status;
  status.name = in.name();
  status.strategy = in.strategy();
  status.phase = static_cast<cluster::JobPhase>(in.phase());
  status.generation = in.generation();
  status.step = in.step();
  status.steps = in.steps();
  status.checkpoint = in.checkpoint();
  status.requested = in.requested();
  status.min_workers = in.min_workers();
  status.max_workers = in.max_workers();
  status.spares = in.spares();
  status.loss = in.loss();
  status.seconds_per_step = in.seconds_per_step();
  status.elapsed_seconds = in.elapsed_seconds();
  status.pid = in.pid();
  status.batch = in.batch();
  status.learning_rate = in.learning_rate();
  for (const auto& w : in.workers()) {
    JobStatus::Worker worker{
        cluster::WorkerId(w.worker()), w.number(), w.rank(), w.node(), w.pid(), w.state(), {}, {}};
    std::tie(worker.progress, worker.unchanged) = wire::read(w.progress());
    status.workers.push_back(std::move(worker));
  }
  return status;
}

}  // namespace craton::protocol
