// Ingest of SEG-Y against what it is made of: copying the file and the codec alone; against segyio
// + zarr in Python; and the memory of a large file. Reading the store back against the codec alone.
// The volume is smooth with noise, like amplitudes.

#include <blosc.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "bench_table.h"
#include "craton/base/philox.h"
#include "craton/base/units.h"
#include "craton/runtime/file.h"
#include "craton/runtime/thread_pool.h"
#include "craton/volume/segy/ingest.h"
#include "store_read.h"

namespace {

namespace fs = std::filesystem;
using namespace craton;
using volume::segy::ByteOrder;
using Clock = std::chrono::steady_clock;

constexpr int64_t kSamples = 1500, kChunk = 64;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("cannot ") + what);
}

/// One trace of smooth layers and noise; a function of its place.
void fill_trace(int64_t il, int64_t xl, std::span<float> out) {
  const Philox noise(7, RandomPurpose::kTest, static_cast<uint64_t>(il), static_cast<uint32_t>(xl));
  const double dip = 0.02 * static_cast<double>(il) + 0.013 * static_cast<double>(xl);
  for (size_t s = 0; s < out.size(); ++s) {
    const double t = static_cast<double>(s);
    const double layers = std::sin(0.21 * t + dip) + 0.6 * std::sin(0.083 * t - 1.7 * dip) +
                          0.3 * std::sin(0.37 * t + 0.4 * dip);
    out[s] = static_cast<float>(1000 * layers + 60 * (static_cast<double>(noise.uniform(s)) - 0.5));
  }
}

std::vector<std::byte> file_header(int64_t samples, int format) {
  std::vector<std::byte> head =
      volume::segy::encode_text(std::vector<std::string>{"C 1 MADE FOR A BENCHMARK OF INGEST"});
  head.resize(volume::segy::kFileHeaderBytes);
  const auto set = [&](int byte, int value) {
    volume::segy::store<uint16_t>(head.data() + byte - 1, static_cast<uint16_t>(value),
                                  ByteOrder::kBig);
  };
  set(3217, 4000);
  set(3221, static_cast<int>(samples));
  set(3225, format);
  set(3501, 0x0100);
  set(3503, 1);
  return head;
}

void set_numbers(std::byte* header, int64_t il, int64_t xl, int64_t samples) {
  using volume::segy::store;
  store<int32_t>(header + 188, static_cast<int32_t>(il), ByteOrder::kBig);
  store<int32_t>(header + 192, static_cast<int32_t>(xl), ByteOrder::kBig);
  store<int32_t>(header + 180, static_cast<int32_t>(500000 + 25 * il), ByteOrder::kBig);
  store<int32_t>(header + 184, static_cast<int32_t>(6000000 + 25 * xl), ByteOrder::kBig);
  store<int16_t>(header + 28, 1, ByteOrder::kBig);
  store<uint16_t>(header + 114, static_cast<uint16_t>(samples), ByteOrder::kBig);
}

/// `inlines` x 256 traces of IBM floats.
void make_file(const fs::path& path, int64_t inlines, int64_t crosslines, size_t threads) {
  const runtime::FileDescriptor fd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  check(fd.valid(), "create the file to ingest");
  runtime::write_exactly(fd.get(), file_header(kSamples, volume::segy::kIbmFloat), 0,
                         path.string());
  const auto trace_bytes = static_cast<size_t>(240 + 4 * kSamples);
  runtime::parallel_for(static_cast<size_t>(inlines), threads, [&](size_t il) {
    std::vector<std::byte> line(trace_bytes * static_cast<size_t>(crosslines));
    std::vector<float> samples(kSamples);
    for (int64_t xl = 0; xl < crosslines; ++xl) {
      std::byte* trace = line.data() + trace_bytes * static_cast<size_t>(xl);
      set_numbers(trace, static_cast<int64_t>(il) + 1, xl + 1, kSamples);
      fill_trace(static_cast<int64_t>(il), xl, samples);
      volume::segy::encode_samples(volume::segy::kIbmFloat, ByteOrder::kBig, samples, trace + 240);
    }
    runtime::write_exactly(fd.get(), line, 3600 + il * line.size(), path.string());
  });
}

/// Each measurement begins with nothing to be written, and leaves what it made until the end: a
/// file system that looks for inodes passes over those that were freed a moment ago, one by one.
void settle_disk() { ::sync(); }

double time_copy(const fs::path& from, const fs::path& to) {
  settle_disk();
  const auto start = Clock::now();
  check(std::system(("cp '" + from.string() + "' '" + to.string() + "'").c_str()) == 0,
        "copy the file");
  return seconds_since(start);
}

/// The codec alone: the chunks of the same samples, as ingest makes them, compressed from memory
/// into a buffer.
double time_blosc(int64_t inlines, int64_t crosslines, size_t threads) {
  // One inline of chunks stands for all: the layers look alike everywhere.
  const auto chunk_floats = static_cast<size_t>(kChunk * kChunk * kChunk);
  const int64_t columns = crosslines / kChunk, layers = (kSamples + kChunk - 1) / kChunk;
  std::vector<std::vector<float>> chunks(static_cast<size_t>(columns * layers),
                                         std::vector<float>(chunk_floats));
  runtime::parallel_for(static_cast<size_t>(columns), threads, [&](size_t column) {
    std::vector<float> trace(static_cast<size_t>(layers * kChunk));
    for (int64_t i = 0; i < kChunk; ++i) {
      for (int64_t x = 0; x < kChunk; ++x) {
        std::fill(trace.begin(), trace.end(), 0.0f);
        fill_trace(i, static_cast<int64_t>(column) * kChunk + x, std::span(trace).first(kSamples));
        for (int64_t k = 0; k < layers; ++k) {
          std::copy_n(trace.data() + k * kChunk, kChunk,
                      chunks[static_cast<size_t>(column) * static_cast<size_t>(layers) +
                             static_cast<size_t>(k)]
                              .data() +
                          (i * kChunk + x) * kChunk);
        }
      }
    }
  });
  const int64_t rounds = (inlines + kChunk - 1) / kChunk;
  const auto start = Clock::now();
  runtime::parallel_for(static_cast<size_t>(rounds) * chunks.size(), threads, [&](size_t i) {
    const std::vector<float>& chunk = chunks[i % chunks.size()];
    std::vector<std::byte> out(4 * chunk_floats + BLOSC_MAX_OVERHEAD);
    check(blosc_compress_ctx(3, 1, 4, 4 * chunk_floats, chunk.data(), out.data(), out.size(),
                             "zstd", 0, 1) > 0,
          "compress");
  });
  return seconds_since(start);
}

double time_ingest(const fs::path& file, const fs::path& store, size_t threads, bool headers) {
  volume::segy::IngestOptions options;
  options.threads = threads;
  options.keep_headers = headers;
  const std::vector<fs::path> files = {file};
  settle_disk();
  const auto start = Clock::now();
  volume::segy::ingest(files, store.string(), options);
  return seconds_since(start);
}

/// Seconds that the peer reports; negative when it cannot run.
double time_peer(const fs::path& file, const fs::path& store, size_t threads) {
  const std::string command =
      fmt::format("/usr/bin/python3 '{}/bench/peers/ingest_segyio_zarr.py' '{}' '{}' {}",
                  CRATON_SOURCE_DIR, file.string(), store.string(), threads);
  settle_disk();
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  double seconds = -1;
  if (std::fscanf(pipe, "%lf", &seconds) != 1) seconds = -1;
  const int status = ::pclose(pipe);
  return status == 0 ? seconds : -1;
}

/// A file of `bytes` whose samples are holes on the disk. Long traces, so that the headers alone
/// take little.
void make_sparse_file(const fs::path& path, uint64_t bytes) {
  constexpr int64_t kLong = 25000, kCrosslines = 320;
  constexpr uint64_t kTrace = 240 + 4 * kLong;
  const auto inlines = static_cast<int64_t>(bytes / (kTrace * kCrosslines));
  const runtime::FileDescriptor fd(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  check(fd.valid(), "create the sparse file");
  runtime::write_exactly(fd.get(), file_header(kLong, volume::segy::kIbmFloat), 0, path.string());
  std::vector<std::byte> header(240);
  for (int64_t i = 0; i < inlines * kCrosslines; ++i) {
    set_numbers(header.data(), i / kCrosslines + 1, i % kCrosslines + 1, kLong);
    runtime::write_exactly(fd.get(), header, 3600 + static_cast<uint64_t>(i) * kTrace,
                           path.string());
  }
  check(::ftruncate(
            fd.get(),
            static_cast<off_t>(3600 + static_cast<uint64_t>(inlines * kCrosslines) * kTrace)) == 0,
        "size the file");
}

/// Peak resident bytes of a child process that ingests the file.
double peak_of_ingest(const fs::path& file, const fs::path& store, size_t threads) {
  const pid_t child = ::fork();
  check(child >= 0, "start a process");
  if (child == 0) {
    int code = 1;
    try {
      time_ingest(file, store, threads, true);
      code = 0;
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench_ingest: %s\n", e.what());
    }
    ::_exit(code);
  }
  int status = 0;
  rusage usage{};
  check(::wait4(child, &status, 0, &usage) == child && status == 0, "ingest the large file");
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Ingest of SEG-Y: rate against copy plus codec and against segyio + zarr; peak memory.");
  std::string json, size = "1GB", sparse = "10GB", folder = fs::temp_directory_path().string();
  size_t threads = runtime::available_cores();
  app.add_option("--json", json, "Write the rows to this file");
  app.add_option("--size", size, "Size of the file to ingest");
  app.add_option("--sparse", sparse,
                 "Apparent size of the file for the memory row; 0 leaves it out");
  app.add_option("--threads", threads, "Threads on both sides");
  app.add_option("--folder", folder, "Scratch folder; needs some twelve times the size");
  CLI11_PARSE(app, argc, argv);

  const fs::path scratch = fs::path(folder) / ("bench-ingest-" + std::to_string(::getpid()));
  fs::create_directories(scratch);
  bench::Table table(fmt::format("ingest, {} threads", threads));
  try {
    // The child for the memory row first: its peak must not inherit ours.
    if (const uint64_t bytes = parse_bytes(sparse); bytes > 0) {
      make_sparse_file(scratch / "sparse.sgy", bytes);
      const double peak = peak_of_ingest(scratch / "sparse.sgy", scratch / "sparse.mdio", threads);
      table.add_absolute("peak memory, sparse " + sparse + " file", "MiB", bench::Better::kLower,
                         peak / 1048576, 1024);
      fs::remove(scratch / "sparse.sgy");
      fs::remove_all(scratch / "sparse.mdio");
    }
    constexpr int64_t kCrosslines = 256;
    const auto inlines = std::max<int64_t>(
        1, static_cast<int64_t>(parse_bytes(size) / ((240 + 4 * kSamples) * kCrosslines)));
    const fs::path file = scratch / "dense.sgy";
    make_file(file, inlines, kCrosslines, threads);
    const double megabytes = static_cast<double>(fs::file_size(file)) / 1e6;
    time_copy(file, scratch / "copy.sgy");  // once for the page cache
    std::vector<double> copy_and_codec, ours, plain, peer;
    bool peer_runs = true;
    for (int round = 0; round < 3; ++round) {
      const auto out = [&](const char* name) {
        return scratch / fmt::format("{}-{}", name, round);
      };
      copy_and_codec.push_back(time_copy(file, out("copy")) +
                               time_blosc(inlines, kCrosslines, threads));
      ours.push_back(time_ingest(file, out("dense"), threads, true));
      plain.push_back(time_ingest(file, out("plain"), threads, false));
      if (!peer_runs) continue;
      const double seconds = time_peer(file, out("peer"), threads);
      peer_runs = seconds > 0;
      if (peer_runs) peer.push_back(seconds);
    }
    table.add_ratio("ingest of " + size + " IBM, with headers; cp + blosc", "MB/s",
                    bench::Better::kHigher, megabytes / bench::median(ours),
                    megabytes / bench::median(copy_and_codec), 0.7);
    if (peer_runs) {
      table.add_ratio("the same, samples and grid only; segyio + zarr", "MB/s",
                      bench::Better::kHigher, megabytes / bench::median(plain),
                      megabytes / bench::median(peer), 1.3);
    } else {
      fmt::print("skipped: segyio + zarr are not here (tools/install-dependencies --peers)\n");
    }
    bench::add_store_read_rows(table, scratch, threads);
  } catch (const std::exception& e) {
    fs::remove_all(scratch);
    std::fprintf(stderr, "bench_ingest: %s\n", e.what());
    return 1;
  }
  fs::remove_all(scratch);
  table.print();
  table.write_json(json);
  return 0;
}
