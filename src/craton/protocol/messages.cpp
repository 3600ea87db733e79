#include "craton/protocol/messages.h"

#include <google/protobuf/arena.h>

#include <charconv>

#include "craton/base/error.h"
#include "craton/protocol/wire.h"

namespace craton::protocol {
namespace {

void fill(wire::StepDone& to, const StepDone& m) {
  to.set_generation(m.generation);
  to.set_step(m.step);
  to.set_applied(m.applied);
  to.set_loss(m.loss);
  to.set_gradient_norm(m.gradient_norm);
  to.set_learning_rate(m.learning_rate);
  if (m.validation_loss) to.set_validation_loss(*m.validation_loss);
  to.set_seconds(m.seconds);
  to.set_compute_seconds(m.compute_seconds);
  to.set_reduce_seconds(m.reduce_seconds);
  to.set_gather_seconds(m.gather_seconds);
  to.set_data_wait_seconds(m.data_wait_seconds);
  to.set_resident_bytes(m.resident_bytes);
  to.set_batch(m.batch);
  to.set_samples_seen(m.samples_seen);
  to.set_communication_seconds(m.communication_seconds);
  to.set_sent_bytes(m.sent_bytes);
}

StepDone read(const wire::StepDone& from) {
  StepDone m{from.generation(),
             from.step(),
             from.applied(),
             from.loss(),
             from.gradient_norm(),
             from.learning_rate(),
             {},
             from.seconds(),
             from.compute_seconds(),
             from.reduce_seconds(),
             from.gather_seconds(),
             from.data_wait_seconds(),
             from.resident_bytes(),
             from.batch(),
             from.samples_seen(),
             from.communication_seconds(),
             from.sent_bytes()};
  if (from.has_validation_loss()) m.validation_loss = from.validation_loss();
  return m;
}

void fill(wire::CheckpointPart& to, const CheckpointPart& m) {
  to.set_step(m.step);
  to.set_updates(m.updates);
  to.set_generation(m.generation);
  to.set_rank(m.rank);
  to.set_world_size(m.world_size);
  for (const auto& parameter : m.parameters) {
    auto* p = to.add_parameters();
    p->set_name(parameter.name);
    for (int64_t n : parameter.shape) p->add_shape(n);
    p->set_dtype(parameter.dtype);
    p->set_fixed(!parameter.trained);
  }
  to.set_samples_seen(m.samples_seen);
}

CheckpointPart read(const wire::CheckpointPart& from) {
  CheckpointPart m{from.step(),        from.updates(),    from.generation(),  //
                   from.rank(),        from.world_size(), {},
                   from.samples_seen()};
  for (const auto& p : from.parameters())
    m.parameters.push_back({p.name(), {p.shape().begin(), p.shape().end()}, p.dtype(), !p.fixed()});
  return m;
}

struct Encoder {
  wire::Envelope& envelope;
  void operator()(const Hello& m) {
    auto* to = envelope.mutable_hello();
    wire::fill(*to->mutable_worker(), m.worker);
    to->set_parameters(m.parameters);
    to->set_tokens_per_sample(m.tokens_per_sample);
    to->set_training_flops_per_sample(m.training_flops_per_sample);
    to->set_peak_flops(m.peak_flops);
    to->set_data(m.data);
    to->set_generation(m.generation);
    to->set_pid(m.pid);
    to->set_number(m.number);
    to->set_progress_fd(m.progress_fd);
  }
  void operator()(const cluster::Membership& m) { wire::fill(*envelope.mutable_membership(), m); }
  void operator()(const cluster::Report& m) { wire::fill(*envelope.mutable_report(), m); }
  void operator()(const cluster::Decision& m) { wire::fill(*envelope.mutable_decision(), m); }
  void operator()(const Stop& m) { envelope.mutable_stop()->set_why(m.why); }
  void operator()(const StepDone& m) { fill(*envelope.mutable_step(), m); }
  void operator()(const CheckpointPart& m) { fill(*envelope.mutable_checkpoint_part(), m); }
  void operator()(const Done& m) {
    envelope.mutable_done()->set_step(m.step);
    envelope.mutable_done()->set_state_sha256(m.state_sha256);
    envelope.mutable_done()->set_stopped(m.stopped);
  }
  void operator()(const Left& m) {
    envelope.mutable_left()->set_generation(m.generation);
    envelope.mutable_left()->set_rests(m.rests);
  }
  void operator()(const Failed& m) {
    envelope.mutable_failed()->set_message(m.message);
    envelope.mutable_failed()->set_ends_job(m.ends_job);
  }
  void operator()(const BeginAnew&) { envelope.mutable_begin_anew(); }
  void operator()(const Leaving& m) {
    envelope.mutable_leaving()->set_grace_milliseconds(m.grace_milliseconds);
  }
};

}  // namespace

std::string to_text(const WorkerAddress& a) {
  return fmt::format("{}|{}|{}|{}|{}", a.incarnation, a.tcp_port, a.tcp_host, a.host_id,
                     a.local_socket);
}

WorkerAddress parse_address(std::string_view text) {
  std::string_view parts[5];
  for (int k = 0; k < 5; ++k) {
    const size_t at = k < 4 ? text.find('|') : text.size();
    if (at == std::string_view::npos)
      fail(ErrorCode::kCorrupt, "a worker's address cannot be read");
    parts[k] = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
  }
  WorkerAddress address{0, std::string(parts[3]), std::string(parts[4]), std::string(parts[2]), 0};
  std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), address.incarnation);
  std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), address.tcp_port);
  return address;
}

std::string encode(const Message& message) {
  wire::Envelope envelope;
  std::visit(Encoder{envelope}, message);
  return envelope.SerializeAsString();
}

Message decode(std::string_view bytes) {
  google::protobuf::Arena arena;  // a membership of hundreds has thousands of small parts
  auto& e = *google::protobuf::Arena::CreateMessage<wire::Envelope>(&arena);
  if (!e.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(ErrorCode::kCorrupt, "a control message cannot be read");
  switch (e.what_case()) {
    case wire::Envelope::kHello: {
      const auto& m = e.hello();
      return Hello{wire::read(m.worker()),
                   m.parameters(),
                   m.tokens_per_sample(),
                   m.training_flops_per_sample(),
                   m.peak_flops(),
                   m.data(),
                   m.generation(),
                   m.pid(),
                   m.number(),
                   m.progress_fd()};
    }
    case wire::Envelope::kMembership:
      return wire::read(e.membership());
    case wire::Envelope::kReport:
      return wire::read(e.report());
    case wire::Envelope::kDecision:
      return wire::read(e.decision());
    case wire::Envelope::kStop:
      return Stop{e.stop().why()};
    case wire::Envelope::kStep:
      return read(e.step());
    case wire::Envelope::kCheckpointPart:
      return read(e.checkpoint_part());
    case wire::Envelope::kDone:
      return Done{e.done().step(), e.done().state_sha256(), e.done().stopped()};
    case wire::Envelope::kLeft:
      return Left{e.left().generation(), e.left().rests()};
    case wire::Envelope::kFailed:
      return Failed{e.failed().message(), e.failed().ends_job()};
    case wire::Envelope::kBeginAnew:
      return BeginAnew{};
    case wire::Envelope::kLeaving:
      return Leaving{e.leaving().grace_milliseconds()};
    case wire::Envelope::WHAT_NOT_SET:
      break;
  }
  fail(ErrorCode::kCorrupt, "an empty control message");
}

std::string encode_log(const cluster::LogRecord& record) {
  wire::LogRecord log;
  wire::fill(log, record);
  return log.SerializeAsString();
}

cluster::LogRecord decode_log(std::string_view bytes) {
  wire::LogRecord log;
  if (!log.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(ErrorCode::kCorrupt, "the operator's log cannot be read");
  return wire::read(log);
}

}  // namespace craton::protocol
