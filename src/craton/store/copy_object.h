#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "craton/store/object_store.h"

namespace craton::store {

/// Copies one version of an object: the one that `source` names (by ETag, where it has one), or
/// nothing. The copy appears whole. Large objects go in ranges of 64 MiB. `advance` is told of the
/// bytes as they go and may throw to stop. kNotFound when the object is gone, kIo when it is
/// another version now.
void copy_object(ObjectStore& from, const ObjectInfo& source, ObjectStore& to, std::string_view key,
                 const std::function<void(uint64_t bytes)>& advance);

}  // namespace craton::store
