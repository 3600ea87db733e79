#include "raw_rows.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

#include "craton/base/philox.h"
#include "craton/store/object_store.h"
#include "raw_peers.h"

namespace craton::bench {

namespace {

using Clock = std::chrono::steady_clock;

void make_objects(const RawObjects& objects) {
  std::filesystem::create_directories(objects.folder);
  std::vector<std::byte> bytes(RawObjects::kBytes);
  const Philox random(1, RandomPurpose::kTest);
  for (size_t i = 0; i < bytes.size(); i += 16) {
    const auto block = random.block(i);
    std::memcpy(bytes.data() + i, block.data(), 16);
  }
  for (size_t i = 0; i < RawObjects::kCount; ++i)
    runtime::write_file_atomically(objects.folder / RawObjects::key(i), bytes);
}

double processor_seconds(int who) {
  rusage usage{};
  ::getrusage(who, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// That have arrived on the loopback interface since it is there.
uint64_t loopback_bytes() {
  std::ifstream devices("/proc/net/dev");
  std::string name;
  uint64_t bytes = 0;
  while (devices >> name)
    if (name == "lo:" && devices >> bytes) return bytes;
  throw std::runtime_error("no loopback interface in /proc/net/dev");
}

/// Rates and processor times of one reader, by round.
class RawFigures {
 public:
  /// One round. What did not come from the server was in a cache, and does not count; when that is
  /// more than a tenth, it is no measurement.
  void measure(const RawPeer& reader, uint64_t bytes) {
    const auto processor = [&] {
      return processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN) +
             reader.daemon_seconds();
    };
    const double before = processor();
    const uint64_t arrived = loopback_bytes();
    const auto start = Clock::now();
    reader.work();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const uint64_t moved = loopback_bytes() - arrived;
    if (moved < bytes - bytes / 10)
      throw std::runtime_error(
          fmt::format("{} had {} bytes from the server, expected {}", reader.name, moved, bytes));
    const double gigabytes = 1e-9 * static_cast<double>(std::min(moved, bytes));
    rates_.push_back(gigabytes / seconds);
    processor_.push_back((processor() - before) / gigabytes);
  }
  double rate() const { return median(rates_); }
  double processor() const { return median(processor_); }

 private:
  std::vector<double> rates_, processor_;
};

}  // namespace

void add_raw_rows(Table& table, const Nginx& nginx, int rounds, int repeats) {
  const RawObjects objects{nginx.origin(), nginx.root() / "bucket", repeats};
  make_objects(objects);
  const auto store = store::open_store(objects.origin + "/bucket");
  std::vector<store::Bytes> buffers(RawObjects::kCount);
  const RawPeer ours{.name = "craton", .work = [&] {
                       for_all_at_once([&](size_t i) {
                         for (int r = 0; r < objects.repeats; ++r) {
                           const auto got = store->get_into(RawObjects::key(i), buffers[i]);
                           if (!got || got->size() != RawObjects::kBytes)
                             throw std::runtime_error("an object is not whole");
                         }
                       });
                     }};
  const std::vector<RawPeer> peers = raw_peers(objects);
  RawFigures our_figures;
  std::vector<RawFigures> figures(peers.size());
  ours.work();  // connections, page cache, buffers
  for (int round = 0; round < rounds; ++round) {
    our_figures.measure(ours, objects.bytes_of_a_round());
    for (size_t p = 0; p < peers.size(); ++p)
      figures[p].measure(peers[p], objects.bytes_of_a_round());
  }
  for (size_t p = 0; p < peers.size(); ++p) {
    table.add_ratio("rate, against " + peers[p].name, "GB/s", Better::kHigher, our_figures.rate(),
                    figures[p].rate(), peers[p].reach);
    table.add_ratio("processor time, against " + peers[p].name, "s/GB", Better::kLower,
                    our_figures.processor(), figures[p].processor(), peers[p].reach);
  }
}

}  // namespace craton::bench
