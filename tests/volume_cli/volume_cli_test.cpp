// The command line as a user meets it: one clear line and a non-zero exit for what cannot be, and
// nothing half-written, whatever ends it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "craton/base/philox.h"
#include "craton/runtime/file.h"
#include "craton/runtime/process.h"
#include "craton/volume/segy/fixture.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string program() {
  const char* folder = std::getenv("CRATON_TEST_BIN");
  return (folder != nullptr ? fs::path(folder) : fs::current_path() / "bin") / "craton";
}

class VolumeCli : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program())) GTEST_SKIP() << program() << " is not built";
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  runtime::ProgramResult craton(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program());
    return runtime::run_program(arguments);
  }

  /// Refused: exit code 1, one line that holds `message`, and no output.
  void expect_refused(const std::vector<std::string>& arguments, const std::string& message) const {
    const auto result = craton(arguments);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, HasSubstr(message));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      EXPECT_EQ(entry.path().string().find("out"), std::string::npos) << entry.path();
    }
  }

  std::string write(const std::string& name, const std::vector<std::byte>& bytes) const {
    runtime::write_file_atomically(path(name), bytes);
    return path(name);
  }

  runtime::TemporaryDirectory folder_;
};

Fixture small_survey() {
  Fixture file;
  file.samples = 20;
  file.add_grid(6, 5);
  return file;
}

TEST_F(VolumeCli, FilesThatAreNoneAreRefusedInOneLine) {
  runtime::write_file_atomically(
      path("notes.txt"), std::string_view("these are notes about a survey, and no survey\n"));
  expect_refused({"volume", "ingest", path("notes.txt"), path("out.mdio")},
                 "looks like a text file");
  expect_refused({"volume", "ingest", path("absent.sgy"), path("out.mdio")}, "No such file");
  auto cut = small_survey().bytes();
  cut.resize(cut.size() - 50);
  expect_refused({"volume", "ingest", write("cut.sgy", cut), path("out.mdio")}, "--lenient");
  Fixture su = small_survey();
  std::vector<std::byte> traces;
  for (const auto& trace : su.traces) traces.insert(traces.end(), trace.begin(), trace.end());
  expect_refused({"volume", "ingest", write("traces.su", traces), path("out.mdio")}, "--su");
  std::vector<std::byte> noise(9000);
  for (size_t i = 0; i < noise.size(); ++i) {
    noise[i] = static_cast<std::byte>(Philox(1, RandomPurpose::kTest).bits(i) | 0x80);
  }
  expect_refused({"volume", "ingest", write("noise.sgy", noise), path("out.mdio")},
                 "not a SEG-Y file");
  expect_refused({"volume", "info", path("absent.mdio")}, "absent.mdio");
}

TEST_F(VolumeCli, IngestInfoExport) {
  const auto bytes = small_survey().bytes();
  const auto in = write("in.sgy", bytes);
  const auto ingest = craton({"volume", "ingest", in, path("v.mdio"), "--chunks", "4,4,16"});
  ASSERT_EQ(ingest.exit_code, 0) << ingest.errors;
  EXPECT_THAT(ingest.output, HasSubstr("inline     1..6 step 1 (6)"));
  EXPECT_THAT(ingest.errors, HasSubstr("100 %"));
  const auto info = craton({"volume", "info", path("v.mdio")});
  EXPECT_EQ(info.exit_code, 0);
  EXPECT_THAT(info.output, HasSubstr("4 x 4 x 16"));
  EXPECT_THAT(craton({"volume", "info", path("v.mdio"), "--json"}).output,
              HasSubstr("\"live_traces\": 30"));
  const auto file_info = craton({"volume", "info", in});
  EXPECT_THAT(file_info.output, HasSubstr("1 (IBM float, 4 bytes)"));
  EXPECT_THAT(file_info.output, HasSubstr("189    inline"));
  EXPECT_THAT(craton({"volume", "info", in, "--json"}).output, HasSubstr("\"candidates\""));
  const auto back = craton({"volume", "export", path("v.mdio"), path("back.sgy"), "--quiet"});
  ASSERT_EQ(back.exit_code, 0) << back.errors;
  EXPECT_EQ(runtime::read_file(path("back.sgy")), bytes);
  EXPECT_THAT(craton({"volume", "ingest", in, path("v.mdio")}).errors, HasSubstr("already exists"));
  EXPECT_EQ(craton({"volume", "ingest", in, path("v.mdio"), "--replace", "--quiet"}).exit_code, 0);
}

TEST_F(VolumeCli, StoresOfEveryKind) {
  const auto bytes = small_survey().bytes();
  const auto in = write("in.sgy", bytes);
  struct Case {
    std::vector<std::string> options;
    std::string shown;
    bool lossless = true;
  };
  const Case cases[] = {
      {{"--zarr", "2"}, "MDIO v1 (Zarr v2)"},
      {{"--chunks", "2,4,16", "--shards", "4,8,32"}, "4 x 8 x 32"},
      {{"--codec", "lz4"}, "blosc lz4"},
      {{"--codec", "none"}, "none"},
      {{"--tolerance", "0.25"}, "zfp", false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.shown);
    std::vector<std::string> arguments = {"volume",       "ingest",    in,
                                          path("k.mdio"), "--replace", "--quiet"};
    arguments.insert(arguments.end(), c.options.begin(), c.options.end());
    const auto ingest = craton(arguments);
    ASSERT_EQ(ingest.exit_code, 0) << ingest.errors;
    EXPECT_THAT(craton({"volume", "info", path("k.mdio")}).output, HasSubstr(c.shown));
    if (!c.lossless) continue;
    ASSERT_EQ(craton({"volume", "export", path("k.mdio"), path("k.sgy"), "--replace", "--quiet"})
                  .exit_code,
              0);
    EXPECT_EQ(runtime::read_file(path("k.sgy")), bytes);
  }
  expect_refused({"volume", "ingest", in, path("out.mdio"), "--zarr", "2", "--chunks", "2,4,16",
                  "--shards", "4,8,32", "--quiet"},
                 "shards need Zarr format 3");
}

/// Runs ingest until it has read the headers, then sends the signal. Returns the wait status.
int interrupt_ingest(const std::string& file, const std::string& store, int signal) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const std::string name = program();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(name.c_str(), name.c_str(), "volume", "ingest", file.c_str(), store.c_str(),
            "--threads", "1", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string errors;
  char c = 0;
  while (errors.find('\n') == std::string::npos && ::read(ends[0], &c, 1) == 1)
    errors += c;  // "ingest headers 100 % ..."
  ::kill(child, signal);
  while (::read(ends[0], &c, 1) == 1) errors += c;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(VolumeCli, KilledOrInterruptedItLeavesNothingThatLooksFinished) {
  Fixture file;
  file.samples = 400;
  file.add_grid(64, 64);
  const std::string in = write("in.sgy", file.bytes());
  const std::string store = path("v.mdio");
  for (int signal : {SIGKILL, SIGINT, SIGTERM}) {
    const int status = interrupt_ingest(in, store, signal);
    if (fs::exists(store)) {  // it was faster than the signal: then it must be whole
      EXPECT_EQ(open_volume(store)->info().shape(), (std::vector<int64_t>{64, 64, 400}));
      fs::remove_all(store);
      continue;
    }
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_NE(error_of([&] { open_volume(store); }), "");
  }
  // Interrupted in order, it takes its scraps along; killed, it cannot, and the next run is not
  // disturbed by them.
  ASSERT_EQ(craton({"volume", "ingest", in, store, "--quiet"}).exit_code, 0);
  float value = 0;
  open_volume(store)->read(std::vector<int64_t>{63, 63, 399}, std::vector<int64_t>{1, 1, 1},
                           std::span(&value, 1));
  EXPECT_EQ(value, Fixture::value(64, 73, 399));
}

}  // namespace
}  // namespace craton::volume::segy
