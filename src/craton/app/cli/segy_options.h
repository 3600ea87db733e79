#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "craton/volume/segy/geometry.h"

namespace craton::app {

/// What a user may know better than a SEG-Y file, as options; the same for `ingest` and `info`.
class SegyOptions {
 public:
  void add_to(CLI::App& verb);
  /// Errors (kInvalidArgument) name the option.
  volume::segy::ReadOptions read() const;
  volume::segy::FieldChoice fields() const;
  volume::segy::GeometryOptions geometry() const;

 private:
  std::string inline_, crossline_, cdp_, offset_, angle_, x_, y_;
  std::string geometry_ = "auto", duplicates_ = "error", delay_ = "error", domain_ = "time",
              endian_;
  std::optional<double> start_, interval_;
  std::optional<int64_t> samples_;
  std::optional<int> format_, extended_headers_;
  std::optional<uint64_t> first_trace_;
  double max_sparsity_ = 10;
  bool su_ = false, lenient_ = false;
};

}  // namespace craton::app
