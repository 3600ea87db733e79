// Ingest and export that are killed, stopped or run out of disk: nothing looks finished, the same
// command goes on, and the end is the same, byte by byte, as without a disturbance.

#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>

#include "craton/volume/segy/fixture.h"
#include "tests/volume_cli/volume_cli.h"

namespace craton::volume::segy {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using Arguments = std::vector<std::string>;

constexpr int kKilled = 128 + SIGKILL;

/// IBM floats with holes, dead traces, and words that are kept beside the samples. Nine chunk
/// columns with --chunks 16,16,32.
std::vector<std::byte> survey(float first_sample = 1) {
  Fixture file;
  file.samples = 70;
  file.add_grid(40, 36);
  file.traces.erase(file.traces.begin() + 100, file.traces.begin() + 130);
  for (size_t t = 3; t < file.traces.size(); t += 97) {
    file.raw_samples(t, {0x45000001, 0x7fffffff, 0x00000001});
    if (t % 2 == 0) file.in_trace<int16_t>(t, 29, 2).raw_samples(t, std::vector<uint32_t>(70, 0));
  }
  file.raw_samples(0, {float_to_ibm(first_sample)});
  return file.bytes();
}

/// All files below a folder; the time of creation is left out.
std::map<std::string, std::string> tree(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = fs::relative(entry.path(), folder).string();
    std::string text = runtime::read_text(entry.path());
    if (name == "zarr.json" || name == ".zattrs" || name == ".zmetadata") {
      auto document = nlohmann::json::parse(text);
      for (const auto& pointer :
           {"/attributes/createdOn", "/createdOn", "/metadata/.zattrs/createdOn"}) {
        const nlohmann::json::json_pointer at(pointer);
        if (document.contains(at)) document[at] = "";
      }
      text = document.dump();
    }
    out[name] = std::move(text);
  }
  return out;
}

class Resume : public tests::VolumeCli {
 protected:
  void SetUp() override {
    VolumeCli::SetUp();
    if (IsSkipped()) return;
    in_ = write("in.sgy", survey());
    store_ = path("v.mdio");
  }

  Arguments ingest(const std::string& store, const Arguments& more = {}) const {
    Arguments all = {"volume", "ingest", in_, store, "--quiet", "--chunks", "16,16,32"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::map<std::string, std::string> undisturbed(const Arguments& more = {}) const {
    const std::string store = path("quiet.mdio");
    const auto result = craton(ingest(store, more));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    auto out = tree(store);
    fs::remove_all(store);
    return out;
  }
  void expect_no_leftovers() const {
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      EXPECT_THAT(entry.path().string(), Not(HasSubstr("partial")));
  }
  /// Kills ingest at the point, and again at the next such point, then lets it end.
  void expect_same_after_kills(const std::string& faults, const Arguments& more,
                               const std::map<std::string, std::string>& expected) const {
    EXPECT_EQ(craton(ingest(store_, more), faults).exit_code, kKilled) << faults;
    EXPECT_FALSE(fs::exists(store_)) << faults;
    EXPECT_EQ(craton({"volume", "info", store_}).exit_code, 1);
    craton(ingest(store_, more), faults);  // may have less left to do than the fault waits for
    if (!fs::exists(store_)) {
      const auto last = craton(ingest(store_, more));
      EXPECT_EQ(last.exit_code, 0) << faults << ": " << last.errors;
    }
    EXPECT_TRUE(tree(store_) == expected) << faults;
    expect_no_leftovers();
    fs::remove_all(store_);
  }

  /// Starts craton with a fault that stops it, and waits until it has stopped.
  pid_t start_until_stopped(const Arguments& arguments, const std::string& faults) const {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("CRATON_FAULTS", faults.c_str(), 1);
      std::vector<std::string> all = {tests::craton_program()};
      all.insert(all.end(), arguments.begin(), arguments.end());
      std::vector<char*> argv;
      for (std::string& a : all) argv.push_back(a.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
    EXPECT_TRUE(WIFSTOPPED(status));
    return child;
  }

  std::string in_, store_;
};

TEST_F(Resume, KilledAnywhereItEndsWithTheSameBytes) {
  for (const Arguments& more :
       {Arguments{"--threads", "1"}, Arguments{"--threads", "2", "--zarr", "2"},
        Arguments{"--threads", "2", "--shards", "32,32,64"}}) {
    const auto expected = undisturbed(more);
    for (const char* faults :
         {"volume.column:occurrence=2:kill", "volume.recorded:occurrence=3:kill",
          "object.publish:occurrence=20:kill", "volume.finish:kill", "volume.commit:kill"})
      expect_same_after_kills(faults, more, expected);
  }
  const auto expected = undisturbed();
  for (const char* faults : {"volume.chunk:kill", "volume.chunk:occurrence=7:kill",
                             "volume.column:kill", "volume.recorded:occurrence=8:kill"})
    expect_same_after_kills(faults, {}, expected);
}

TEST_F(Resume, GoesOnAndDoesNotStartAgain) {
  const auto expected = undisturbed();
  ASSERT_EQ(
      craton(ingest(store_, {"--threads", "1"}), "volume.recorded:occurrence=6:kill").exit_code,
      kKilled);
  // Only three columns are left: a seventh never comes. What was written is not written again.
  const auto first = fs::last_write_time(store_ + ".partial/amplitude/c/0/0/0");
  const auto last = craton(ingest(store_, {"--threads", "1"}), "volume.column:occurrence=4:kill");
  EXPECT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_THAT(last.errors, HasSubstr("going on from an earlier run: 6 of 9 chunk columns"));
  EXPECT_EQ(fs::last_write_time(store_ + "/amplitude/c/0/0/0"), first);
  EXPECT_TRUE(tree(store_) == expected);
}

TEST_F(Resume, KilledWhenVisibleItIsWhole) {
  const auto expected = undisturbed();
  EXPECT_EQ(craton(ingest(store_), "volume.visible:kill").exit_code, kKilled);
  EXPECT_TRUE(tree(store_) == expected);
  EXPECT_THAT(craton(ingest(store_)).errors, HasSubstr("already exists"));
  EXPECT_EQ(craton(ingest(store_, {"--replace"})).exit_code, 0);
  EXPECT_TRUE(tree(store_) == expected);
  expect_no_leftovers();
}

TEST_F(Resume, OtherFilesOrOptionsStartAnewAndSayIt) {
  const std::string kill = "volume.recorded:occurrence=4:kill";
  ASSERT_EQ(craton(ingest(store_), kill).exit_code, kKilled);
  auto result = craton(ingest(store_, {"--codec", "lz4"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("is dropped"));
  EXPECT_TRUE(tree(store_) == undisturbed({"--codec", "lz4"}));
  fs::remove_all(store_);

  ASSERT_EQ(craton(ingest(store_), kill).exit_code, kKilled);
  write("in.sgy", survey(77));  // the same size and headers, another sample
  result = craton(ingest(store_));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("is dropped"));
  EXPECT_TRUE(tree(store_) == undisturbed());
  expect_no_leftovers();
}

TEST_F(Resume, AFolderThatIsNotOursIsLeftAlone) {
  fs::create_directories(store_ + ".partial");
  runtime::write_file_atomically(store_ + ".partial/precious", std::string_view("data"));
  const auto result = craton(ingest(store_));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.errors, HasSubstr("is in the way"));
  EXPECT_EQ(runtime::read_text(store_ + ".partial/precious"), "data");
}

TEST_F(Resume, OneAtATimeAndInterruptedItGoesOn) {
  const auto expected = undisturbed();
  const pid_t child = start_until_stopped(ingest(store_), "volume.recorded:occurrence=3:stop");
  const auto second = craton(ingest(store_));
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.errors, HasSubstr("another process is at work"));
  ::kill(child, SIGINT);
  ::kill(child, SIGCONT);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  EXPECT_FALSE(fs::exists(store_));
  const auto last = craton(ingest(store_));
  EXPECT_EQ(last.exit_code, 0) << last.errors;
  EXPECT_THAT(last.errors, HasSubstr("going on from an earlier run"));
  EXPECT_TRUE(tree(store_) == expected);
  expect_no_leftovers();
}

TEST_F(Resume, WhenTheDiskIsFullItGoesOnOnceThereIsRoom) {
  const auto expected = undisturbed({"--codec", "none"});
  const std::string disk = path("small-disk");
  fs::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=512k") != 0)
    GTEST_SKIP() << "mounting a small file system needs root";
  const std::string store = disk + "/v.mdio";
  const auto full = craton(ingest(store, {"--codec", "none", "--threads", "1"}));
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.errors, HasSubstr("No space left on device; the same command goes on"));
  EXPECT_EQ(std::count(full.errors.begin(), full.errors.end(), '\n'), 1) << full.errors;
  EXPECT_FALSE(fs::exists(store));
  ::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64m");
  const auto room = craton(ingest(store, {"--codec", "none"}));
  EXPECT_EQ(room.exit_code, 0) << room.errors;
  EXPECT_THAT(room.errors, HasSubstr("going on from an earlier run"));
  EXPECT_TRUE(tree(store) == expected);
  ::umount(disk.c_str());
}

TEST_F(Resume, ExportKilledAnywhereGivesTheSameFile) {
  ASSERT_EQ(craton(ingest(store_)).exit_code, 0);
  const Arguments back = {"volume",  "export",    store_, path("back.sgy"),
                          "--quiet", "--threads", "2"};
  for (const char* faults : {"export.block:kill", "export.block:occurrence=5:kill",
                             "export.recorded:occurrence=6:kill", "export.commit:kill"}) {
    EXPECT_EQ(craton(back, faults).exit_code, kKilled);
    EXPECT_FALSE(fs::exists(path("back.sgy"))) << faults;
    const auto last = craton(back);
    EXPECT_EQ(last.exit_code, 0) << last.errors;
    EXPECT_TRUE(runtime::read_file(path("back.sgy")) == survey()) << faults;
    expect_no_leftovers();
    fs::remove(path("back.sgy"));
  }
  // Another format is another work.
  EXPECT_EQ(craton(back, "export.recorded:occurrence=6:kill").exit_code, kKilled);
  Arguments other = back;
  other.insert(other.end(), {"--format", "5"});
  const auto result = craton(other);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("is dropped"));
  const auto again = craton({"volume", "info", path("back.sgy")});
  EXPECT_THAT(again.output, HasSubstr("5 (IEEE float, 4 bytes)"));
}

}  // namespace
}  // namespace craton::volume::segy
