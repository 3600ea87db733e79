#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace craton {

/// A place in the protocol where tests make something go wrong; compiled in always (one predictable
/// branch). Armed from outside:
///   CRATON_FAULTS="commit.before:rank=1:step=3:kill; transfer.chunk:occurrence=2:delay=200"
/// actions: kill (SIGKILL), stop (SIGSTOP until someone continues it), throw, delay=MILLISECONDS,
/// hold=FILE (waits until the file exists), flip (asks the place to flip a bit), full (asks the
/// place to act as on a full disk). rank, step and occurrence (1, 2, ...) narrow where it fires;
/// each entry fires once.
struct FaultPoint {
  std::string_view name;
  std::string_view meaning;
};

/// All of them; `craton-worker --list-fault-points` prints this.
const std::vector<FaultPoint>& fault_points();

/// Where this process is; faults compare themselves with it. The rank is that of the first
/// generation that it is a member of, so that a survivor that moves up does not inherit another
/// one's fault; -1: not a member yet.
void set_fault_rank(int32_t rank);
void set_fault_step(int64_t step);

/// Arms from a text as above; throws kInvalidArgument for an unknown point or action. Called once
/// with the environment's value at the start.
void arm_faults(std::string_view text);

/// What `flip` does to memory.
inline void flip_a_bit(void* memory) { *static_cast<unsigned char*>(memory) ^= 1; }

namespace detail {
extern bool faults_armed;
/// Acts when an entry matches; true when the place itself has to act (flip, full).
bool reach_fault_point(std::string_view name);
}  // namespace detail

}  // namespace craton

/// `CRATON_FAULT_POINT("store.before_ack")`, or as a condition where the place can act: `if
/// (CRATON_FAULT_POINT("apply.middle")) flip...`.
#define CRATON_FAULT_POINT(name) \
  (::craton::detail::faults_armed && ::craton::detail::reach_fault_point(name))
