#pragma once

#include <span>

#include "craton/volume/segy/file_facts.h"

namespace craton::volume::segy {

/// The decision how long a trace is: fills samples, header_bytes, trace_bytes, traces,
/// end_of_traces (or variable_offsets, or problem) of `facts`, whose order, format, revision and
/// first_trace are set. `binary` is the 400-byte binary header, empty for SU.
///
/// Header fields lie, sizes do not: of the counts that the headers offer, the first is taken that
/// divides the file evenly (and that the trace headers confirm, when it is not the binary
/// header's). Else the traces may differ in length, if following their own counts ends exactly at
/// the end of the file. Else the file is cut or mislabelled, and the problem says at which byte.
void decide_trace_layout(const ByteSource& source, const ReadOptions& options,
                         std::span<const std::byte> binary, FileFacts& facts);

}  // namespace craton::volume::segy
