#pragma once

#include <cstdint>

namespace craton::runtime {

/// Resident memory of this process in bytes, without pages of shared segments that other processes
/// own.
uint64_t resident_memory();
/// The most it has been.
uint64_t peak_resident_memory();
/// Memory that this machine (or this process's control group) can still give, in bytes.
uint64_t available_memory();

}  // namespace craton::runtime
