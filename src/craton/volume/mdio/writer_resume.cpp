#include <algorithm>
#include <cstring>

#include "craton/base/base64.h"
#include "craton/base/error.h"
#include "craton/base/fault_point.h"
#include "craton/base/log.h"
#include "craton/base/sha256.h"
#include "craton/volume/mdio/work_key.h"
#include "craton/volume/mdio/writer.h"
#include "craton/volume/zarr/shard.h"

// A volume whose writer was killed: which chunk columns are finished, and what is known of them.
// An entry of the journal holds a column's place, its live traces, its part of the statistics and
// the note of whoever wrote it. It is appended when all objects of the column are there.
namespace craton::volume::mdio {

using nlohmann::json;

namespace {

std::string encode_text(std::string_view bytes) {
  return encode_base64(std::as_bytes(std::span(bytes)));
}

std::string decode_text(const std::string& text) {
  const auto bytes = decode_base64(text);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string work_key(const std::string& source, const VolumeSpec& spec) {
  Sha256 digest;
  const auto add = [&](const std::string& text) {
    digest.update(std::as_bytes(std::span(text)));
    digest.update(std::as_bytes(std::span("\n", 1)));
  };
  const auto add_numbers = [&](const std::vector<double>& numbers) {
    digest.update(std::as_bytes(std::span(numbers)));
  };
  add(fmt::format("layout 1 {} {} {} {} {}", spec.name, spec.survey_type, spec.variable,
                  spec.sample_type, spec.sample_unit));
  add(fmt::format("{} {} {} {} {} {}", spec.compressor, spec.compression_level, spec.zarr_format,
                  spec.zfp_tolerance, spec.trace_header_bytes, spec.little_endian_headers));
  add(fmt::format("{} | {}", fmt::join(spec.chunk_shape, ","), fmt::join(spec.shard_shape, ",")));
  for (const Axis& axis : spec.axes) {
    add(fmt::format("{} {} {}", axis.name, axis.unit, axis.size()));
    add_numbers(axis.coordinates);
  }
  add_numbers(spec.cdp_x);
  add_numbers(spec.cdp_y);
  return source + " as " + digest.hex_digest();
}

size_t MdioWriter::column_number(std::span<const int64_t> column) const {
  bool inside = column.size() + 1 == grid_.size();
  size_t number = 0;
  for (size_t i = 0; inside && i < column.size(); ++i) {
    inside = column[i] >= 0 && column[i] < grid_[i];
    number = number * static_cast<size_t>(grid_[i]) + static_cast<size_t>(column[i]);
  }
  if (!inside)
    fail(ErrorCode::kOutOfRange, "no chunk column [{}] in a grid of [{}]", fmt::join(column, ", "),
         fmt::join(grid_, ", "));
  return number;
}

std::vector<size_t> MdioWriter::traces_of_column(std::span<const int64_t> column) const {
  std::vector<size_t> traces = {0};
  for (size_t i = 0; i < column.size(); ++i) {
    const int64_t begin = column[i] * chunk_shape_[i];
    const int64_t end = std::min(begin + chunk_shape_[i], shape_[i]);
    std::vector<size_t> next;
    next.reserve(traces.size() * static_cast<size_t>(end - begin));
    for (const size_t base : traces) {
      for (int64_t at = begin; at < end; ++at)
        next.push_back(base * static_cast<size_t>(shape_[i]) + static_cast<size_t>(at));
    }
    traces = std::move(next);
  }
  return traces;
}

std::optional<std::string> MdioWriter::finished_column(std::span<const int64_t> column) const {
  const auto found = finished_columns_.find(column_number(column));
  if (found == finished_columns_.end()) return std::nullopt;
  return found->second;
}

void MdioWriter::finish_column(std::span<const int64_t> column, std::string_view note) {
  if (target_.journal() == nullptr) return;
  const size_t number = column_number(column);
  const std::vector<size_t> traces = traces_of_column(column);
  std::string bits((traces.size() + 7) / 8, '\0');
  for (size_t i = 0; i < traces.size(); ++i) {
    if (std::atomic_ref(live_[traces[i]]).load(std::memory_order_relaxed) != 0)
      bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  }
  std::vector<std::string> entries = {json{
      {"column", std::vector<int64_t>(column.begin(), column.end())},
      {"live", encode_text(bits)},
      {"statistics", statistics_.take_column(number)},
      {"note", encode_text(note)}}.dump()};
  if (samples_.has_inner_chunks()) {
    // A shard is written when its last chunk is there: its columns count together.
    const auto per_shard = zarr::shard_grid(*samples_.codecs.sharding, samples_.object_shape);
    std::vector<int64_t> shard;
    int64_t expected = 1;
    for (size_t i = 0; i < column.size(); ++i) {
      shard.push_back(column[i] / per_shard[i]);
      expected *= std::min(per_shard[i], grid_[i] - shard[i] * per_shard[i]);
    }
    std::lock_guard lock(mutex_);
    OpenShardColumn& open = shard_columns_[shard];
    open.entries.push_back(std::move(entries.front()));
    if (static_cast<int64_t>(open.entries.size()) < expected) return;
    entries = std::move(open.entries);
    shard_columns_.erase(shard);
  }
  CRATON_FAULT_POINT("volume.column");
  for (const std::string& entry : entries) target_.journal()->append(entry);
  CRATON_FAULT_POINT("volume.recorded");
  target_.sync_now_and_then();
}

void MdioWriter::restore_column(const std::string& entry) {
  const json record = json::parse(entry);
  const auto column = record.at("column").get<std::vector<int64_t>>();
  const size_t number = column_number(column);
  const std::string bits = decode_text(record.at("live").get<std::string>());
  const std::vector<size_t> traces = traces_of_column(column);
  if (bits.size() != (traces.size() + 7) / 8)
    fail(ErrorCode::kCorrupt, "{} bytes of live flags for {} traces", bits.size(), traces.size());
  std::string note = decode_text(record.at("note").get<std::string>());
  statistics_.restore_column(number, record.at("statistics"));
  for (size_t i = 0; i < traces.size(); ++i)
    live_[traces[i]] = static_cast<uint8_t>((bits[i / 8] >> (i % 8)) & 1);
  finished_columns_.emplace(number, std::move(note));
}

void MdioWriter::resume() {
  for (const std::string& entry : target_.journal()->entries()) {
    try {
      restore_column(entry);
    } catch (const std::exception& e) {
      fail(ErrorCode::kCorrupt,
           "the journal of the unfinished volume cannot be read ({}); remove it and the folder "
           "beside it to start anew: {}",
           e.what(), target_.journal()->path().string());
    }
  }
  if (!finished_columns_.empty()) {
    int64_t columns = 1;
    for (size_t i = 0; i + 1 < grid_.size(); ++i) columns *= grid_[i];
    log_info("going on from an earlier run: {} of {} chunk columns are written",
             finished_columns_.size(), columns);
  }
}

}  // namespace craton::volume::mdio
