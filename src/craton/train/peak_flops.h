#pragma once

namespace craton::train {

/// Single-precision multiply-adds (counted as 2) per second that one thread reaches in registers;
/// measured once, in some 20 ms.
double measure_peak_flops();

}  // namespace craton::train
