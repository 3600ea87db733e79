#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace craton::app {

void add_store_ls(CLI::App& store);
void add_store_cp(CLI::App& store);
void add_store_cat(CLI::App& store);
void add_store_check(CLI::App& store);

/// "s3://b/x/y?region=r" is the object "y" of "s3://b/x?region=r"; also for plain paths. The key is
/// "" where the location ends in "/" or is a bucket alone.
struct ObjectPlace {
  std::string root, key;
};
ObjectPlace split_location(const std::string& location);

}  // namespace craton::app
