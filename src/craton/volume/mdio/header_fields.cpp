#include "craton/volume/mdio/header_fields.h"

#include <algorithm>

namespace craton::volume::mdio {

namespace {

struct HeaderField {
  const char* name;
  uint32_t byte;  // 1-based
  uint32_t size;
};

// SEG-Y rev 1, section 5; the names are those of MDIO's `headers` variable.
constexpr HeaderField kFields[] = {{"trace_seq_num_line", 1, 4},
                                   {"trace_seq_num_reel", 5, 4},
                                   {"orig_field_record_num", 9, 4},
                                   {"trace_num_orig_record", 13, 4},
                                   {"energy_source_point_num", 17, 4},
                                   {"ensemble_num", 21, 4},
                                   {"trace_num_ensemble", 25, 4},
                                   {"trace_id_code", 29, 2},
                                   {"vertically_summed_traces", 31, 2},
                                   {"horizontally_stacked_traces", 33, 2},
                                   {"data_use", 35, 2},
                                   {"source_to_receiver_distance", 37, 4},
                                   {"receiver_group_elevation", 41, 4},
                                   {"source_surface_elevation", 45, 4},
                                   {"source_depth_below_surface", 49, 4},
                                   {"receiver_datum_elevation", 53, 4},
                                   {"source_datum_elevation", 57, 4},
                                   {"source_water_depth", 61, 4},
                                   {"receiver_water_depth", 65, 4},
                                   {"elevation_depth_scalar", 69, 2},
                                   {"coordinate_scalar", 71, 2},
                                   {"source_coord_x", 73, 4},
                                   {"source_coord_y", 77, 4},
                                   {"group_coord_x", 81, 4},
                                   {"group_coord_y", 85, 4},
                                   {"coordinate_unit", 89, 2},
                                   {"weathering_velocity", 91, 2},
                                   {"subweathering_velocity", 93, 2},
                                   {"source_uphole_time", 95, 2},
                                   {"group_uphole_time", 97, 2},
                                   {"source_static_correction", 99, 2},
                                   {"receiver_static_correction", 101, 2},
                                   {"total_static_applied", 103, 2},
                                   {"lag_time_a", 105, 2},
                                   {"lag_time_b", 107, 2},
                                   {"delay_recording_time", 109, 2},
                                   {"mute_time_start", 111, 2},
                                   {"mute_time_end", 113, 2},
                                   {"samples_per_trace", 115, 2},
                                   {"sample_interval", 117, 2},
                                   {"instrument_gain_type", 119, 2},
                                   {"instrument_gain_const", 121, 2},
                                   {"instrument_gain_initial", 123, 2},
                                   {"correlated_data", 125, 2},
                                   {"sweep_freq_start", 127, 2},
                                   {"sweep_freq_end", 129, 2},
                                   {"sweep_length", 131, 2},
                                   {"sweep_type", 133, 2},
                                   {"sweep_taper_start", 135, 2},
                                   {"sweep_taper_end", 137, 2},
                                   {"taper_type", 139, 2},
                                   {"alias_filter_freq", 141, 2},
                                   {"alias_filter_slope", 143, 2},
                                   {"notch_filter_freq", 145, 2},
                                   {"notch_filter_slope", 147, 2},
                                   {"low_cut_freq", 149, 2},
                                   {"high_cut_freq", 151, 2},
                                   {"low_cut_slope", 153, 2},
                                   {"high_cut_slope", 155, 2},
                                   {"year_recorded", 157, 2},
                                   {"day_of_year", 159, 2},
                                   {"hour_of_day", 161, 2},
                                   {"minute_of_hour", 163, 2},
                                   {"second_of_minute", 165, 2},
                                   {"time_basis_code", 167, 2},
                                   {"trace_weighting_factor", 169, 2},
                                   {"group_num_roll_switch", 171, 2},
                                   {"group_num_first_trace", 173, 2},
                                   {"group_num_last_trace", 175, 2},
                                   {"gap_size", 177, 2},
                                   {"taper_overtravel", 179, 2},
                                   {"cdp_x", 181, 4},
                                   {"cdp_y", 185, 4},
                                   {"inline", 189, 4},
                                   {"crossline", 193, 4},
                                   {"shot_point", 197, 4},
                                   {"shot_point_scalar", 201, 2},
                                   {"trace_value_unit", 203, 2},
                                   {"transduction_const_mantissa", 205, 4},
                                   {"transduction_const_exponent", 209, 2},
                                   {"transduction_unit", 211, 2},
                                   {"device_trace_id", 213, 2},
                                   {"times_scalar", 215, 2},
                                   {"source_type_orientation", 217, 2},
                                   {"source_energy_direction_mantissa", 219, 4},
                                   {"source_energy_direction_exponent", 223, 2},
                                   {"source_measurement_mantissa", 225, 4},
                                   {"source_measurement_exponent", 229, 2},
                                   {"source_measurement_unit", 231, 2}};

}  // namespace

const zarr::DataType& header_struct() {
  static const zarr::DataType type = [] {
    zarr::DataType made{zarr::Kind::kStruct, 0};
    for (const HeaderField& field : kFields) {
      made.fields.push_back({field.name, {zarr::Kind::kInt, field.size}, made.size});
      made.size += field.size;
    }
    return made;
  }();
  return type;
}

void fill_header_structs(std::span<const std::byte> raw, size_t header_bytes, bool little_endian,
                         std::span<std::byte> out) {
  const zarr::DataType& type = header_struct();
  const size_t traces = raw.size() / header_bytes;
  for (size_t t = 0; t < traces; ++t) {
    const std::byte* from = raw.data() + t * header_bytes;
    std::byte* to = out.data() + t * type.size;
    for (const HeaderField& field : kFields) {
      const std::byte* begin = from + field.byte - 1;
      if (little_endian) {
        std::copy_n(begin, field.size, to);
      } else {
        std::reverse_copy(begin, begin + field.size, to);
      }
      to += field.size;
    }
  }
}

}  // namespace craton::volume::mdio
