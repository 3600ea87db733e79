#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace craton::train {

/// Which columns of patches of a window (those above one another, which share their traces) to hide
/// from the model, pass by pass: one byte per column, 1 = hidden. `dead` is the share of dead
/// traces of each column. Each column with a dead trace is hidden in at least one pass; those that
/// are dead altogether in all of them, as they show nothing. Where scattered dead traces touch
/// nearly every column, hiding all of them at once would leave nothing to predict from: a pass
/// hides at most `most` columns (but at least one partly dead one), and neighbours go to different
/// passes. No passes when nothing is dead, or when no pass could show a live trace.
std::vector<std::vector<uint8_t>> hiding_passes(std::span<const double> dead, int64_t most);

}  // namespace craton::train
