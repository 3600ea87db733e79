#pragma once

#include <string>

namespace craton::store {

struct ObjectPlace {
  std::string root, key;
};

/// The counterpart of `join_uri`: "s3://b/x/y?region=r" is the object "y" of "s3://b/x?region=r";
/// also for plain paths. The key is "" where the URI ends in "/" or is a bucket alone.
ObjectPlace split_uri(const std::string& uri);

}  // namespace craton::store
