#include "craton/protocol/agent_messages.h"

#include <tuple>

#include "craton/base/error.h"
#include "craton/protocol/wire.h"
#include "operator.pb.h"

namespace craton::protocol {
namespace {

struct EventEncoder {
  wire::AgentEvent& out;

  void operator()(const AgentHello& e) {
    auto* to = out.mutable_hello();
    to->set_node(e.node);
    to->set_slots(e.slots);
    to->set_pid(e.pid);
    for (const LiveWorker& worker : e.live) {
      auto* w = to->add_live();
      w->set_number(worker.number);
      w->set_pid(worker.pid);
      w->set_id(worker.id.value());
    }
  }
  void operator()(const WorkerStarted& e) {
    out.mutable_started()->set_number(e.number);
    out.mutable_started()->set_pid(e.pid);
  }
  void operator()(const WorkerSaid& e) {
    out.mutable_said()->set_number(e.number);
    out.mutable_said()->set_node(e.node);
    out.mutable_said()->set_pid(e.pid);
    out.mutable_said()->set_message(encode(e.message));
  }
  void operator()(const WorkerEnded& e) {
    out.mutable_ended()->set_number(e.number);
    out.mutable_ended()->set_how(e.how);
    out.mutable_ended()->set_last_words(e.last_words);
  }
  void operator()(const AgentProgress& e) {
    auto* to = out.mutable_progress();
    for (const AgentProgress::Worker& worker : e.workers) {
      auto* w = to->add_workers();
      w->set_number(worker.number);
      wire::fill(*w->mutable_word(), worker.word, worker.unchanged);
    }
  }
  void operator()(const NodeLeaving& e) {
    out.mutable_leaving()->set_grace_milliseconds(e.grace_milliseconds);
  }
};

struct CommandEncoder {
  wire::AgentCommand& out;

  void operator()(const JobOffer& c) {
    out.mutable_offer()->set_name(c.name);
    out.mutable_offer()->set_recipe(c.recipe);
    out.mutable_offer()->set_folder(c.folder);
    out.mutable_offer()->set_operator_id(c.operator_id);
  }
  void operator()(const StartWorker& c) {
    out.mutable_start()->set_number(c.number);
    out.mutable_start()->set_node(c.node);
  }
  void operator()(const TellWorker& c) {
    out.mutable_tell()->set_number(c.number);
    out.mutable_tell()->set_message(encode(c.message));
  }
  void operator()(const KillWorker& c) { out.mutable_kill()->set_number(c.number); }
  void operator()(const Heartbeat&) { out.mutable_heartbeat(); }
  void operator()(const EndAgent& c) {
    out.mutable_end()->set_failed(c.failed);
    out.mutable_end()->set_reason(c.reason);
  }
};

AgentHello read(const wire::AgentHello& from) {
  AgentHello hello{from.node(), from.slots(), from.pid(), {}};
  for (const auto& w : from.live())
    hello.live.push_back({w.number(), w.pid(), cluster::WorkerId(w.id())});
  return hello;
}

AgentProgress read(const wire::AgentProgress& from) {
  AgentProgress progress;
  for (const auto& w : from.workers()) {
    const auto [word, unchanged] = wire::read(w.word());
    progress.workers.push_back({w.number(), word, unchanged});
  }
  return progress;
}

}  // namespace

std::string encode(const AgentEvent& event) {
  wire::AgentEvent out;
  std::visit(EventEncoder{out}, event);
  return out.SerializeAsString();
}

AgentEvent decode_agent_event(std::string_view bytes) {
  wire::AgentEvent in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(ErrorCode::kCorrupt, "what an agent said does not parse");
  using Case = wire::AgentEvent::WhatCase;
  switch (in.what_case()) {
    case Case::kHello:
      return read(in.hello());
    case Case::kStarted:
      return WorkerStarted{in.started().number(), in.started().pid()};
    case Case::kSaid:
      return WorkerSaid{in.said().number(), in.said().node(), in.said().pid(),
                        decode(in.said().message())};
    case Case::kEnded:
      return WorkerEnded{in.ended().number(), in.ended().how(), in.ended().last_words()};
    case Case::kProgress:
      return read(in.progress());
    case Case::kLeaving:
      return NodeLeaving{in.leaving().grace_milliseconds()};
    case Case::WHAT_NOT_SET:
      break;
  }
  fail(ErrorCode::kCorrupt, "an agent said something unknown");
}

std::string encode(const AgentCommand& command) {
  wire::AgentCommand out;
  std::visit(CommandEncoder{out}, command);
  return out.SerializeAsString();
}

AgentCommand decode_agent_command(std::string_view bytes) {
  wire::AgentCommand in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail(ErrorCode::kCorrupt, "what the operator said does not parse");
  using Case = wire::AgentCommand::WhatCase;
  switch (in.what_case()) {
    case Case::kOffer:
      return JobOffer{in.offer().name(), in.offer().recipe(), in.offer().folder(),
                      in.offer().operator_id()};
    case Case::kStart:
      return StartWorker{in.start().number(), in.start().node()};
    case Case::kTell:
      return TellWorker{in.tell().number(), decode(in.tell().message())};
    case Case::kKill:
      return KillWorker{in.kill().number()};
    case Case::kHeartbeat:
      return Heartbeat{};
    case Case::kEnd:
      return EndAgent{in.end().failed(), in.end().reason()};
    case Case::WHAT_NOT_SET:
      break;
  }
  fail(ErrorCode::kCorrupt, "the operator said something unknown");
}

}  // namespace craton::protocol
