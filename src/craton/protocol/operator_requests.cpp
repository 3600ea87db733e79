#include "craton/base/error.h"
#include "craton/protocol/operator_messages.h"
#include "operator.pb.h"

namespace craton::protocol {
namespace {

template <typename Message>
void parse(Message& to, std::string_view bytes, std::string_view what) {
  if (!to.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(ErrorCode::kCorrupt, "{} does not parse", what);
}

cluster::StepPhase read_phase(uint32_t phase) {
  if (phase > static_cast<uint32_t>(cluster::StepPhase::kFenced))
    fail(ErrorCode::kCorrupt, "a job's status has an unknown phase");
  return static_cast<cluster::StepPhase>(phase);
}

}  // namespace

std::string encode_request(const EventBody& event, cluster::Instant now) {
  wire::OperatorEvent whole;
  parse(whole, encode_event(event, now).value_or(""), "a request");
  switch (whole.what_case()) {
    case wire::OperatorEvent::kScale:
      return whole.scale().SerializeAsString();
    case wire::OperatorEvent::kDrain:
      return whole.drain().SerializeAsString();
    case wire::OperatorEvent::kUndrain:
      return whole.undrain().SerializeAsString();
    case wire::OperatorEvent::kStop:
      return whole.stop().SerializeAsString();
    default:
      fail(ErrorCode::kInternal, "this event is no request");
  }
}

EventBody decode_request(std::string_view method, std::string_view bytes, cluster::Instant now) {
  wire::OperatorEvent whole;
  if (method == kScaleMethod) {
    parse(*whole.mutable_scale(), bytes, "a request");
  } else if (method == kDrainMethod) {
    parse(*whole.mutable_drain(), bytes, "a request");
  } else if (method == kUndrainMethod) {
    parse(*whole.mutable_undrain(), bytes, "a request");
  } else if (method == kStopMethod) {
    parse(*whole.mutable_stop(), bytes, "a request");
  } else {
    fail(ErrorCode::kUnsupported, "the operator has no method {}", method);
  }
  return std::get<EventBody>(decode_event(whole.SerializeAsString(), now));
}

std::string encode_answer(const Answer& answer) {
  wire::Answer out;
  out.set_accepted(answer.accepted);
  out.set_text(answer.text);
  return out.SerializeAsString();
}

Answer decode_answer(std::string_view bytes) {
  wire::Answer in;
  parse(in, bytes, "an answer of the operator");
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
    auto* progress = to->mutable_progress();
    progress->set_phase(static_cast<uint32_t>(worker.progress.phase));
    progress->set_step(worker.progress.step.value());
    progress->set_operation(worker.progress.operation);
    progress->set_waiting(worker.progress.waiting);
    progress->set_unchanged_milliseconds(worker.unchanged.count());
  }
  return out.SerializeAsString();
}

JobStatus decode_status(std::string_view bytes) {
  wire::JobStatus in;
  parse(in, bytes, "a job's status");
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
    const auto& p = w.progress();
    status.workers.push_back({cluster::WorkerId(w.worker()),
                              w.number(),
                              w.rank(),
                              w.node(),
                              w.pid(),
                              w.state(),
                              {read_phase(p.phase()), Step(p.step()), p.operation(), p.waiting()},
                              cluster::Duration(p.unchanged_milliseconds())});
  }
  return status;
}

}  // namespace craton::protocol
