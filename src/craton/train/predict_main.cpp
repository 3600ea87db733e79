#include "craton/train/predict_main.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "craton/base/error.h"
#include "craton/base/log.h"
#include "craton/base/units.h"
#include "craton/runtime/file.h"
#include "craton/runtime/thread_pool.h"
#include "craton/tensor/threads.h"
#include "craton/train/data_cache.h"
#include "craton/train/prediction.h"
#include "craton/train/prediction_picture.h"

namespace craton::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::atomic<bool> g_interrupted{false};

void on_signal(int number) {
  if (g_interrupted.exchange(true)) ::_exit(128 + number);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// One line that rewrites itself on a terminal; otherwise a line every tenth, at most one in two
/// seconds.
class WindowProgress {
 public:
  ~WindowProgress() {
    if (open_) std::fputc('\n', stderr);
  }
  void show(int64_t done, int64_t total) {
    const double seconds = seconds_since(start_);
    const int tenth = static_cast<int>(10 * done / total);
    const bool due =
        terminal_ ? seconds - shown_at_ > 0.1 : tenth != shown_tenth_ && seconds - shown_at_ > 2;
    if (!due && !(terminal_ && done == total)) return;
    shown_tenth_ = tenth;
    shown_at_ = seconds;
    const double rate = static_cast<double>(done) / std::max(seconds, 1e-9);
    const std::string line =
        fmt::format("predict {:>3} %  {} of {} windows, {:.3g}/s, {} left", 100 * done / total,
                    done, total, rate, format_seconds(static_cast<double>(total - done) / rate));
    std::fprintf(stderr, terminal_ ? "\r%s\033[K" : "%s\n", line.c_str());
    std::fflush(stderr);
    open_ = terminal_;
  }

 private:
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  const Clock::time_point start_ = Clock::now();
  double shown_at_ = 0;
  int shown_tenth_ = 0;
  bool open_ = false;
};

struct Arguments {
  std::string checkpoint, volume, variable, out;
  bool embed = false, replace = false;
  double overlap = 0.5, mask_ratio = -1;
  size_t threads = 1;
};

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string local_path(const std::string& uri) {
  return uri.starts_with("file://") ? uri.substr(7) : uri;
}

void check_output(const Arguments& a) {
  std::error_code ignored;
  const std::string out = local_path(a.out), in = local_path(a.volume);
  if (fs::exists(out, ignored) && fs::equivalent(out, in, ignored)) {
    fail(ErrorCode::kInvalidArgument,
         "--out {} is the volume itself; give the result another place", a.out);
  }
  if (a.replace) return;
  for (const std::string& path : {out, out + ".png"}) {
    if (path.find("://") == path.npos && fs::exists(path, ignored) &&
        !(a.embed && path.ends_with(".png")))
      fail(ErrorCode::kAlreadyExists, "{} already exists; --replace overwrites it", path);
  }
}

std::string describe(const Arguments& a, const FillReport& report) {
  std::string text = fmt::format("{}: {} traces filled", a.out, report.filled);
  if (report.left_dead > 0) {
    text += fmt::format(" ({} stay dead: no live trace within a window's reach)", report.left_dead);
  }
  if (report.error) {
    text += fmt::format(
        ", {:.0f} % of each window hidden and predicted with error {:.3f} (1: as "
        "predicting the mean)",
        100 * a.mask_ratio, *report.error);
  }
  return text + fmt::format(", {} windows", report.windows);
}

/// Through the node's cache, as the job that trained the model did.
std::shared_ptr<const volume::Volume> open_input(const Arguments& a, const LoadedModel& model) {
  return volume::open_volume(a.volume, a.variable,
                             DataCache(model.recipe.data.cache).policy_for(a.volume));
}

std::string fill(const Arguments& a, const LoadedModel& model, const FillOptions& options) {
  const auto volume = open_input(a, model);
  if (model.model->settings().amplitude_weight == 0) {
    log_warning(
        "the model was trained with amplitude_weight 0: predictions take the amplitude of "
        "what they replace, which dead traces do not have");
  }
  const FillReport report = fill_traces(model, volume, options);
  const auto output = volume::open_volume(a.out);
  const std::string picture = local_path(a.out) + ".png";
  if (picture.find("://") == picture.npos) {
    runtime::write_file_atomically(
        picture, volume::plot::encode_png(prediction_picture(*volume, *output, report.shown_row)));
  }
  return describe(a, report);
}

std::string embed(const Arguments& a, const LoadedModel& model, const PredictionOptions& options) {
  const auto shape = embed_patches(model, open_input(a, model), options);
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return fmt::format("{}: features of patches, {}", a.out, text);
}

void predict(Arguments a) {
  const auto start = Clock::now();
  a.out = without_slash(a.out);
  check_output(a);
  tensor::set_threads(1);
  const LoadedModel model = load_model(a.checkpoint);
  FillOptions options;
  options.out = a.out;
  options.replace = a.replace;
  options.threads = a.threads;
  options.cancel = &g_interrupted;
  options.overlap = a.overlap;
  if (a.mask_ratio >= 0) options.mask_ratio = a.mask_ratio;
  std::string done;
  {
    WindowProgress bar;
    options.progress = [&](int64_t k, int64_t total) { bar.show(k, total); };
    done = a.embed ? embed(a, model, options) : fill(a, model, options);
  }
  fmt::print("{}, {}\n", done, format_seconds(seconds_since(start)));
}

}  // namespace

int predict_main(int argc, char** argv) {
  CLI::App app("Uses a trained model on a volume; started by `craton predict`.", "predict");
  Arguments a;
  a.threads = runtime::available_cores();
  app.add_option("checkpoint", a.checkpoint)->required();
  app.add_option("volume", a.volume)->required();
  app.add_option("--out", a.out)->required();
  app.add_option("--variable", a.variable);
  app.add_flag("--embed", a.embed);
  app.add_flag("--replace", a.replace);
  app.add_option("--mask-ratio", a.mask_ratio)->check(CLI::Range(0.0, 1.0));
  app.add_option("--overlap", a.overlap)->check(CLI::Range(0.0, 0.9));
  app.add_option("--threads", a.threads)->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  ::signal(SIGINT, on_signal);
  ::signal(SIGTERM, on_signal);
  try {
    predict(a);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "craton: %s\n", e.what());
  } catch (const c10::Error& e) {
    std::fprintf(stderr, "craton: %s\n", e.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "craton: out of memory; use fewer threads\n");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "craton: internal error: %s\n", e.what());
  }
  return 1;
}

}  // namespace craton::train
