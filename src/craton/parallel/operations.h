#pragma once

#include <cstdint>

#include "craton/base/strong.h"

namespace craton::parallel {

/// Names of the messages of a step: sender and receiver derive the same operation number from the
/// protocol, so nothing needs to be agreed upon.
enum class Phase : uint8_t {
  kReduce = 1,
  kStore,
  kLosses,
  kAcknowledge,
  kCommit,
  kGather,
  kEnter,
  kTransfer,
  kParameters,
  kState,
  kDigest,
  kValidation,
  kContext,
};

/// Unique within a generation: step (32 bits), phase (4), round (12), bucket (16).
inline uint64_t operation(Step step, Phase phase, int round = 0, int64_t bucket = 0) {
  return static_cast<uint64_t>(step.value()) << 32 | static_cast<uint64_t>(phase) << 28 |
         (static_cast<uint64_t>(round) & 0xFFF) << 16 | (static_cast<uint64_t>(bucket) & 0xFFFF);
}

}  // namespace craton::parallel
