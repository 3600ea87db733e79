#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "craton/volume/segy/geometry.h"

namespace craton::volume::segy {

/// A header place that may number traces, with what stands there over the whole file.
struct CandidateField {
  HeaderField field;
  std::string name;  ///< the standard's name for the place
  int64_t min = 0, max = 0;
  int64_t distinct = 0;  ///< different values; exact up to a million
};

/// What `craton volume info` says about SEG-Y files (one, or several of one survey).
struct SurveyReport {
  std::vector<FileFacts> files;
  SampleProbe probe;                       ///< of the first file
  std::vector<std::string> text;           ///< its text header, 40 lines; empty for SU
  std::vector<CandidateField> candidates;  ///< those that are not always zero
  std::optional<Geometry> geometry;        ///< as ingest would take it with the same options
  std::string geometry_problem;            ///< why there is none
  std::vector<std::pair<HeaderField, HeaderField>>
      fitting;                  ///< inline and crossline bytes that would make a grid
  std::vector<Remark> remarks;  ///< everything suspicious
};

/// Looks at everything; throws only when a file cannot be read at all.
SurveyReport survey(std::span<const SourceFile> files, const FieldChoice& fields,
                    const GeometryOptions& options, size_t threads);

/// Ranges and distinct counts of the usual places, over all traces.
std::vector<CandidateField> candidate_fields(std::span<const SourceFile> files, size_t threads);

/// For people and for programs.
std::string to_text(const SurveyReport& report);
std::string to_json(const SurveyReport& report);

/// "111..133 step 1 (23)", "irregular 3..9 (4)".
std::string describe(const Axis& axis);

}  // namespace craton::volume::segy
