#include "craton/results/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "craton/base/error.h"
#include "craton/base/units.h"

namespace craton::results {
namespace {

double number_of(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return 0;
  return found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::optional<StepMetrics> parse_line(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    return std::nullopt;
  StepMetrics m;
  m.step = json["step"].get<int64_t>();
  m.generation = static_cast<uint64_t>(number_of(json, "generation"));
  m.workers = static_cast<int64_t>(number_of(json, "workers"));
  m.loss = number_of(json, "loss");
  if (json.contains("val_loss")) m.validation_loss = number_of(json, "val_loss");
  m.gradient_norm = number_of(json, "grad_norm");
  m.learning_rate = number_of(json, "lr");
  m.batch = static_cast<int64_t>(number_of(json, "batch"));
  m.samples_seen = static_cast<int64_t>(number_of(json, "samples_seen"));
  m.applied = json.value("applied", true);
  m.skipped_steps = static_cast<int64_t>(number_of(json, "skipped_steps"));
  m.seconds = number_of(json, "seconds");
  m.compute_seconds = number_of(json, "compute_seconds");
  m.reduce_seconds = number_of(json, "reduce_seconds");
  m.gather_seconds = number_of(json, "gather_seconds");
  m.data_wait_seconds = number_of(json, "data_wait_seconds");
  m.communication_seconds = number_of(json, "communication_seconds");
  m.sent_bytes = static_cast<uint64_t>(number_of(json, "sent_bytes"));
  m.memory_bytes = static_cast<uint64_t>(number_of(json, "memory_bytes"));
  m.elapsed_seconds = number_of(json, "elapsed_seconds");
  m.time = number_of(json, "time");
  m.samples_per_second = number_of(json, "samples_per_second");
  m.tokens_per_second = number_of(json, "tokens_per_second");
  m.flops_per_second = number_of(json, "flops_per_second");
  m.peak_share = number_of(json, "peak_share");
  m.data_wait_share = number_of(json, "data_wait_share");
  return m;
}

/// Calls visit(line) for each line that ends.
template <typename Visit>
void each_line(std::string_view text, Visit visit) {
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    visit(text.substr(0, end));
  }
}

}  // namespace

void derive_rates(StepMetrics& m, const JobConstants& job) {
  if (!(m.seconds > 0)) return;
  m.samples_per_second = static_cast<double>(m.batch) / m.seconds;
  m.tokens_per_second = m.samples_per_second * static_cast<double>(job.tokens_per_sample);
  m.flops_per_second = m.samples_per_second * job.training_flops_per_sample;
  const double peak = job.peak_flops_per_worker * static_cast<double>(m.workers);
  m.peak_share = peak > 0 ? m.flops_per_second / peak : 0;
  m.data_wait_share = std::min(1.0, m.data_wait_seconds / m.seconds);
}

std::string console_line(const StepMetrics& m, int64_t steps) {
  std::string line = fmt::format("step {}/{}  loss {:.4f}", m.step, steps, m.loss);
  if (m.validation_loss) line += fmt::format("  val_loss {:.4f}", *m.validation_loss);
  line += fmt::format("  grad_norm {:.3g}  lr {:.2e}  {} samples/s  {} tokens/s  {}FLOP/s",
                      m.gradient_norm, m.learning_rate, format_count(m.samples_per_second),
                      format_count(m.tokens_per_second), format_count(m.flops_per_second));
  if (m.peak_share > 0) line += fmt::format(" ({:.0f}% of peak)", 100 * m.peak_share);
  line += fmt::format("  data wait {:.1f}%  {}", 100 * m.data_wait_share,
                      format_bytes(static_cast<double>(m.memory_bytes)));
  if (!m.applied) {
    line += fmt::format(
        "  *** SKIPPED: loss {} and gradient norm {} are not both finite; no worker changed "
        "anything ({} skipped so far) ***",
        m.loss, m.gradient_norm, m.skipped_steps);
  }
  return line;
}

std::string json_line(const StepMetrics& m) {
  nlohmann::ordered_json json;
  json["step"] = m.step;
  json["loss"] = m.loss;
  if (m.validation_loss) json["val_loss"] = *m.validation_loss;
  json["grad_norm"] = m.gradient_norm;
  json["lr"] = m.learning_rate;
  json["batch"] = m.batch;
  json["samples_seen"] = m.samples_seen;
  json["applied"] = m.applied;
  json["skipped_steps"] = m.skipped_steps;
  json["generation"] = m.generation;
  json["workers"] = m.workers;
  json["samples_per_second"] = m.samples_per_second;
  json["tokens_per_second"] = m.tokens_per_second;
  json["flops_per_second"] = m.flops_per_second;
  json["peak_share"] = m.peak_share;
  json["data_wait_share"] = m.data_wait_share;
  json["seconds"] = m.seconds;
  json["compute_seconds"] = m.compute_seconds;
  json["reduce_seconds"] = m.reduce_seconds;
  json["gather_seconds"] = m.gather_seconds;
  json["data_wait_seconds"] = m.data_wait_seconds;
  json["communication_seconds"] = m.communication_seconds;
  json["sent_bytes"] = m.sent_bytes;
  json["memory_bytes"] = m.memory_bytes;
  json["elapsed_seconds"] = m.elapsed_seconds;
  json["time"] = m.time;
  return json.dump();
}

MetricsFile::MetricsFile(std::filesystem::path path, int64_t last_step) : path_(std::move(path)) {
  std::string kept;
  if (last_step > 0 && std::filesystem::exists(path_)) {
    each_line(runtime::read_text(path_), [&](std::string_view line) {
      const auto metrics = parse_line(line);
      if (metrics && metrics->step <= last_step) kept.append(line).append("\n");
    });
  }
  runtime::write_file_atomically(path_, kept);
  fd_ = runtime::FileDescriptor(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!fd_.valid()) fail_errno(fmt::format("cannot open {}", path_.string()), errno);
}

void MetricsFile::append(const StepMetrics& metrics) {
  const std::string line = json_line(metrics) + "\n";
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) fail_errno(fmt::format("cannot write {}", path_.string()), errno);
  if (static_cast<size_t>(written) != line.size()) {
    fail(ErrorCode::kResourceExhausted, "cannot write {}: the disk is full", path_.string());
  }
}

std::vector<StepMetrics> read_metrics(const std::filesystem::path& path) {
  std::vector<StepMetrics> out;
  if (!std::filesystem::exists(path)) return out;
  each_line(runtime::read_text(path), [&](std::string_view line) {
    if (auto metrics = parse_line(line)) out.push_back(std::move(*metrics));
  });
  return out;
}

std::vector<StepMetrics> read_newest_metrics(const std::filesystem::path& path, size_t count) {
  constexpr uint64_t kMostLineBytes = 2048;
  std::vector<StepMetrics> out;
  std::error_code none;
  const uint64_t size = std::filesystem::file_size(path, none);
  if (none) return out;
  const uint64_t length = std::min(size, kMostLineBytes * (count + 1));
  std::string text(length, '\0');
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(size - length));
  file.read(text.data(), static_cast<std::streamsize>(length));
  text.resize(static_cast<size_t>(file.gcount()));
  // A line whose start is missing is no line.
  if (length < size) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  each_line(text, [&](std::string_view line) {
    if (auto metrics = parse_line(line)) out.push_back(std::move(*metrics));
  });
  if (out.size() > count) out.erase(out.begin(), out.end() - static_cast<ptrdiff_t>(count));
  return out;
}

}  // namespace craton::results
