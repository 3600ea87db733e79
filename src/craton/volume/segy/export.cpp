#include "craton/volume/segy/export.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>

#include "craton/base/fault_point.h"
#include "craton/base/log.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/segy/export_plan.h"
#include "craton/volume/segy/staged_file.h"

namespace craton::volume::segy {

namespace {

/// A box of traces (all axes but the last): origin and shape.
struct Block {
  std::vector<int64_t> origin, shape;
  int64_t cells() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  std::string name() const {
    return fmt::format("{}:{}", fmt::join(origin, ","), fmt::join(shape, ","));
  }
};

/// What a block added to the file.
struct Tally {
  int64_t traces = 0, clamped = 0, made = 0;
};

class Exporter {
 public:
  Exporter(const Volume& volume, const std::filesystem::path& path, const ExportOptions& options)
      : volume_(volume),
        options_(options),
        plan_(plan_export(volume, options)),
        file_(path, options.replace, plan_.source_key(volume)) {
    threads_ = options.threads > 0 ? options.threads : runtime::available_cores();
    integers_ = volume.info().sample_type == "int32" && plan_.layout.format == kInt32;
    total_ = static_cast<uint64_t>(plan_.traces) * plan_.trace_bytes();
  }

  ExportReport run() {
    file_.write(plan_.before_traces, 0);
    file_.write(plan_.after_traces, plan_.offset(plan_.traces));
    const std::vector<Block> blocks = cut();
    show(0);
    const auto finished = finished_blocks();
    if (!finished.empty())
      log_info("going on from an earlier run: {} of {} blocks of traces are written",
               finished.size(), blocks.size());
    runtime::parallel_for(blocks.size(), threads_, [&](size_t i) {
      if (const auto done = finished.find(blocks[i].name()); done != finished.end()) {
        account(done->second);
      } else {
        copy(blocks[i]);
      }
    });
    stop_if_cancelled();
    file_.commit();
    report_.traces = plan_.traces;
    report_.format = plan_.layout.format;
    report_.bytes = plan_.offset(plan_.traces) + plan_.after_traces.size();
    return report_;
  }

 private:
  /// Chunk columns, or parts of them: whole traces that fit into a thread's share of the memory.
  /// Halves the longest side until they do.
  std::vector<Block> cut() const {
    const auto shape = volume_.info().shape();
    const size_t dims = shape.size() - 1;
    std::vector<int64_t> edge(volume_.info().chunk_shape.begin(),
                              volume_.info().chunk_shape.end() - 1);
    if (!volume_.info().shard_shape.empty())
      edge.assign(volume_.info().shard_shape.begin(), volume_.info().shard_shape.end() - 1);
    for (size_t d = 0; d < dims; ++d) edge[d] = std::clamp<int64_t>(edge[d], 1, shape[d]);
    const uint64_t per_trace = plan_.trace_bytes() + 4 * static_cast<uint64_t>(shape.back());
    const uint64_t room = std::max<uint64_t>(options_.memory_bytes / threads_, per_trace);
    const auto cells = [&] {
      uint64_t n = 1;
      for (int64_t e : edge) n *= static_cast<uint64_t>(e);
      return n;
    };
    while (cells() * per_trace > room && cells() > 1) {
      auto longest = std::max_element(edge.begin(), edge.end());
      *longest = (*longest + 1) / 2;
    }
    std::vector<Block> blocks;
    std::vector<int64_t> at(dims, 0);
    while (true) {
      Block block{at, edge};
      for (size_t d = 0; d < dims; ++d) block.shape[d] = std::min(edge[d], shape[d] - at[d]);
      blocks.push_back(std::move(block));
      size_t d = dims;
      while (d-- > 0) {
        at[d] += edge[d];
        if (at[d] < shape[d]) break;
        at[d] = 0;
      }
      if (d == SIZE_MAX) return blocks;
    }
  }

  int64_t cell_at(const Block& block, int64_t local) const {
    const auto& axes = volume_.info().axes;
    int64_t cell = 0, stride = 1;
    for (size_t d = block.shape.size(); d-- > 0;) {
      cell += (block.origin[d] + local % block.shape[d]) * stride;
      local /= block.shape[d];
      stride *= axes[d].size();
    }
    return cell;
  }

  struct Out {
    int64_t place, cell, local;
  };

  std::vector<Out> traces_of(const Block& block) const {
    std::vector<Out> out;
    for (int64_t local = 0; local < block.cells(); ++local) {
      const int64_t cell = cell_at(block, local);
      const int64_t place = plan_.place_of_cell[static_cast<size_t>(cell)];
      if (place >= 0) out.push_back({place, cell, local});
    }
    std::sort(out.begin(), out.end(), [](const Out& a, const Out& b) { return a.place < b.place; });
    return out;
  }

  void copy(const Block& block) {
    stop_if_cancelled();
    const std::vector<Out> traces = traces_of(block);
    if (traces.empty()) return;
    const int64_t samples = volume_.info().axes.back().size();
    const auto count = static_cast<size_t>(block.cells());
    std::vector<int64_t> origin = block.origin, shape = block.shape;
    origin.push_back(0);
    shape.push_back(samples);
    std::vector<float> values(integers_ ? 0 : count * static_cast<size_t>(samples));
    std::vector<std::byte> raw(integers_ ? 4 * count * static_cast<size_t>(samples) : 0);
    integers_ ? volume_.read_raw(origin, shape, raw) : volume_.read(origin, shape, values);
    std::vector<std::byte> headers;
    const size_t stored = plan_.headers != nullptr ? plan_.headers->trace_header_bytes() : 0;
    if (stored > 0) {
      headers.resize(count * stored);
      plan_.headers->read_trace_headers(block.origin, block.shape, headers);
    }
    const uint64_t trace_bytes = plan_.trace_bytes();
    std::vector<std::byte> buffer(traces.size() * trace_bytes);
    int64_t clamped = 0, made = 0;
    for (size_t i = 0; i < traces.size(); ++i) {
      const Out& trace = traces[i];
      const std::span<std::byte> out = std::span(buffer).subspan(i * trace_bytes, trace_bytes);
      made +=
          put_header(trace,
                     std::span(headers).subspan(static_cast<size_t>(trace.local) * stored, stored),
                     out)
              ? 0
              : 1;
      const int64_t shift = shift_of(out);
      const auto first = static_cast<size_t>(trace.local * samples + shift);
      std::byte* place = out.data() + plan_.layout.header_bytes;
      if (integers_) {
        for (int64_t s = 0; s < plan_.layout.samples; ++s) {
          const auto v =
              load<int32_t>(raw.data() + 4 * (first + static_cast<size_t>(s)), ByteOrder::kLittle);
          store<int32_t>(place + 4 * s, v, plan_.layout.order);
        }
      } else {
        const auto part =
            std::span(values).subspan(first, static_cast<size_t>(plan_.layout.samples));
        clamped += encode_samples(plan_.layout.format, plan_.layout.order, part, place);
        clamped -= restore_words(trace.cell, place);
      }
    }
    CRATON_FAULT_POINT("export.block");
    write_runs(traces, buffer);
    const Tally tally{static_cast<int64_t>(traces.size()), clamped, made};
    file_.record(fmt::format("{} {} {} {}", block.name(), tally.traces, tally.clamped, tally.made));
    CRATON_FAULT_POINT("export.recorded");
    account(tally);
  }

  /// Blocks that an earlier run has written, by name.
  std::map<std::string, Tally> finished_blocks() const {
    std::map<std::string, Tally> out;
    for (const std::string& entry : file_.recorded()) {
      std::istringstream words(entry);
      std::string name;
      Tally tally;
      if (words >> name >> tally.traces >> tally.clamped >> tally.made) out.emplace(name, tally);
    }
    return out;
  }

  /// False when the header had to be made.
  bool put_header(const Out& trace, std::span<const std::byte> stored,
                  std::span<std::byte> out) const {
    const bool original =
        plan_.headers != nullptr && plan_.origin_of_cell[static_cast<size_t>(trace.cell)] >= 0;
    if (original) {
      std::memcpy(out.data(), stored.data(), plan_.layout.header_bytes);
      if (!plan_.layout.whole) {
        store<uint16_t>(out.data() + 114,
                        static_cast<uint16_t>(std::min<int64_t>(plan_.layout.samples, 65535)),
                        plan_.layout.order);
      }
    } else {
      const auto header = make_trace_header(volume_, plan_, trace.cell);
      std::memcpy(out.data(), header.data(), header.size());
    }
    return original;
  }

  /// Traces that were shifted to their own time go back by their delay.
  int64_t shift_of(std::span<const std::byte> header) const {
    const int64_t room = volume_.info().axes.back().size() - plan_.layout.samples;
    if (room == 0 || plan_.step <= 0) return 0;
    const double factor =
        scalar_factor(load_at<int16_t>(header, 215, plan_.layout.order)).value_or(1.0);
    const double delay = load_at<int16_t>(header, 109, plan_.layout.order) * factor;
    return std::clamp<int64_t>(std::lround((delay - plan_.start) / plan_.step), 0, room);
  }

  /// Returns how many of the words were infinite as floats: they are right again.
  int64_t restore_words(int64_t cell, std::byte* samples) const {
    int64_t infinite = 0;
    const auto trace = static_cast<uint64_t>(plan_.origin_of_cell[static_cast<size_t>(cell)]);
    auto word =
        std::lower_bound(plan_.kept_words.begin(), plan_.kept_words.end(), KeptWord{trace, 0});
    for (; word != plan_.kept_words.end() && word->trace == trace; ++word) {
      const uint64_t sample = word->sample_and_word >> 32;
      if (sample >= static_cast<uint64_t>(plan_.layout.samples)) continue;
      store<uint32_t>(samples + 4 * sample, static_cast<uint32_t>(word->sample_and_word),
                      plan_.layout.order);
      infinite += std::isinf(ibm_to_float(static_cast<uint32_t>(word->sample_and_word))) ? 1 : 0;
    }
    return infinite;
  }

  void write_runs(const std::vector<Out>& traces, std::span<const std::byte> buffer) {
    const uint64_t trace_bytes = plan_.trace_bytes();
    for (size_t begin = 0; begin < traces.size();) {
      size_t end = begin + 1;
      while (end < traces.size() && traces[end].place == traces[end - 1].place + 1) ++end;
      file_.write(buffer.subspan(begin * trace_bytes, (end - begin) * trace_bytes),
                  plan_.offset(traces[begin].place));
      begin = end;
    }
  }

  void stop_if_cancelled() const {
    if (options_.cancel != nullptr && options_.cancel->load())
      fail(ErrorCode::kCancelled, "interrupted");
  }

  void account(const Tally& tally) {
    const std::lock_guard lock(mutex_);
    report_.clamped += tally.clamped;
    report_.made_headers += tally.made;
    show(static_cast<uint64_t>(tally.traces) * plan_.trace_bytes());
  }

  void show(uint64_t more) {
    done_ += more;
    const auto now = std::chrono::steady_clock::now();
    if (!options_.progress ||
        (more > 0 && now - shown_ < std::chrono::milliseconds(100) && done_ < total_))
      return;
    shown_ = now;
    options_.progress({"traces", done_, total_});
  }

  const Volume& volume_;
  const ExportOptions& options_;
  ExportPlan plan_;
  StagedFile file_;
  size_t threads_ = 1;
  bool integers_ = false;
  std::mutex mutex_;
  uint64_t done_ = 0, total_ = 0;
  std::chrono::steady_clock::time_point shown_;
  ExportReport report_;
};

}  // namespace

ExportReport export_segy(const Volume& volume, const std::filesystem::path& path,
                         const ExportOptions& options) {
  bool begun = false;
  try {
    Exporter exporter(volume, path, options);
    begun = true;
    return exporter.run();
  } catch (const Error& e) {
    const std::filesystem::path partial = StagedFile::staging_of(path);
    if (!begun || !std::filesystem::exists(partial)) throw;
    fail(e.code(), "{}; the same command goes on from what is in {}", e.what(), partial.string());
  }
}

}  // namespace craton::volume::segy
