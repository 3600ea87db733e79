#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>

#include "craton/app/cli/interrupt.h"
#include "craton/app/cli/progress_bar.h"
#include "craton/app/cli/store_verbs.h"
#include "craton/base/error.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/copy_object.h"
#include "craton/store/object_store.h"
#include "craton/store/uri.h"

namespace craton::app {

namespace {

struct CopyArguments {
  std::string from, to;
  bool recursive = false;
  size_t parallel = 8;
};

/// Copies objects and tells how far it is. Thread-safe.
class Copier {
 public:
  Copier(std::shared_ptr<store::ObjectStore> from, std::shared_ptr<store::ObjectStore> to,
         uint64_t total)
      : from_(std::move(from)), to_(std::move(to)), total_(total) {
    progress_.show("objects", 0, total_);
  }

  void copy(const store::ObjectInfo& source, const std::string& target_key) {
    store::copy_object(*from_, source, *to_, target_key, [this](uint64_t bytes) {
      check_interrupt();
      advance(bytes);
    });
  }

 private:
  void check_interrupt() const {
    if (interrupt_.flag())
      fail(ErrorCode::kCancelled, "interrupted; unfinished objects do not appear");
  }
  void advance(uint64_t bytes) {
    std::lock_guard lock(mutex_);
    done_ += bytes;
    progress_.show("objects", done_, total_);
  }

  std::shared_ptr<store::ObjectStore> from_, to_;
  Interrupt interrupt_;
  std::mutex mutex_;
  ProgressBar progress_{"copy"};
  uint64_t total_, done_ = 0;
};

void copy_tree(const CopyArguments& arguments) {
  const auto from = store::open_store(arguments.from), to = store::open_store(arguments.to);
  const auto objects = from->list("");
  if (objects.empty()) fail(ErrorCode::kNotFound, "there is nothing below {}", arguments.from);
  uint64_t total = 0;
  for (const auto& object : objects) total += object.size;
  Copier copier(from, to, total);
  // Documents last: a volume becomes one when its root document is there.
  std::vector<store::ObjectInfo> order(objects);
  std::ranges::stable_partition(
      order, [](const auto& object) { return object.key.find('/') != object.key.npos; });
  const auto first_root = std::ranges::find_if(
      order, [](const auto& object) { return object.key.find('/') == object.key.npos; });
  const auto nested = static_cast<size_t>(first_root - order.begin());
  runtime::parallel_for(nested, arguments.parallel,
                        [&](size_t i) { copier.copy(order[i], order[i].key); });
  for (size_t i = nested; i < order.size(); ++i) copier.copy(order[i], order[i].key);
}

void copy_object(const CopyArguments& arguments) {
  const store::ObjectPlace from = store::split_uri(arguments.from);
  if (from.key.empty())
    fail(ErrorCode::kInvalidArgument, "{} is no object; with -r everything below it is copied",
         arguments.from);
  const auto source = store::open_store(from.root);
  const auto info = source->head(from.key);
  if (!info)
    fail(ErrorCode::kNotFound, "there is no object {}; with -r everything below a folder is copied",
         arguments.from);
  store::ObjectPlace to = store::split_uri(arguments.to);
  std::error_code ignored;
  if (std::filesystem::is_directory(arguments.to, ignored)) to = {arguments.to, ""};
  if (to.key.empty()) to.key = from.key;
  Copier(source, store::open_store(to.root), info->size).copy(*info, to.key);
}

}  // namespace

void add_store_cp(CLI::App& store) {
  auto arguments = std::make_shared<CopyArguments>();
  CLI::App* verb = store.add_subcommand("cp", "Copy an object, or a tree, between any two stores");
  verb->footer(
      "Large objects go in parallel parts and appear whole or not at all.\n"
      "Examples:\n"
      "  craton store cp f3.sgy s3://surveys/raw/\n"
      "  craton store cp -r f3.mdio s3://surveys/f3.mdio\n"
      "  craton store cp https://example.org/f3.sgy f3.sgy");
  verb->add_option("from", arguments->from, "An object; with -r a folder or prefix")->required();
  verb->add_option("to", arguments->to, "An object, or a folder ending in \"/\"")->required();
  verb->add_flag("-r,--recursive", arguments->recursive, "Everything below");
  verb->add_option("--parallel", arguments->parallel, "Objects at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  verb->callback(
      [arguments] { arguments->recursive ? copy_tree(*arguments) : copy_object(*arguments); });
}

}  // namespace craton::app
