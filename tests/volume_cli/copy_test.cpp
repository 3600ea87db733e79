// `craton volume cp` between folders: whole or not at all, and from where it was cut off.

#include <map>

#include "volume_cli.h"

namespace craton::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class VolumeCopy : public VolumeCli {
 protected:
  void SetUp() override {
    VolumeCli::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(
        craton({"volume", "synth", path("a.mdio"), "--shape", "40,40,40", "--chunks", "16,16,16"})
            .exit_code,
        0);
  }
  /// Every file below a folder with its content.
  static std::map<std::string, std::vector<std::byte>> content(const std::string& folder) {
    std::map<std::string, std::vector<std::byte>> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file())
        out[entry.path().lexically_relative(folder).string()] = runtime::read_file(entry.path());
    return out;
  }
};

TEST_F(VolumeCopy, IsTheSameObjects) {
  const auto result = craton({"volume", "cp", path("a.mdio"), path("b.mdio")});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("objects"));
  EXPECT_EQ(content(path("a.mdio")), content(path("b.mdio")));
  const auto again = craton({"volume", "cp", path("a.mdio"), path("b.mdio")});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.errors, HasSubstr("--replace"));
  EXPECT_EQ(craton({"volume", "cp", path("a.mdio"), path("b.mdio"), "--replace"}).exit_code, 0);
  EXPECT_EQ(content(path("a.mdio")), content(path("b.mdio")));
  const auto nothing = craton({"volume", "cp", path("absent"), path("c.mdio")});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.errors, HasSubstr("there is no volume"));
  EXPECT_FALSE(fs::exists(path("c.mdio")));
}

TEST_F(VolumeCopy, KilledAnywhereItGoesOnFromThere) {
  for (const char* fault :
       {"copy.object:occurrence=9:kill", "object.publish:occurrence=7:kill", "copy.commit:kill",
        "volume.commit:kill", "object.publish:occurrence=5:throw"}) {
    const std::string target =
        path(std::string("b") + std::to_string(std::hash<std::string>()(fault)));
    const auto killed = craton({"volume", "cp", path("a.mdio"), target, "--parallel", "3"}, fault);
    EXPECT_NE(killed.exit_code, 0) << fault;
    EXPECT_FALSE(fs::exists(target)) << fault;
    const auto result = craton({"volume", "cp", path("a.mdio"), target});
    ASSERT_EQ(result.exit_code, 0) << fault << result.errors;
    EXPECT_THAT(result.output, HasSubstr("went on from an earlier run")) << fault;
    EXPECT_EQ(content(path("a.mdio")), content(target)) << fault;
    EXPECT_FALSE(fs::exists(target + ".partial")) << fault;
    EXPECT_FALSE(fs::exists(target + ".partial.journal")) << fault;
  }
}

TEST_F(VolumeCopy, AnotherOriginalStartsAnew) {
  craton({"volume", "cp", path("a.mdio"), path("b.mdio"), "--parallel", "1"},
         "copy.object:occurrence=20:kill");
  ASSERT_EQ(craton({"volume", "synth", path("a.mdio"), "--shape", "40,40,40", "--chunks",
                    "16,16,16", "--seed", "2", "--replace"})
                .exit_code,
            0);
  const auto result = craton({"volume", "cp", path("a.mdio"), path("b.mdio")});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("went on")));
  EXPECT_EQ(content(path("a.mdio")), content(path("b.mdio")));
}

}  // namespace
}  // namespace craton::tests
