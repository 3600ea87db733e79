#include "replacement_rows.h"

#include "bench_job.h"
#include "stream_rows.h"
#include "tests/servers/delay_proxy.h"

namespace craton::bench {

namespace {

constexpr int kWorkers = 2;

/// As worker `number` of the job says in its log.
double seconds_to_first_batch(const BenchJob& job, int number) {
  const std::string log =
      runtime::read_text(job.run_folder() / fmt::format("worker-{}.log", number));
  const std::string words = "the first batch took ";
  const size_t at = log.find(words);
  if (at == log.npos)
    fail(ErrorCode::kInternal, "no time of a first batch in the log of worker {}", number);
  return std::stod(log.substr(at + words.size()));
}

}  // namespace

void add_replacement_rows(Table& table, const Nginx& nginx, int rounds) {
  make_volumes(nginx.root());
  const tests::DelayProxy far(nginx.port(), std::chrono::milliseconds(10));
  const BenchFolder folder;
  std::vector<double> cold, warm;
  for (int r = 0; r < rounds; ++r) {
    const runtime::TemporaryDirectory cache;
    BenchJob job(folder, fmt::format("replaced-{}", r),
                 {"train.steps=100000", "data.volumes.0.uri=" + far.url() + "/plain",
                  "parallel.strategy=ddp", "parallel.backups=0"},
                 kWorkers, {"CRATON_LOG=debug", "CRATON_CACHE_DIR=" + cache.path().string()});
    job.await_step(2);
    for (int number = 0; number < kWorkers; ++number)
      cold.push_back(seconds_to_first_batch(job, number));
    job.kill_worker(0);
    job.await_admission(kWorkers);
    warm.push_back(seconds_to_first_batch(job, kWorkers));
    job.kill_all();
  }
  table.add_ratio("first batch of a replacement, whole worker, against those that began", "s",
                  Better::kLower, median(warm), median(cold), 5);
}

}  // namespace craton::bench
