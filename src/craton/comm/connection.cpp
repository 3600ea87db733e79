#include "craton/comm/connection.h"

#include "craton/base/error.h"

namespace craton::comm {
namespace {

Error describe(const Call& call, ErrorCode code, std::string message, Reaction reaction) {
  return Error(code, std::move(message), reaction)
      .with("peer rank", std::to_string(call.peer.value()))
      .with("generation", std::to_string(call.generation()))
      .with("operation", std::to_string(call.operation));
}

}  // namespace

void Call::throw_ended(std::string_view why) const {
  throw describe(*this, ErrorCode::kGenerationEnded, std::string(why), Reaction::kReconfigure);
}

void Call::throw_lost(const std::string& why) const {
  throw describe(*this, ErrorCode::kPeerLost, "lost a worker: " + why, Reaction::kReconfigure);
}

void Call::throw_timeout(std::string_view what) const {
  throw describe(*this, ErrorCode::kTimeout,
                 fmt::format("{} took longer than {} ms", what, state->timeout_ms.load()),
                 Reaction::kReconfigure);
}

}  // namespace craton::comm
