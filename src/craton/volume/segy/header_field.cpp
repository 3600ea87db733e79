#include "craton/volume/segy/header_field.h"

#include <algorithm>
#include <charconv>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/volume/segy/sample_format.h"

namespace craton::volume::segy {

namespace {

constexpr LayoutField kTraceHeader[] = {
    {"trace_seq_num_line", 1, FieldType::kInt32},
    {"trace_seq_num_reel", 5, FieldType::kInt32},
    {"orig_field_record_num", 9, FieldType::kInt32},
    {"trace_num_orig_record", 13, FieldType::kInt32},
    {"energy_source_point_num", 17, FieldType::kInt32},
    {"ensemble_num", 21, FieldType::kInt32},
    {"trace_num_ensemble", 25, FieldType::kInt32},
    {"trace_id_code", 29, FieldType::kInt16},
    {"vertically_summed_traces", 31, FieldType::kInt16},
    {"horizontally_stacked_traces", 33, FieldType::kInt16},
    {"data_use", 35, FieldType::kInt16},
    {"source_to_receiver_distance", 37, FieldType::kInt32},
    {"receiver_group_elevation", 41, FieldType::kInt32},
    {"source_surface_elevation", 45, FieldType::kInt32},
    {"source_depth_below_surface", 49, FieldType::kInt32},
    {"receiver_datum_elevation", 53, FieldType::kInt32},
    {"source_datum_elevation", 57, FieldType::kInt32},
    {"source_water_depth", 61, FieldType::kInt32},
    {"receiver_water_depth", 65, FieldType::kInt32},
    {"elevation_depth_scalar", 69, FieldType::kInt16},
    {"coordinate_scalar", 71, FieldType::kInt16},
    {"source_coord_x", 73, FieldType::kInt32},
    {"source_coord_y", 77, FieldType::kInt32},
    {"group_coord_x", 81, FieldType::kInt32},
    {"group_coord_y", 85, FieldType::kInt32},
    {"coordinate_unit", 89, FieldType::kInt16},
    {"weathering_velocity", 91, FieldType::kInt16},
    {"subweathering_velocity", 93, FieldType::kInt16},
    {"source_uphole_time", 95, FieldType::kInt16},
    {"group_uphole_time", 97, FieldType::kInt16},
    {"source_static_correction", 99, FieldType::kInt16},
    {"receiver_static_correction", 101, FieldType::kInt16},
    {"total_static_applied", 103, FieldType::kInt16},
    {"lag_time_a", 105, FieldType::kInt16},
    {"lag_time_b", 107, FieldType::kInt16},
    {"delay_recording_time", 109, FieldType::kInt16},
    {"mute_time_start", 111, FieldType::kInt16},
    {"mute_time_end", 113, FieldType::kInt16},
    {"samples_per_trace", 115, FieldType::kUint16},
    {"sample_interval", 117, FieldType::kInt16},
    {"instrument_gain_type", 119, FieldType::kInt16},
    {"instrument_gain_const", 121, FieldType::kInt16},
    {"instrument_gain_initial", 123, FieldType::kInt16},
    {"correlated_data", 125, FieldType::kInt16},
    {"sweep_freq_start", 127, FieldType::kInt16},
    {"sweep_freq_end", 129, FieldType::kInt16},
    {"sweep_length", 131, FieldType::kInt16},
    {"sweep_type", 133, FieldType::kInt16},
    {"sweep_taper_start", 135, FieldType::kInt16},
    {"sweep_taper_end", 137, FieldType::kInt16},
    {"taper_type", 139, FieldType::kInt16},
    {"alias_filter_freq", 141, FieldType::kInt16},
    {"alias_filter_slope", 143, FieldType::kInt16},
    {"notch_filter_freq", 145, FieldType::kInt16},
    {"notch_filter_slope", 147, FieldType::kInt16},
    {"low_cut_freq", 149, FieldType::kInt16},
    {"high_cut_freq", 151, FieldType::kInt16},
    {"low_cut_slope", 153, FieldType::kInt16},
    {"high_cut_slope", 155, FieldType::kInt16},
    {"year_recorded", 157, FieldType::kInt16},
    {"day_of_year", 159, FieldType::kInt16},
    {"hour_of_day", 161, FieldType::kInt16},
    {"minute_of_hour", 163, FieldType::kInt16},
    {"second_of_minute", 165, FieldType::kInt16},
    {"time_basis_code", 167, FieldType::kInt16},
    {"trace_weighting_factor", 169, FieldType::kInt16},
    {"group_num_roll_switch", 171, FieldType::kInt16},
    {"group_num_first_trace", 173, FieldType::kInt16},
    {"group_num_last_trace", 175, FieldType::kInt16},
    {"gap_size", 177, FieldType::kInt16},
    {"taper_overtravel", 179, FieldType::kInt16},
    {"cdp_x", 181, FieldType::kInt32},
    {"cdp_y", 185, FieldType::kInt32},
    {"inline", 189, FieldType::kInt32},
    {"crossline", 193, FieldType::kInt32},
    {"shot_point", 197, FieldType::kInt32},
    {"shot_point_scalar", 201, FieldType::kInt16},
    {"trace_value_unit", 203, FieldType::kInt16},
    {"transduction_const_mantissa", 205, FieldType::kInt32},
    {"transduction_const_exponent", 209, FieldType::kInt16},
    {"transduction_unit", 211, FieldType::kInt16},
    {"device_id", 213, FieldType::kInt16},
    {"times_scalar", 215, FieldType::kInt16},
    {"source_type_orientation", 217, FieldType::kInt16},
    {"source_energy_direction_mantissa", 219, FieldType::kInt32},
    {"source_energy_direction_exponent", 223, FieldType::kInt16},
    {"source_measurement_mantissa", 225, FieldType::kInt32},
    {"source_measurement_exponent", 229, FieldType::kInt16},
    {"source_measurement_unit", 231, FieldType::kInt16},
    {"unassigned", 233, FieldType::kInt64},
};

constexpr LayoutField kBinaryHeader[] = {
    {"job_id", 1, FieldType::kInt32},
    {"line_num", 5, FieldType::kInt32},
    {"reel_num", 9, FieldType::kInt32},
    {"data_traces_per_ensemble", 13, FieldType::kInt16},
    {"aux_traces_per_ensemble", 15, FieldType::kInt16},
    {"sample_interval", 17, FieldType::kInt16},
    {"orig_sample_interval", 19, FieldType::kInt16},
    {"samples_per_trace", 21, FieldType::kUint16},
    {"orig_samples_per_trace", 23, FieldType::kUint16},
    {"data_sample_format", 25, FieldType::kInt16},
    {"ensemble_fold", 27, FieldType::kInt16},
    {"trace_sorting_code", 29, FieldType::kInt16},
    {"vertical_sum_code", 31, FieldType::kInt16},
    {"sweep_freq_start", 33, FieldType::kInt16},
    {"sweep_freq_end", 35, FieldType::kInt16},
    {"sweep_length", 37, FieldType::kInt16},
    {"sweep_type_code", 39, FieldType::kInt16},
    {"sweep_trace_num", 41, FieldType::kInt16},
    {"sweep_taper_start", 43, FieldType::kInt16},
    {"sweep_taper_end", 45, FieldType::kInt16},
    {"taper_type_code", 47, FieldType::kInt16},
    {"correlated_data_code", 49, FieldType::kInt16},
    {"binary_gain_code", 51, FieldType::kInt16},
    {"amp_recovery_code", 53, FieldType::kInt16},
    {"measurement_system_code", 55, FieldType::kInt16},
    {"impulse_polarity_code", 57, FieldType::kInt16},
    {"vibratory_polarity_code", 59, FieldType::kInt16},
    {"extended_data_traces_per_ensemble", 61, FieldType::kInt32},
    {"extended_aux_traces_per_ensemble", 65, FieldType::kInt32},
    {"extended_samples_per_trace", 69, FieldType::kUint32},
    {"extended_sample_interval", 73, FieldType::kFloat64},
    {"extended_orig_sample_interval", 81, FieldType::kFloat64},
    {"extended_orig_samples_per_trace", 89, FieldType::kUint32},
    {"extended_ensemble_fold", 93, FieldType::kInt32},
    {"endian_constant", 97, FieldType::kInt32},
    {"segy_revision_major", 301, FieldType::kUint8},
    {"segy_revision_minor", 302, FieldType::kUint8},
    {"fixed_length_trace_flag", 303, FieldType::kInt16},
    {"num_extended_text_headers", 305, FieldType::kInt16},
    {"max_additional_trace_headers", 307, FieldType::kInt16},
    {"survey_type", 309, FieldType::kInt16},
    {"time_basis_code", 311, FieldType::kInt16},
    {"num_traces_in_file", 313, FieldType::kInt64},
    {"first_trace_offset", 321, FieldType::kInt64},
    {"num_trailer_stanzas", 329, FieldType::kInt32},
};

struct TypeName {
  std::string_view name;
  FieldType type;
};
constexpr TypeName kTypeNames[] = {
    {"int8", FieldType::kInt8},       {"uint8", FieldType::kUint8},
    {"int16", FieldType::kInt16},     {"uint16", FieldType::kUint16},
    {"int32", FieldType::kInt32},     {"uint32", FieldType::kUint32},
    {"int64", FieldType::kInt64},     {"float32", FieldType::kFloat32},
    {"float64", FieldType::kFloat64}, {"ibm32", FieldType::kIbm32},
};

[[noreturn]] void reject_field(std::string_view text, std::string_view why) {
  fail(ErrorCode::kInvalidArgument,
       "header field '{}': {}; expected a byte position with an optional type, e.g. 189, 221:int16 "
       "or 73:float32 (types: int8, "
       "uint8, int16, uint16, int32, uint32, int64, float32, float64, ibm32), or a name such as "
       "inline",
       text, why);
}

}  // namespace

int field_bytes(FieldType type) {
  switch (type) {
    case FieldType::kInt8:
    case FieldType::kUint8:
      return 1;
    case FieldType::kInt16:
    case FieldType::kUint16:
      return 2;
    case FieldType::kInt32:
    case FieldType::kUint32:
    case FieldType::kFloat32:
    case FieldType::kIbm32:
      return 4;
    case FieldType::kInt64:
    case FieldType::kFloat64:
      return 8;
  }
  return 4;
}

std::string_view to_string(FieldType type) {
  for (const TypeName& known : kTypeNames) {
    if (known.type == type) return known.name;
  }
  return "int32";
}

HeaderField parse_header_field(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view place = text.substr(0, colon);
  HeaderField field;
  const auto [end, error] = std::from_chars(place.data(), place.data() + place.size(), field.byte);
  if (error != std::errc() || end != place.data() + place.size()) {
    const auto layout = trace_header_layout();
    const auto known = std::find_if(layout.begin(), layout.end(),
                                    [&](const LayoutField& f) { return place == f.name; });
    if (known == layout.end()) reject_field(text, "no number and no known name");
    field = {known->byte, known->type};
  }
  if (colon != std::string_view::npos) {
    const std::string_view type = text.substr(colon + 1);
    const auto known = std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                                    [&](const TypeName& t) { return t.name == type; });
    if (known == std::end(kTypeNames)) reject_field(text, "unknown type");
    field.type = known->type;
  }
  if (field.byte < 1 || field.byte > 1 << 20) reject_field(text, "the position is out of range");
  return field;
}

std::string to_string(const HeaderField& field) {
  return field.type == FieldType::kInt32 ? fmt::format("{}", field.byte)
                                         : fmt::format("{}:{}", field.byte, to_string(field.type));
}

double read_field(std::span<const std::byte> header, const HeaderField& field, ByteOrder order) {
  const size_t start = static_cast<size_t>(field.byte - 1);
  CRATON_CHECK(start + static_cast<size_t>(field_bytes(field.type)) <= header.size());
  const std::byte* at = header.data() + start;
  switch (field.type) {
    case FieldType::kInt8:
      return load<int8_t>(at, order);
    case FieldType::kUint8:
      return load<uint8_t>(at, order);
    case FieldType::kInt16:
      return load<int16_t>(at, order);
    case FieldType::kUint16:
      return load<uint16_t>(at, order);
    case FieldType::kInt32:
      return load<int32_t>(at, order);
    case FieldType::kUint32:
      return load<uint32_t>(at, order);
    case FieldType::kInt64:
      return static_cast<double>(load<int64_t>(at, order));
    case FieldType::kFloat32:
      return static_cast<double>(load<float>(at, order));
    case FieldType::kFloat64:
      return load<double>(at, order);
    case FieldType::kIbm32:
      return static_cast<double>(ibm_to_float(load<uint32_t>(at, order)));
  }
  return 0;
}

void swap_trace_header(std::span<std::byte> header) {
  CRATON_CHECK(header.size() >= kTraceHeaderBytes);
  for (const LayoutField& field : kTraceHeader) {
    const auto bytes = header.subspan(static_cast<size_t>(field.byte - 1),
                                      static_cast<size_t>(field_bytes(field.type)));
    std::reverse(bytes.begin(), bytes.end());
  }
}

std::span<const LayoutField> trace_header_layout() { return kTraceHeader; }
std::span<const LayoutField> binary_header_layout() { return kBinaryHeader; }

}  // namespace craton::volume::segy
