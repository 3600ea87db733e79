#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "craton/checkpoint/safetensors.h"

namespace craton::checkpoint {

/// The JSON header of `tensors`, whose offsets count from the start of the data.
std::string header_text(const std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata);

/// Reads and checks a header of untrusted origin without building a tree of it. `data_bytes` is
/// what follows the header. Offsets count from the start of the data; tensors come in their order.
/// Error says what is wrong.
void parse_header(std::string_view header, uint64_t data_bytes, std::vector<TensorInfo>& tensors,
                  std::map<std::string, std::string>& metadata);

}  // namespace craton::checkpoint
