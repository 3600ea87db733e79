#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "craton/volume/segy/file_facts.h"
#include "craton/volume/segy/trace_table.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {

/// kAuto: 3D when inline and crossline both vary, else a line; an offset axis when traces share a
/// place and their offsets tell them apart. kTraces: a line of traces as they come in the file.
enum class GeometryKind { kAuto, k3d, k2d, kTraces };
/// What to do with a trace whose place is taken already.
enum class Duplicates { kError, kFirst, kLast };
/// What to do when the delay recording time is not the same everywhere.
enum class DelayPolicy { kError, kIgnore, kShift };
enum class Domain { kTime, kDepth };

struct GeometryOptions {
  GeometryKind kind = GeometryKind::kAuto;
  bool own_fields = false;  ///< the user named inline or crossline bytes: a 3D grid, even where one
                            ///< axis has one entry
  bool use_offset =
      false;  ///< the user named the offset or angle bytes: an axis for it in any case
  std::string gather_axis = "offset";  ///< or "angle"
  Duplicates duplicates = Duplicates::kError;
  double max_cells_per_trace = 10;  ///< more than this is no grid but a misreading
  DelayPolicy delay = DelayPolicy::kError;
  std::optional<double>
      start;  ///< --start: ms (or m) of the first sample, instead of the delay recording time
  Domain domain = Domain::kTime;
};

/// Where each trace goes.
struct Geometry {
  std::string template_name;  ///< MDIO's name, e.g. "PostStack3DTime"
  std::string survey_type;    ///< "2D" or "3D"
  std::vector<Axis> axes;     ///< the last is the sample axis
  std::vector<int64_t>
      trace_of_cell;  ///< row of the trace table, or -1; cells are all axes but the last in C order
  std::vector<int32_t>
      shift;         ///< samples by which each row starts later than the axis; empty: none does
  int64_t live = 0;  ///< cells with a trace that is not dead
  int64_t duplicates = 0;  ///< traces that found their place taken
  std::vector<Remark> remarks;
  int64_t cells() const { return static_cast<int64_t>(trace_of_cell.size()); }
};

/// What the samples of all files have in common.
struct Sampling {
  int64_t samples = 0;
  double interval_us = 0;
  bool feet = false;
};

/// The one sampling of all files; kInvalidArgument names the two that differ.
Sampling common_sampling(std::span<const SourceFile> files);

/// Pure: the grid that the numbers span. Error kInvalidArgument when there is none, when places are
/// taken twice, or when the grid would be absurdly empty; the message says what was found in which
/// bytes and which option settles it. Nothing of the grid's size is allocated before that is known.
Geometry plan_geometry(const TraceTable& table, const FieldChoice& fields, const Sampling& sampling,
                       const GeometryOptions& options);

/// The step of equally spaced coordinates, or nullopt.
std::optional<double> regular_step(std::span<const double> coordinates);

}  // namespace craton::volume::segy
