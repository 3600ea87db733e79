#include "craton/volume/sampling/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "craton/base/check.h"
#include "craton/base/error.h"
#include "craton/base/units.h"
#include "craton/volume/sampling/chunk_cache.h"
#include "craton/volume/sampling/window.h"

namespace craton::volume {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostFlightBytes = 32 << 20;
constexpr size_t kMostRequests = 64;
constexpr size_t kLeastChunksOfPart = 4;  // so that neighbours still come in one request

// How the budget is divided: so many windows at a time, so many bytes that a thread has in flight
// before they are decoded, the rest for chunks.
struct Division {
  size_t windows = 0;
  uint64_t chunk_bytes = 0, flight_bytes = 0;
};

// Bytes of the largest chunk of all volumes.
uint64_t largest_chunk(const WindowSampler& sampler) {
  uint64_t chunk = 0;
  for (int32_t v = 0; v < sampler.volume_count(); ++v) {
    uint64_t bytes = sizeof(float);
    for (const int64_t n : sampler.volume(v).info().chunk_shape) bytes *= static_cast<uint64_t>(n);
    chunk = std::max(chunk, bytes);
  }
  return chunk;
}

Division divide(const WindowSampler& sampler, const LoaderSettings& settings) {
  const uint64_t chunk = largest_chunk(sampler);
  const uint64_t window = static_cast<uint64_t>(sampler.largest_window()) * sizeof(float);
  const uint64_t threads = settings.threads, budget = settings.budget_bytes;
  const uint64_t least = (threads + 1) * chunk + threads * (chunk + window);
  if (budget < least) {
    fail(ErrorCode::kInvalidArgument,
         "a loader budget of {} cannot hold two chunks of {} and a window of {} for each of {} "
         "threads; give it at least {} or take fewer threads",
         format_bytes(static_cast<double>(budget)), format_bytes(static_cast<double>(chunk)),
         format_bytes(static_cast<double>(window)), threads,
         format_bytes(static_cast<double>(least)));
  }
  Division division;
  division.flight_bytes = std::max(chunk, std::min(kMostFlightBytes, budget / 16 / (threads + 1)));
  // Callers of take that find nothing prepared fly as well; with a tight budget, one chunk at a
  // time.
  const uint64_t fliers = division.flight_bytes > chunk ? threads + 1 : threads;
  const uint64_t flying = fliers * division.flight_bytes;
  const uint64_t room = budget - (threads + 1) * chunk - flying;
  division.windows = static_cast<size_t>(
      std::clamp<uint64_t>(budget / 4 / window, threads, std::max(threads, room / window)));
  division.chunk_bytes = budget - flying - division.windows * window;
  return division;
}

// Chunks that somebody waits for, some of a window's: all threads read such parts together.
struct Part {
  int32_t volume = 0;
  std::vector<std::vector<int64_t>> chunks;
};

struct Slot {
  enum class Stage { kWorking, kReady, kTaking };
  Stage stage = Stage::kWorking;
  bool wanted = true;  // false: nobody expects it any more
  std::unique_ptr<float[]> buffer;
  size_t elements = 0;
  std::exception_ptr error;
};

}  // namespace

struct WindowLoader::State {
  State(std::shared_ptr<const WindowSampler> s, const LoaderSettings& settings)
      : sampler(std::move(s)),
        thread_count(settings.threads),
        division(divide(*sampler, settings)),
        limits{.parallel = kMostRequests, .bytes = division.flight_bytes},
        window_bytes(static_cast<uint64_t>(sampler->largest_window()) * sizeof(float)),
        cache(division.chunk_bytes, bytes) {}

  void work();
  void make(const WindowSpec& spec, std::span<float> out) {
    CRATON_CHECK(out.size() == static_cast<size_t>(spec.elements()));
    assemble_window(spec, sampler->volume(spec.volume), sampler->normalisation(spec.volume), cache,
                    out, limits);
  }
  // With the lock held. Buffers are used again: their pages have been seen and are in place.
  std::unique_ptr<float[]> take_buffer() {
    if (spare.empty()) {
      bytes.add(window_bytes);
      return std::make_unique_for_overwrite<float[]>(window_bytes / sizeof(float));
    }
    auto buffer = std::move(spare.back());
    spare.pop_back();
    return buffer;
  }
  void drop(int64_t sample_number) {
    const auto slot = slots.find(sample_number);
    if (slot->second.error) {
      bytes.subtract(window_bytes);
    } else {
      spare.push_back(std::move(slot->second.buffer));
    }
    slots.erase(slot);
    work_changed.notify_all();
  }
  uint64_t ahead_limit() const { return division.chunk_bytes / 2; }
  bool can_fetch() const {
    return planned.size() < future.size() &&
           (planned.empty() || planned_bytes <= ahead_limit() / 2);
  }
  bool can_assemble() const { return !future.empty() && slots.size() < division.windows; }
  void forget_future(size_t index);
  void split(const WindowSpec& spec);
  void read_urgent(std::unique_lock<std::mutex>& lock);
  void fetch(std::unique_lock<std::mutex>& lock);
  void assemble(std::unique_lock<std::mutex>& lock);

  void take(int64_t sample_number, std::span<float> out);
  void late(Clock::time_point since);

  std::shared_ptr<const WindowSampler> sampler;
  const size_t thread_count;
  const Division division;
  const store::ReadLimits limits;
  uint64_t window_bytes;
  ByteCount bytes;
  ChunkCache cache;
  std::mutex mutex;
  std::condition_variable work_changed, ready_changed;
  std::deque<int64_t> future;    // not begun
  std::deque<uint64_t> planned;  // bytes of chunks that the first of these touch; being fetched
  uint64_t planned_bytes = 0;    // their sum
  std::deque<Part> urgent;
  std::unordered_map<int64_t, Slot> slots;      // begun or finished; at most division.windows
  std::vector<std::unique_ptr<float[]>> spare;  // with `slots` at most division.windows
  bool stop = false;
  double seconds_waited = 0;
  int64_t windows_ready = 0, windows_late = 0;
  std::vector<std::thread> threads;
};

// With the lock held.
void WindowLoader::State::forget_future(size_t index) {
  future.erase(future.begin() + static_cast<ptrdiff_t>(index));
  work_changed.notify_all();
  if (index >= planned.size()) return;
  planned_bytes -= planned[index];
  planned.erase(planned.begin() + static_cast<ptrdiff_t>(index));
}

// With the lock held. Cuts the chunks of a window that is waited for into parts for all threads.
void WindowLoader::State::split(const WindowSpec& spec) {
  auto chunks = chunks_of(spec, sampler->volume(spec.volume).info());
  const size_t parts = std::clamp<size_t>(chunks.size() / kLeastChunksOfPart, 1, thread_count + 1);
  for (size_t p = 0; p < parts; ++p) {
    Part& part = urgent.emplace_back(Part{spec.volume, {}});
    for (size_t i = chunks.size() * p / parts; i < chunks.size() * (p + 1) / parts; ++i)
      part.chunks.push_back(std::move(chunks[i]));
  }
  work_changed.notify_all();
}

void WindowLoader::State::read_urgent(std::unique_lock<std::mutex>& lock) {
  while (!urgent.empty() && !stop) {
    const Part part = std::move(urgent.front());
    urgent.pop_front();
    lock.unlock();
    cache.load(sampler->volume(part.volume), part.volume, part.chunks, limits);
    lock.lock();
  }
}

// A prefetch thread: what somebody waits for comes first; then chunks of windows that come later,
// since that takes longest; otherwise the next window of the future is assembled whenever there is
// room for it.
void WindowLoader::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    work_changed.wait(lock,
                      [&] { return stop || !urgent.empty() || can_fetch() || can_assemble(); });
    if (stop) return;
    if (!urgent.empty()) {
      read_urgent(lock);
    } else if (can_fetch()) {
      fetch(lock);
    } else {
      assemble(lock);
    }
  }
}

// The chunks of the next windows that nobody has planned yet, as one plan per volume. The first
// plan is one window, which all threads read together; each further one is at most as large
// as all that are under way, so that plans grow quickly to their full size. The windows that are
// planned and not begun touch at most half of what the cache can hold, so that what one thread
// fetches does not drive out what another one has fetched and nobody has used.
void WindowLoader::State::fetch(std::unique_lock<std::mutex>& lock) {
  const uint64_t most =
      std::max<uint64_t>(1, std::min(planned_bytes, ahead_limit() / 2 / thread_count));
  std::map<int32_t, std::vector<std::vector<int64_t>>> wanted;
  for (uint64_t batch = 0; planned.size() < future.size();) {
    const WindowSpec spec = sampler->locate(future[planned.size()]);
    const VolumeInfo& info = sampler->volume(spec.volume).info();
    auto chunks = chunks_of(spec, info);
    uint64_t cost = chunks.size() * sizeof(float);
    for (const int64_t n : info.chunk_shape) cost *= static_cast<uint64_t>(n);
    if (batch > 0 && (batch + cost > most || planned_bytes + cost > ahead_limit())) break;
    batch += cost;
    planned.push_back(cost);
    planned_bytes += cost;
    if (planned.size() == 1) {
      split(spec);
      return read_urgent(lock);
    }
    std::ranges::move(chunks, std::back_inserter(wanted[spec.volume]));
  }
  lock.unlock();
  for (const auto& [number, chunks] : wanted)
    cache.load(sampler->volume(number), number, chunks, limits);
  lock.lock();
}

void WindowLoader::State::assemble(std::unique_lock<std::mutex>& lock) {
  const int64_t number = future.front();
  forget_future(0);
  if (!slots.try_emplace(number).second) return;
  std::unique_ptr<float[]> buffer = take_buffer();
  size_t elements = 0;
  lock.unlock();
  std::exception_ptr error;
  try {
    const WindowSpec spec = sampler->locate(number);
    elements = static_cast<size_t>(spec.elements());
    make(spec, {buffer.get(), elements});
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  Slot& slot = slots.at(number);
  slot.buffer = std::move(buffer);
  slot.elements = elements;
  slot.error = error;
  slot.stage = Slot::Stage::kReady;
  if (!slot.wanted) drop(number);
  ready_changed.notify_all();
}

void WindowLoader::State::late(Clock::time_point since) {
  ++windows_late;
  seconds_waited += std::chrono::duration<double>(Clock::now() - since).count();
}

void WindowLoader::State::take(int64_t number, std::span<float> out) {
  const auto since = Clock::now();
  std::unique_lock lock(mutex);
  auto found = slots.find(number);
  bool waited = false;
  while (found != slots.end() && found->second.stage != Slot::Stage::kReady) {
    found->second.wanted = true;
    ready_changed.wait(lock);
    found = slots.find(number);
    waited = true;
  }
  if (found == slots.end()) {
    const auto queued = std::find(future.begin(), future.end(), number);
    if (queued != future.end()) forget_future(static_cast<size_t>(queued - future.begin()));
    const WindowSpec spec = sampler->locate(number);
    split(spec);
    read_urgent(lock);
    lock.unlock();
    make(spec, out);
    lock.lock();
    late(since);
    return;
  }
  Slot& slot = found->second;
  if (slot.error) {
    const std::exception_ptr error = slot.error;
    drop(number);
    std::rethrow_exception(error);
  }
  if (waited) {
    late(since);
  } else {
    ++windows_ready;
  }
  CRATON_CHECK(out.size() == slot.elements);
  slot.stage = Slot::Stage::kTaking;  // its room stays taken until it is copied
  lock.unlock();
  std::memcpy(out.data(), slot.buffer.get(), out.size_bytes());
  lock.lock();
  drop(number);
  ready_changed.notify_all();
}

WindowLoader::WindowLoader(std::shared_ptr<const WindowSampler> sampler, LoaderSettings settings) {
  if (settings.threads > 256)
    fail(ErrorCode::kInvalidArgument, "{} loader threads; expected at most 256", settings.threads);
  state_ = std::make_unique<State>(std::move(sampler), settings);
  for (size_t n = 0; n < settings.threads; ++n) {
    state_->threads.emplace_back([state = state_.get()] { state->work(); });
  }
}

WindowLoader::~WindowLoader() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->work_changed.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

const WindowSampler& WindowLoader::sampler() const { return *state_->sampler; }

void WindowLoader::expect(const std::vector<int64_t>& sample_numbers) {
  const std::unordered_set<int64_t> wanted(sample_numbers.begin(), sample_numbers.end());
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  std::vector<int64_t> gone;
  for (auto& [number, slot] : s.slots) {
    if (slot.stage == Slot::Stage::kTaking) continue;
    slot.wanted = wanted.contains(number);
    if (!slot.wanted && slot.stage == Slot::Stage::kReady) gone.push_back(number);
  }
  for (const int64_t number : gone) s.drop(number);
  s.future.clear();
  s.urgent.clear();  // whoever waits reads what is left himself
  s.planned.clear();
  s.planned_bytes = 0;
  for (const int64_t number : sample_numbers) {
    CRATON_CHECK(number >= 0);
    if (!s.slots.contains(number)) s.future.push_back(number);
  }
  s.work_changed.notify_all();
}

void WindowLoader::take(int64_t sample_number, std::span<float> out) {
  CRATON_CHECK(sample_number >= 0);
  state_->take(sample_number, out);
}

void WindowLoader::take_validation(int64_t index, std::span<float> out) {
  assemble(sampler().locate_validation(index), out);
}

void WindowLoader::assemble(const WindowSpec& spec, std::span<float> out) {
  const auto since = Clock::now();
  state_->make(spec, out);
  const std::lock_guard lock(state_->mutex);
  state_->late(since);
}

LoaderMetrics WindowLoader::metrics() const {
  const std::lock_guard lock(state_->mutex);
  LoaderMetrics m;
  m.seconds_waited = state_->seconds_waited;
  m.windows_ready = state_->windows_ready;
  m.windows_late = state_->windows_late;
  for (const auto& [number, slot] : state_->slots)
    m.windows_finished += slot.stage == Slot::Stage::kReady;
  m.chunks_fetched = state_->cache.fetched();
  m.chunk_hits = state_->cache.hits();
  m.seconds_without_room = state_->cache.seconds_without_room();
  m.bytes_held = state_->bytes.held();
  m.peak_bytes = state_->bytes.peak();
  return m;
}

}  // namespace craton::volume
