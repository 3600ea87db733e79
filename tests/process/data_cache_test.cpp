// Training through the node's cache: the same bits in each form, with workers killed while they
// write into it, and with whatever is found in its folder.

#include <signal.h>

#include <filesystem>

#include "craton/base/error.h"
#include "craton/runtime/socket.h"
#include "tests/tiny_job.h"

namespace craton::tests {
namespace {

namespace fs = std::filesystem;

class DataCache : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    job_ = new TinyJob;
    quiet_ = job_->digest("quiet", 2, {});
  }
  static void TearDownTestSuite() { delete job_; }

  /// Entries of a cache folder, without unfinished ones.
  static std::vector<fs::path> entries(const std::string& name) {
    std::vector<fs::path> out;
    for (const auto& entry :
         fs::recursive_directory_iterator(job_->program().folder() / name / "v1"))
      if (entry.is_regular_file() &&
          entry.path().filename().string().find(".tmp-") == std::string::npos)
        out.push_back(entry.path());
    return out;
  }

  static inline TinyJob* job_ = nullptr;
  static inline std::string quiet_;
};

TEST_F(DataCache, EachFormEndsWithTheSameBitsColdAndWarm) {
  for (const std::string form : {"stored", "decoded", "lz4"}) {
    const std::vector<std::string> keys = {"data.cache.path=cache-" + form,
                                           "data.cache.format=" + form};
    EXPECT_EQ(job_->digest("cold-" + form, 2, keys), quiet_);
    const size_t found = entries("cache-" + form).size();
    EXPECT_GT(found, 2u);
    EXPECT_EQ(job_->digest("warm-" + form, 2, keys), quiet_);
    EXPECT_EQ(entries("cache-" + form).size(), found);
  }
}

TEST_F(DataCache, WorkersKilledWhileTheyWriteLeaveACacheThatWorks) {
  for (const std::string fault :
       {"cache.write:rank=1:kill", "cache.publish:rank=1:kill", "cache.full:rank=0:full"}) {
    const std::string cache = "cache-" + fault.substr(6, fault.find(':') - 6);
    const std::vector<std::string> keys = {"data.cache.path=" + cache, "parallel.strategy=zero1",
                                           "parallel.backups=1"};
    EXPECT_EQ(job_->digest("faulty-" + cache, 2, keys, {"CRATON_FAULTS=" + fault}), quiet_);
    EXPECT_EQ(job_->digest("after-" + cache, 2, keys), quiet_);
  }
}

TEST_F(DataCache, DamagedEntriesAreReadAnew) {
  const std::vector<std::string> keys = {"data.cache.path=cache-damaged"};
  EXPECT_EQ(job_->digest("before", 2, keys), quiet_);
  size_t n = 0;
  for (const fs::path& path : entries("cache-damaged")) {
    std::vector<std::byte> bytes = runtime::read_file(path);
    bytes[(n * 7919 + 100) % bytes.size()] ^= std::byte{1};
    if (n++ % 3 == 0) bytes.resize(bytes.size() / 2);
    runtime::write_file_atomically(path, bytes);
  }
  EXPECT_EQ(job_->digest("after", 2, keys), quiet_);
}

/// `craton cache serve` of a folder beside the job.
class CacheServe {
 public:
  CacheServe(const CratonProgram& program, const std::string& folder) {
    { runtime::FileDescriptor taken = runtime::listen_tcp("127.0.0.1", port_); }
    program_ = program.start(
        {"cache", "serve", "--folder", folder, "--listen", "127.0.0.1:" + std::to_string(port_)});
    while (runtime::run_program({"curl", "-sf", "-o", "/dev/null", url() + "/v1/id"}).exit_code !=
           0)
      if (program_->wait(std::chrono::milliseconds(50))) fail(ErrorCode::kIo, "no cache server");
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void kill() {
    program_->signal(SIGKILL);
    program_->wait(std::chrono::minutes(1));
  }

 private:
  uint16_t port_ = 0;
  std::unique_ptr<runtime::RunningProgram> program_;
};

TEST_F(DataCache, WhatANodeHasFetchedOthersTrainFromAlsoWhenItIsGone) {
  CacheServe one(job_->program(), "node-one"), two(job_->program(), "node-two");
  const auto keys = [&](const std::string& cache) {
    return std::vector<std::string>{"data.cache.path=" + cache, "data.cache.mode=persistent",
                                    fmt::format("data.cache.peers=[{}, {}]", one.url(), two.url())};
  };
  EXPECT_EQ(job_->digest("one", 2, keys("node-one")), quiet_);
  EXPECT_GT(entries("node-two").size(), 0u);
  one.kill();
  EXPECT_EQ(job_->digest("three", 2, keys("node-three")), quiet_);
  two.kill();
  EXPECT_EQ(job_->digest("four", 2, keys("node-four")), quiet_);
}

TEST_F(DataCache, AFolderThatCannotBeUsedCostsAWarning) {
  job_->program().write("file", "no folder");
  const auto result = job_->train("unusable", 2, {"data.cache.path=file/below"});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(state_digest(result.output), quiet_);
  EXPECT_NE((result.output + result.errors).find("without a cache"), std::string::npos)
      << result.output << result.errors;
}

}  // namespace
}  // namespace craton::tests
