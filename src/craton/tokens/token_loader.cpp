#include "craton/tokens/token_loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/units.h"

namespace craton::tokens {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostRequests = 64;
constexpr uint64_t kMostFlightBytes = 32 << 20;

struct PageKey {
  int32_t source = 0, file = 0;
  uint64_t number = 0;
  auto operator<=>(const PageKey&) const = default;
};

struct Page {
  std::shared_ptr<const store::Bytes> bytes;  // null: on its way
  uint64_t size = 0;
  std::list<PageKey>::iterator place;  // in the order of use, once it is there
};

struct PageRange {
  uint64_t offset = 0, length = 0;  // of the file
};

PageRange range_of(const TokenFile& file, uint64_t number) {
  const uint64_t begin = number * TokenLoader::kPageBytes;
  return {file.first_byte + begin, std::min(TokenLoader::kPageBytes, file.data_bytes() - begin)};
}

}  // namespace

struct TokenLoader::State {
  State(std::shared_ptr<const TokenSampler> s, const TokenLoaderSettings& given)
      : sampler(std::move(s)), settings(given) {}

  void work();
  std::vector<PageKey> pages_of(const TokenWindow& window) const;
  const TokenFile& file_of(const PageKey& key) const {
    return sampler->sources()[static_cast<size_t>(key.source)].files[static_cast<size_t>(key.file)];
  }
  std::vector<PageKey> plan();
  void begin(const PageKey& key);
  void make_room(uint64_t bytes);
  void fetch(const std::vector<PageKey>& keys);
  void settle(const PageKey& key, std::shared_ptr<const store::Bytes> bytes);
  std::shared_ptr<const store::Bytes> page(std::unique_lock<std::mutex>& lock, const PageKey& key,
                                           bool& waited);
  void take(const TokenWindow& window, std::span<int64_t> out);

  std::shared_ptr<const TokenSampler> sampler;
  const TokenLoaderSettings settings;
  std::mutex mutex;
  std::condition_variable work_changed, page_changed;
  std::deque<TokenWindow> future;  // not planned yet
  std::map<PageKey, Page> pages;
  std::list<PageKey> used;  // pages that are there, the oldest first
  bool stop = false;
  TokenLoaderMetrics metrics;
  std::thread thread;
};

std::vector<PageKey> TokenLoader::State::pages_of(const TokenWindow& window) const {
  const uint64_t width = bytes_of(sampler->file(window).type);
  const uint64_t begin = static_cast<uint64_t>(window.first) * width;
  const uint64_t end = begin + static_cast<uint64_t>(sampler->settings().sequence + 1) * width;
  std::vector<PageKey> keys;
  for (uint64_t n = begin / kPageBytes; n * kPageBytes < end; ++n)
    keys.push_back({window.source, window.file, n});
  return keys;
}

/// With the lock held: what of the future is to be fetched now. Those pages are on their way then.
std::vector<PageKey> TokenLoader::State::plan() {
  std::vector<PageKey> keys;
  uint64_t bytes = 0;
  while (!future.empty()) {
    std::vector<PageKey> missing;
    uint64_t more = 0;
    for (const PageKey& key : pages_of(future.front())) {
      if (const auto found = pages.find(key); found != pages.end()) {
        if (found->second.bytes) used.splice(used.end(), used, found->second.place);
        continue;
      }
      missing.push_back(key);
      more += range_of(file_of(key), key.number).length;
    }
    if (!keys.empty() && bytes + more > std::min(kMostFlightBytes, settings.budget_bytes / 4))
      break;
    future.pop_front();
    bytes += more;
    for (const PageKey& key : missing) begin(key);
    keys.insert(keys.end(), missing.begin(), missing.end());
  }
  std::ranges::sort(keys);
  return keys;
}

void TokenLoader::State::begin(const PageKey& key) {
  Page page;
  page.size = range_of(file_of(key), key.number).length;
  make_room(page.size);
  metrics.bytes_held += page.size;
  metrics.peak_bytes = std::max(metrics.peak_bytes, metrics.bytes_held);
  pages.emplace(key, std::move(page));
}

/// Pages that somebody still reads live on with their reader.
void TokenLoader::State::make_room(uint64_t bytes) {
  while (metrics.bytes_held + bytes > settings.budget_bytes && !used.empty()) {
    const auto oldest = pages.find(used.front());
    metrics.bytes_held -= oldest->second.size;
    pages.erase(oldest);
    used.pop_front();
  }
}

/// What became of a page that was on its way; null bytes: nothing, whoever needs it tries again.
void TokenLoader::State::settle(const PageKey& key, std::shared_ptr<const store::Bytes> bytes) {
  const std::lock_guard lock(mutex);
  const auto found = pages.find(key);
  CRATON_CHECK(found != pages.end() && !found->second.bytes);
  if (bytes) {
    ++metrics.pages_fetched;
    metrics.bytes_fetched += bytes->size();
    found->second.bytes = std::move(bytes);
    found->second.place = used.insert(used.end(), key);
  } else {
    metrics.bytes_held -= found->second.size;
    pages.erase(found);
  }
  page_changed.notify_all();
}

/// Without the lock. Throws the first failure, after all pages are settled.
void TokenLoader::State::fetch(const std::vector<PageKey>& keys) {
  std::exception_ptr failure;
  for (size_t begin = 0, end = 0; begin < keys.size(); begin = end) {
    const TokenFile& file = file_of(keys[begin]);
    std::vector<store::ObjectRead> reads;
    for (end = begin; end < keys.size() && &file_of(keys[end]) == &file; ++end) {
      const PageRange range = range_of(file, keys[end].number);
      reads.push_back(
          {.key = file.key, .offset = range.offset, .length = range.length, .etag = file.etag});
    }
    std::vector<char> settled(reads.size(), 0);
    try {
      const store::ReadLimits limits{kMostRequests,
                                     std::min(kMostFlightBytes, settings.budget_bytes / 4)};
      file.store->read_many(reads, limits, [&](size_t i, const store::ObjectFound& found) {
        using enum store::ObjectFound::State;
        if (found.state != kRead)
          fail(ErrorCode::kCorrupt, "{} {} while it is used; start anew with files that stay",
               file.uri, found.state == kMissing ? "was removed" : "was changed");
        if (found.keep) found.keep(found.bytes);
        settled[i] = 1;
        settle(keys[begin + i],
               std::make_shared<const store::Bytes>(found.bytes.begin(), found.bytes.end()));
      });
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
    for (size_t i = 0; i < reads.size(); ++i)
      if (settled[i] == 0) settle(keys[begin + i], nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

void TokenLoader::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    work_changed.wait(lock, [&] { return stop || !future.empty(); });
    if (stop) return;
    const std::vector<PageKey> keys = plan();
    lock.unlock();
    try {
      fetch(keys);
    } catch (...) {
      // Whoever takes the window tries again and tells why.
    }
    lock.lock();
  }
}

std::shared_ptr<const store::Bytes> TokenLoader::State::page(std::unique_lock<std::mutex>& lock,
                                                             const PageKey& key, bool& waited) {
  for (;;) {
    const auto found = pages.find(key);
    if (found == pages.end()) {
      waited = true;
      begin(key);
      lock.unlock();
      fetch({key});
      lock.lock();
    } else if (!found->second.bytes) {
      waited = true;
      page_changed.wait(lock);
    } else {
      used.splice(used.end(), used, found->second.place);
      return found->second.bytes;
    }
  }
}

void TokenLoader::State::take(const TokenWindow& window, std::span<int64_t> out) {
  CRATON_CHECK(out.size() == static_cast<size_t>(sampler->settings().sequence + 1));
  const auto since = Clock::now();
  const TokenFile& file = sampler->file(window);
  const uint64_t width = bytes_of(file.type);
  store::Bytes stored;
  stored.reserve(out.size() * width);
  const uint64_t begin = static_cast<uint64_t>(window.first) * width;
  const uint64_t end = begin + out.size() * width;
  bool waited = false;
  for (const PageKey& key : pages_of(window)) {
    std::unique_lock lock(mutex);
    const auto bytes = page(lock, key, waited);
    lock.unlock();
    const uint64_t at = key.number * kPageBytes;
    const uint64_t low = std::max(begin, at) - at, high = std::min(end - at, bytes->size());
    stored.insert(stored.end(), bytes->begin() + static_cast<ptrdiff_t>(low),
                  bytes->begin() + static_cast<ptrdiff_t>(high));
  }
  if (waited) {
    const std::lock_guard lock(mutex);
    metrics.seconds_waited += std::chrono::duration<double>(Clock::now() - since).count();
  }
  decode_tokens(file, stored, window.first, settings.vocabulary, out);
}

TokenLoader::TokenLoader(std::shared_ptr<const TokenSampler> sampler,
                         TokenLoaderSettings settings) {
  uint64_t window = 0;
  for (const TokenSource& source : sampler->sources())
    for (const TokenFile& file : source.files)
      window = std::max(
          window, static_cast<uint64_t>(sampler->settings().sequence + 1) * bytes_of(file.type));
  const uint64_t least = 2 * (window + 2 * kPageBytes);
  if (settings.budget_bytes < least)
    fail(ErrorCode::kInvalidArgument,
         "a loader budget of {} cannot hold two windows of {}; give it at least {} "
         "(data.prefetch_bytes)",
         format_bytes(static_cast<double>(settings.budget_bytes)),
         format_bytes(static_cast<double>(window)), format_bytes(static_cast<double>(least)));
  state_ = std::make_unique<State>(std::move(sampler), settings);
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

TokenLoader::~TokenLoader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->work_changed.notify_all();
  state_->thread.join();
}

void TokenLoader::expect(const std::vector<int64_t>& sample_numbers) {
  State& s = *state_;
  std::vector<TokenWindow> windows;
  uint64_t bytes = 0;
  for (const int64_t number : sample_numbers) {
    windows.push_back(s.sampler->locate(number));
    // Beyond half of the budget, what comes late would drive out what comes first.
    bytes += s.pages_of(windows.back()).size() * kPageBytes;
    if (bytes > s.settings.budget_bytes / 2) break;
  }
  {
    const std::lock_guard lock(s.mutex);
    s.future.assign(windows.begin(), windows.end());
  }
  s.work_changed.notify_all();
}

void TokenLoader::take(int64_t sample_number, std::span<int64_t> out) {
  state_->take(state_->sampler->locate(sample_number), out);
}

void TokenLoader::take_validation(int64_t index, std::span<int64_t> out) {
  state_->take(state_->sampler->locate_validation(index), out);
}

TokenLoaderMetrics TokenLoader::metrics() const {
  const std::lock_guard lock(state_->mutex);
  return state_->metrics;
}

}  // namespace craton::tokens
