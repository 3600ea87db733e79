#include "craton/app/cli/segy_options.h"

namespace craton::app {

namespace segy = volume::segy;

void SegyOptions::add_to(CLI::App& verb) {
  const auto group = "Where the numbers are";
  const auto bytes = "BYTE[:TYPE]";
  verb.add_option("--inline", inline_, "Inline number (default 189; e.g. 221:int16, 73:float32)")
      ->group(group)
      ->type_name(bytes);
  verb.add_option("--crossline", crossline_, "Crossline number (default 193)")
      ->group(group)
      ->type_name(bytes);
  verb.add_option("--cdp", cdp_, "Number along a 2D line (default 21)")
      ->group(group)
      ->type_name(bytes);
  verb.add_option("--offset", offset_, "Offset: adds an axis to the grid (looked for at 37)")
      ->group(group)
      ->type_name(bytes);
  verb.add_option("--angle", angle_, "Angle: adds an axis to the grid")
      ->group(group)
      ->type_name(bytes);
  verb.add_option("--x", x_, "Easting (default 181)")->group(group)->type_name(bytes);
  verb.add_option("--y", y_, "Northing (default 185)")->group(group)->type_name(bytes);

  const auto grid = "The grid";
  verb.add_option("--geometry", geometry_, "auto, 3d, 2d, or traces (a line in the file's order)")
      ->group(grid)
      ->check(CLI::IsMember({"auto", "3d", "2d", "traces"}));
  verb.add_option("--duplicates", duplicates_,
                  "Traces at one place: error, or keep the first or the last")
      ->group(grid)
      ->check(CLI::IsMember({"error", "first", "last"}));
  verb.add_option("--max-sparsity", max_sparsity_,
                  "Refuse a grid with more places than this per trace (default 10)")
      ->group(grid);
  verb.add_option("--domain", domain_, "Samples run over time or depth")
      ->group(grid)
      ->check(CLI::IsMember({"time", "depth"}));
  verb.add_option("--start", start_,
                  "Time (ms) or depth of the first sample, instead of the delay recording time")
      ->group(grid);
  verb.add_option("--delay", delay_,
                  "Delays that differ: error, ignore, or shift each trace to its time")
      ->group(grid)
      ->check(CLI::IsMember({"error", "ignore", "shift"}));

  const auto file = "What the file is";
  verb.add_option("--samples", samples_, "Samples per trace")->group(file);
  verb.add_option("--format", format_, "Sample format code, e.g. 1 (IBM float) or 5 (IEEE float)")
      ->group(file);
  verb.add_option("--endian", endian_, "Byte order: big or little")
      ->group(file)
      ->check(CLI::IsMember({"big", "little"}));
  verb.add_option("--interval", interval_, "Sample interval in microseconds (or millimetres)")
      ->group(file);
  verb.add_option("--extended-headers", extended_headers_,
                  "Number of extended text headers; -1: up to the end stanza")
      ->group(file);
  verb.add_option("--first-trace", first_trace_, "Byte offset of the first trace")->group(file);
  verb.add_flag("--su", su_, "A Seismic Unix file: no file header, IEEE floats")->group(file);
  verb.add_flag("--lenient", lenient_, "Read the whole traces of a file that is cut")->group(file);
}

segy::ReadOptions SegyOptions::read() const {
  segy::ReadOptions out;
  if (!endian_.empty())
    out.order = endian_ == "big" ? segy::ByteOrder::kBig : segy::ByteOrder::kLittle;
  out.format = format_;
  out.samples = samples_;
  out.interval_us = interval_;
  out.extended_headers = extended_headers_;
  out.first_trace = first_trace_;
  out.su = su_;
  out.lenient = lenient_;
  return out;
}

segy::FieldChoice SegyOptions::fields() const {
  segy::FieldChoice out;
  if (!inline_.empty()) out.inline_field = segy::parse_header_field(inline_);
  if (!crossline_.empty()) out.crossline_field = segy::parse_header_field(crossline_);
  if (!cdp_.empty()) out.cdp_field = segy::parse_header_field(cdp_);
  if (!offset_.empty() && !angle_.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "--offset and --angle both name the third axis; use one of them");
  }
  if (!offset_.empty()) out.offset_field = segy::parse_header_field(offset_);
  if (!angle_.empty()) out.offset_field = segy::parse_header_field(angle_);
  if (x_.empty() != y_.empty()) fail(ErrorCode::kInvalidArgument, "--x and --y are used together");
  if (!x_.empty()) out.x_field = segy::parse_header_field(x_);
  if (!y_.empty()) out.y_field = segy::parse_header_field(y_);
  return out;
}

segy::GeometryOptions SegyOptions::geometry() const {
  segy::GeometryOptions out;
  if (geometry_ == "3d") out.kind = segy::GeometryKind::k3d;
  if (geometry_ == "2d") out.kind = segy::GeometryKind::k2d;
  if (geometry_ == "traces") out.kind = segy::GeometryKind::kTraces;
  out.own_fields = !inline_.empty() || !crossline_.empty();
  out.use_offset = !offset_.empty() || !angle_.empty();
  if (!angle_.empty()) out.gather_axis = "angle";
  if (duplicates_ == "first") out.duplicates = segy::Duplicates::kFirst;
  if (duplicates_ == "last") out.duplicates = segy::Duplicates::kLast;
  if (delay_ == "ignore") out.delay = segy::DelayPolicy::kIgnore;
  if (delay_ == "shift") out.delay = segy::DelayPolicy::kShift;
  if (domain_ == "depth") out.domain = segy::Domain::kDepth;
  out.start = start_;
  if (!(max_sparsity_ >= 1))
    fail(ErrorCode::kInvalidArgument, "--max-sparsity {} is below 1", max_sparsity_);
  out.max_cells_per_trace = max_sparsity_;
  return out;
}

}  // namespace craton::app
