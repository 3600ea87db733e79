#include "craton/base/error.h"
#include "craton/comm/device_memory.h"

namespace craton::comm {

bool DeviceMemory::is_available() { return false; }

Buffer DeviceMemory::allocate(size_t) {
  fail(ErrorCode::kUnsupported, "this build has no accelerator runtime: use device: cpu");
}

}  // namespace craton::comm
