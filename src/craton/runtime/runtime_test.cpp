#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/runtime/running_program.h"
#include "craton/runtime/thread_pool.h"

namespace craton::runtime {
namespace {
namespace fs = std::filesystem;

TEST(File, AtomicWriteReplacesAndLeavesNothingBeside) {
  TemporaryDirectory folder;
  write_file_atomically(folder.path() / "a", "one");
  write_file_atomically(folder.path() / "a", "two");
  EXPECT_EQ(read_text(folder.path() / "a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(File, ErrorsNameThePath) {
  try {
    read_file("/nonexistent/file");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(e.what()).find("/nonexistent/file"), std::string::npos);
  }
}

TEST(File, StagedDirectoryVanishesUnlessCommitted) {
  TemporaryDirectory folder;
  const fs::path target = folder.path() / "store";
  {
    StagedDirectory staged(target);
    write_file_atomically(staged.staging() / "x", "1");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  {
    StagedDirectory staged(target);
    write_file_atomically(staged.staging() / "x", "1");
    staged.commit();
  }
  EXPECT_EQ(read_text(target / "x"), "1");
  EXPECT_THROW(StagedDirectory{target}, Error);
  StagedDirectory again(target, true);
  write_file_atomically(again.staging() / "x", "2");
  again.commit();
  EXPECT_EQ(read_text(target / "x"), "2");
}

TEST(RunningProgram, GivesWhatItWroteAndHowItEnded) {
  RunningProgram program({"sh", "-c", "echo out; echo err >&2; exit 3"});
  const auto result = program.wait(std::chrono::minutes(1));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\n");
  EXPECT_EQ(result->errors, "err\n");
}

TEST(RunningProgram, IsWaitedForAndKilled) {
  RunningProgram program({"sleep", "1000"});
  EXPECT_FALSE(program.wait(std::chrono::milliseconds(0)).has_value());
  program.signal(SIGKILL);
  const auto result = program.wait(std::chrono::minutes(1));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->exit_code, 128 + SIGKILL);
}

TEST(RunningProgram, KnowsItsChildren) {
  const RunningProgram program({"sh", "-c", "sleep 1000 & wait"});
  while (program.children().empty()) std::this_thread::yield();
  const pid_t child = program.children().at(0);
  EXPECT_NE(child, program.pid());
  ::kill(child, SIGKILL);
}

TEST(ThreadPool, CarriesErrorsThroughTheFuture) {
  ThreadPool pool(2);
  auto good = pool.submit([] {});
  auto bad = pool.submit([] { fail(ErrorCode::kIo, "broken"); });
  good.get();
  EXPECT_THROW(bad.get(), Error);
}

TEST(ThreadPool, ParallelForVisitsEachIndexOnce) {
  std::vector<std::atomic<int>> seen(1000);
  parallel_for(seen.size(), 4, [&](size_t i) { ++seen[i]; });
  for (auto& count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace craton::runtime
