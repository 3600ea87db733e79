#include "craton/tokens/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/philox.h"
#include "craton/base/units.h"
#include "craton/volume/sampling/permutation.h"

namespace craton::tokens {
namespace {

constexpr uint64_t kMostBlockBytes = 16 << 20;
constexpr uint64_t kGroupBlocks = 4;       // at least, where windows are small enough
constexpr int64_t kShiftedWindows = 8;     // files of so many windows are cut at a phase
constexpr uint64_t kPassStride = 1 << 24;  // room for the groups of one pass in a random stream
// A pass's random stream, b: streams of volumes have the number of their source.
constexpr uint32_t kPhaseStream = 0x80000000u;

// A file's training part.
struct Part {
  int64_t windows = 0;     // in a pass
  int64_t phases = 1;      // places where the first window may begin
  int64_t validation = 0;  // windows for validation, behind it
  int64_t validation_first = 0;
};

Part divide(int64_t tokens, const TokenSamplerSettings& s) {
  Part part;
  const int64_t all = (tokens - 1) / s.sequence;
  if (s.validation_fraction > 0 && s.validation_count > 0 && all >= 2) {
    const auto wanted = std::llround(s.validation_fraction * static_cast<double>(all));
    part.validation = std::clamp<int64_t>(wanted, 1, all - 1);
  }
  // A window's first token is only read: it may be the last one that training predicts.
  const int64_t predicted = tokens - 1 - part.validation * s.sequence;
  part.validation_first = predicted;
  part.windows = predicted / s.sequence;
  if (part.windows >= kShiftedWindows) {
    --part.windows;
    part.phases = s.sequence;
  }
  return part;
}

struct Block {
  int32_t file = 0;
  int64_t first = 0, windows = 0;  // of the file's
};

void check_settings(const TokenSamplerSettings& s) {
  constexpr int64_t kLongest = int64_t{1} << 32;
  if (s.sequence < 1 || s.sequence > kLongest)
    fail(ErrorCode::kInvalidArgument, "sequence: {}; expected 1 to {}", s.sequence, kLongest);
  if (!(s.validation_fraction >= 0 && s.validation_fraction <= 0.9))
    fail(ErrorCode::kInvalidArgument, "validation fraction: {}; expected 0 to 0.9",
         s.validation_fraction);
}

std::string name_of(const TokenSource& source) {
  const std::string more =
      source.files.size() > 1 ? fmt::format(" and {} more", source.files.size() - 1) : "";
  return source.files.front().uri + more;
}

}  // namespace

struct TokenSampler::Plan {
  struct Order {
    int64_t pass = 0;
    std::vector<int32_t> blocks;        // shuffled
    std::vector<int64_t> first_block;   // of each group, and one past the end
    std::vector<int64_t> first_window;  // of each group in the pass, and the number of windows
    std::vector<int64_t> block_window;  // of each place in `blocks`: its first window in the pass
  };

  std::vector<Part> parts;  // per file
  std::vector<Block> blocks;
  int64_t windows = 0;
  int64_t blocks_per_group = 1;
  uint64_t seed = 0;
  uint32_t number = 0;
  // The orders of the last passes that somebody asked for: a memo, not a state.
  mutable std::mutex mutex;
  mutable std::vector<std::shared_ptr<const Order>> recent;

  std::shared_ptr<const Order> order_of(int64_t pass) const;
  TokenWindow window(int64_t index, int64_t sequence) const;
};

std::shared_ptr<const TokenSampler::Plan::Order> TokenSampler::Plan::order_of(int64_t pass) const {
  const std::lock_guard lock(mutex);
  for (const auto& order : recent) {
    if (order->pass == pass) return order;
  }
  auto order = std::make_shared<Order>();
  order->pass = pass;
  order->blocks.resize(blocks.size());
  std::iota(order->blocks.begin(), order->blocks.end(), 0);
  const Philox random(seed, RandomPurpose::kSampleOrder, static_cast<uint64_t>(pass) * kPassStride,
                      number);
  for (size_t n = blocks.size(); n > 1; --n)
    std::swap(order->blocks[n - 1], order->blocks[random.below(n, n)]);
  int64_t window = 0;
  for (size_t n = 0; n < blocks.size(); ++n) {
    if (static_cast<int64_t>(n) % blocks_per_group == 0) {
      order->first_block.push_back(static_cast<int64_t>(n));
      order->first_window.push_back(window);
    }
    order->block_window.push_back(window);
    window += blocks[static_cast<size_t>(order->blocks[n])].windows;
  }
  order->first_block.push_back(static_cast<int64_t>(blocks.size()));
  order->first_window.push_back(window);
  if (recent.size() >= 4) recent.erase(recent.begin());
  recent.push_back(order);
  return order;
}

TokenWindow TokenSampler::Plan::window(int64_t index, int64_t sequence) const {
  TokenWindow w;
  w.pass = index / windows;
  index %= windows;
  const auto order = order_of(w.pass);
  const auto after = std::ranges::upper_bound(order->first_window, index);
  const auto group = static_cast<size_t>(after - order->first_window.begin()) - 1;
  const int64_t begin = order->first_window[group];
  const volume::Permutation shuffle(
      order->first_window[group + 1] - begin,
      Philox(seed, RandomPurpose::kSampleOrder,
             static_cast<uint64_t>(w.pass) * kPassStride + group + 1, number));
  const int64_t place = begin + shuffle(index - begin);
  const auto found = std::ranges::upper_bound(order->block_window, place) - 1;
  const auto at = static_cast<size_t>(found - order->block_window.begin());
  const Block& block = blocks[static_cast<size_t>(order->blocks[at])];
  const Part& part = parts[static_cast<size_t>(block.file)];
  const Philox phases(seed, RandomPurpose::kSamplePlace, static_cast<uint64_t>(w.pass),
                      kPhaseStream + number);
  const auto phase = static_cast<int64_t>(
      phases.below(static_cast<uint64_t>(block.file), static_cast<uint64_t>(part.phases)));
  w.file = block.file;
  w.first = phase + (block.first + place - *found) * sequence;
  return w;
}

TokenSampler::TokenSampler(std::vector<TokenSource> sources, TokenSamplerSettings settings)
    : sources_(std::move(sources)), settings_(settings) {
  check_settings(settings_);
  if (sources_.empty() || sources_.size() > volume::Turns::kMostSources)
    fail(ErrorCode::kInvalidArgument, "{} sources of tokens; expected 1 to {}", sources_.size(),
         volume::Turns::kMostSources);
  std::vector<double> weights;
  size_t weighted = 0;
  for (size_t n = 0; n < sources_.size(); ++n) {
    const double weight = sources_[n].weight;
    if (!(weight >= 0) || !std::isfinite(weight))
      fail(ErrorCode::kInvalidArgument, "weight: {} for {}; expected a positive number", weight,
           name_of(sources_[n]));
    plans_.push_back(make_plan(n));
    weighted += weight > 0;
    weights.push_back(weight > 0 ? weight : static_cast<double>(plans_.back()->windows));
  }
  if (weighted != 0 && weighted != sources_.size())
    fail(ErrorCode::kInvalidArgument,
         "{} of {} sources of tokens have a weight; give one to all of them or to none", weighted,
         sources_.size());
  turns_ = volume::Turns(weights, settings_.seed);
  choose_validation();
}

TokenSampler::~TokenSampler() = default;

std::unique_ptr<const TokenSampler::Plan> TokenSampler::make_plan(size_t number) const {
  const TokenSource& source = sources_[number];
  CRATON_CHECK(!source.files.empty());
  auto plan = std::make_unique<Plan>();
  plan->seed = settings_.seed;
  plan->number = static_cast<uint32_t>(number);
  // Half of the working set is in use while the next part arrives.
  const uint64_t group_bytes =
      std::max<uint64_t>(1, settings_.working_set_bytes / 2 / sources_.size());
  const uint64_t block_bytes = std::min(kMostBlockBytes, group_bytes / kGroupBlocks);
  plan->blocks_per_group =
      static_cast<int64_t>(std::max<uint64_t>(1, group_bytes / std::max<uint64_t>(1, block_bytes)));
  int64_t longest = 0;
  for (size_t f = 0; f < source.files.size(); ++f) {
    const TokenFile& file = source.files[f];
    const Part part = divide(file.count, settings_);
    plan->parts.push_back(part);
    longest = std::max(longest, file.count);
    const uint64_t window_bytes = static_cast<uint64_t>(settings_.sequence) * bytes_of(file.type);
    const int64_t in_block =
        static_cast<int64_t>(std::max<uint64_t>(1, block_bytes / window_bytes));
    for (int64_t w = 0; w < part.windows; w += in_block)
      plan->blocks.push_back({static_cast<int32_t>(f), w, std::min(in_block, part.windows - w)});
    plan->windows += part.windows;
  }
  if (plan->windows == 0)
    fail(ErrorCode::kInvalidArgument,
         "{}: no file has the {} tokens that a training window of sequence {} takes beside {}; the "
         "longest has {}; lower data.sequence",
         name_of(source), settings_.sequence + 1, settings_.sequence,
         settings_.validation_fraction > 0 ? "validation" : "nothing", longest);
  CRATON_CHECK(plan->blocks.size() < kPassStride);
  return plan;
}

void TokenSampler::choose_validation() {
  for (size_t n = 0; n < plans_.size(); ++n) {
    int64_t have = 0;
    for (const Part& part : plans_[n]->parts) have += part.validation;
    const double share = turns_.share(static_cast<int32_t>(n));
    const int64_t wanted =
        std::max<int64_t>(1, std::llround(share * static_cast<double>(settings_.validation_count)));
    const int64_t count = std::min(wanted, have);
    size_t file = 0;
    int64_t before = 0;
    for (int64_t k = 0; k < count; ++k) {
      // The middle of the k-th of `count` equal stretches.
      const int64_t at = (2 * k + 1) * have / (2 * count);
      while (at >= before + plans_[n]->parts[file].validation)
        before += plans_[n]->parts[file++].validation;
      const Part& part = plans_[n]->parts[file];
      validation_.push_back({static_cast<int32_t>(n), static_cast<int32_t>(file), 0,
                             part.validation_first + (at - before) * settings_.sequence});
    }
  }
}

TokenWindow TokenSampler::locate(int64_t sample_number) const {
  const volume::Turns::Turn turn = turns_.at(sample_number);
  TokenWindow window =
      plans_[static_cast<size_t>(turn.source)]->window(turn.index, settings_.sequence);
  window.source = turn.source;
  return window;
}

int64_t TokenSampler::windows_per_pass(int32_t source) const {
  return plans_[static_cast<size_t>(source)]->windows;
}

TokenWindow TokenSampler::locate_validation(int64_t index) const {
  CRATON_CHECK(index >= 0 && index < validation_size(), "{} of {}", index, validation_size());
  return validation_[static_cast<size_t>(index)];
}

std::string TokenSampler::describe() const {
  int64_t windows = 0, tokens = 0;
  size_t files = 0;
  for (size_t n = 0; n < sources_.size(); ++n) {
    windows += plans_[n]->windows;
    files += sources_[n].files.size();
    for (const TokenFile& file : sources_[n].files) tokens += file.count;
  }
  return fmt::format("{} tokens in {} file{}, {} windows of {}; {} for validation",
                     format_count(static_cast<double>(tokens)), files, files == 1 ? "" : "s",
                     format_count(static_cast<double>(windows)), settings_.sequence,
                     validation_size());
}

}  // namespace craton::tokens
