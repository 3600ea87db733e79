#include "craton/store/lustre.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/store/file_store.h"

namespace craton::store {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A folder with a program called lfs, which writes down what it is asked, and gives a file back
/// its content from "archive", as the daemon of an archive would.
class LustreTest : public ::testing::Test {
 protected:
  LustreTest() : path_(std::getenv("PATH")) {
    fs::create_directories(folder_.path() / "bin");
    fs::create_directories(folder_.path() / "archive");
    const fs::path program = folder_.path() / "bin" / "lfs";
    runtime::write_file_atomically(
        program, fmt::format("#!/bin/sh\necho \"$@\" >> {0}/asked\n"
                             "[ $1 = hsm_restore ] || exit 0\nshift\n"
                             "for f in \"$@\"; do cp {0}/archive/$(basename $f) $f; done\n",
                             folder_.path().string()));
    fs::permissions(program, fs::perms::owner_all);
    ::setenv("PATH", ((folder_.path() / "bin").string() + ":" + path_).c_str(), 1);
    ::setenv("CRATON_LUSTRE", "yes", 1);
  }
  ~LustreTest() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("CRATON_LUSTRE");
  }
  /// Below `mount`; `released`: its content is in the archive alone.
  void make_file(const std::string& name, const std::string& content, bool released) {
    const fs::path path = mount() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(released ? folder_.path() / "archive" / path.filename() : path) << content;
    if (!released) return;
    std::ofstream(path).close();
    fs::resize_file(path, content.size());
  }
  fs::path mount() const { return folder_.path() / "mount"; }
  std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    std::ifstream file(folder_.path() / "asked");
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::string at(const std::string& name) const { return (mount() / name).string(); }

  runtime::TemporaryDirectory folder_;
  const std::string path_;
};

TEST_F(LustreTest, WhatLiesInAnArchiveIsAskedForWithThePlanThatReadsIt) {
  make_file("a/0", std::string(5000, 'x'), true);
  make_file("a/1", std::string(5000, 'y'), false);
  make_file("a/2", std::string(7000, 'z'), true);
  FileStore store(mount());
  std::vector<ObjectRead> reads;
  for (const char* key : {"a/0", "a/1", "a/2", "a/none"}) reads.push_back({.key = key});
  for (int round = 0; round < 2; ++round) {
    std::string seen;
    store.read_many(reads, {}, [&](size_t, const ObjectFound& found) {
      seen += std::to_string(found.bytes.size());
      if (!found.bytes.empty()) seen += static_cast<char>(found.bytes.back());
      seen += " ";
    });
    EXPECT_EQ(seen, "5000x 5000y 7000z 0 ");
  }
  EXPECT_THAT(asked(), ElementsAre("hsm_restore " + at("a/0") + " " + at("a/2")));
}

TEST_F(LustreTest, AWholeFolderComesBackAtOnce) {
  std::string all = "hsm_restore";
  for (int n = 10; n < 40; ++n) {
    make_file("v/c/" + std::to_string(n), std::string(3000, 'c'), n % 3 == 0);
    if (n % 3 == 0) all += " " + at("v/c/" + std::to_string(n));
  }
  const auto lustre = Lustre::of(mount(), process_environment());
  ASSERT_TRUE(lustre);
  EXPECT_EQ(lustre->restore_below(mount()), 10u);
  EXPECT_EQ(lustre->restore_below(mount()), 0u);
  EXPECT_THAT(asked(), ElementsAre(all));
}

TEST_F(LustreTest, LargeObjectsAreStripedAndSmallOnesAreNot) {
  EXPECT_EQ(stripes_for(0), 1);
  EXPECT_EQ(stripes_for(1 << 20), 1);
  EXPECT_EQ(stripes_for(128 << 20), 4);
  EXPECT_EQ(stripes_for(uint64_t{1} << 40), 8);
  FileStore store(mount());
  store.expect_objects("amplitude", 1 << 20);
  store.expect_objects("shards/c", 128 << 20);
  EXPECT_TRUE(fs::is_directory(mount() / "shards/c"));
  EXPECT_THAT(asked(), ElementsAre("setstripe -c 1 " + at("amplitude"),
                                   "setstripe -c 4 -S 4M " + at("shards/c")));
}

TEST_F(LustreTest, ElsewhereNothingIsAskedAndAFailureIsNoTrouble) {
  make_file("a", std::string(5000, 'x'), true);
  ::setenv("CRATON_LUSTRE", "no", 1);
  EXPECT_EQ(FileStore(mount()).get("a")->size(), 5000u);
  FileStore(mount()).expect_objects("b", 1);
  ::unsetenv("CRATON_LUSTRE");  // this mount says itself that it is none
  EXPECT_FALSE(Lustre::of(mount() / "not/there/yet", process_environment()));
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_FALSE(fs::exists(mount() / "b"));
  ::setenv("CRATON_LUSTRE", "yes", 1);
  fs::remove(folder_.path() / "archive" / "a");  // cp fails, and so does lfs
  FileStore store(mount());
  const std::vector<ObjectRead> reads = {{.key = "a"}};
  size_t bytes = 0;
  store.read_many(reads, {}, [&](size_t, const ObjectFound& found) { bytes = found.bytes.size(); });
  EXPECT_EQ(bytes, 5000u);
  fs::remove(folder_.path() / "bin" / "lfs");
  EXPECT_FALSE(Lustre::of(mount(), process_environment()));
}

}  // namespace
}  // namespace craton::store
