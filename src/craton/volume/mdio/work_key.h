#pragma once

#include <string>

#include "craton/volume/volume.h"

namespace craton::volume::mdio {

/// One line that stands for the bytes of a store: what its samples come from, and how they are
/// written. What an unfinished store holds is used only under the same one.
std::string work_key(const std::string& source, const VolumeSpec& spec);

}  // namespace craton::volume::mdio
