#pragma once

#include "craton/comm/communicator.h"

namespace craton::comm {

/// Buffers in the memory of an accelerator. The build picks the implementation; in one without an
/// accelerator runtime `is_available` is false, and callers need no other test.
class DeviceMemory {
 public:
  static bool is_available();
  /// Zeroed, kDevice. Error kUnsupported where it is not available.
  static Buffer allocate(size_t bytes);
};

}  // namespace craton::comm
