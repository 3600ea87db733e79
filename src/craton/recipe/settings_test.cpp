#include "craton/recipe/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "craton/base/error.h"
#include "craton/recipe/nearest_name.h"

namespace craton::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string parse_error(std::string_view yaml) {
  return error_of([&] { Settings::parse(yaml, "x.yaml"); });
}

constexpr const char* kYaml = R"(# a job
name: demo
train:
  steps: 100
  lr: 1e-3
  fast: true
  betas: [0.9, 0.95]
  cache: 64MiB
volumes:
  - uri: a.mdio
    weight: 2
  - uri: "b c.mdio"
)";

TEST(Settings, ReadsTypedValuesAndDefaults) {
  const Settings root = Settings::parse(kYaml, "x.yaml");
  const Settings train = root.section("train");
  EXPECT_EQ(root.text("name", ""), "demo");
  EXPECT_EQ(train.integer("steps", 1), 100);
  EXPECT_EQ(train.integer("other", 7), 7);
  EXPECT_DOUBLE_EQ(train.number("lr", 0), 1e-3);
  EXPECT_DOUBLE_EQ(train.number("steps", 0), 100);
  EXPECT_TRUE(train.boolean("fast", false));
  EXPECT_EQ(train.bytes("cache", 0), 64u << 20);
  EXPECT_THAT(train.numbers("betas", {}), ElementsAre(0.9, 0.95));
  EXPECT_THAT(train.integers("shape", {1, 2}), ElementsAre(1, 2));
  const auto volumes = root.sections("volumes");
  ASSERT_EQ(volumes.size(), 2u);
  EXPECT_EQ(volumes[1].text("uri", ""), "b c.mdio");
  EXPECT_EQ(root.section("absent").integer("x", 3), 3);
  EXPECT_TRUE(root.has("name"));
  EXPECT_FALSE(root.has("absent"));
}

TEST(Settings, WrongTypesNamePlaceKeyFoundAndExpected) {
  const Settings root = Settings::parse(
      "a: yes\nb: '5'\nc: [1, x]\nd: 1e400\ne: 99999999999999999999\nf:\ng: {h: 1}\ni: nan\nj: 12 "
      "parsecs\n",
      "x.yaml");
  EXPECT_EQ(error_of([&] { root.integer("a", 0); }),
            "x.yaml:1: a: expected a whole number, found 'yes'");
  EXPECT_EQ(error_of([&] { root.boolean("a", false); }),
            "x.yaml:1: a: expected true or false, found 'yes'");
  EXPECT_EQ(error_of([&] { root.integer("b", 0); }),
            "x.yaml:2: b: expected a whole number, found text \"5\" in quotes");
  EXPECT_EQ(error_of([&] { root.integers("c", {}); }),
            "x.yaml:3: c[1]: expected a whole number, found 'x'");
  EXPECT_THAT(error_of([&] { root.integers("a", {}); }),
              HasSubstr("expected a list of whole numbers"));
  EXPECT_THAT(error_of([&] { root.number("d", 0); }),
              HasSubstr("x.yaml:4: d: expected a finite number"));
  EXPECT_THAT(error_of([&] { root.integer("e", 0); }), HasSubstr("at most 64 bits"));
  EXPECT_EQ(error_of([&] { root.integer("f", 0); }),
            "x.yaml:6: f: expected a whole number, found nothing");
  EXPECT_EQ(error_of([&] { root.text("g", ""); }), "x.yaml:7: g: expected text, found a section");
  EXPECT_THAT(error_of([&] { root.section("a"); }), HasSubstr("expected a section"));
  EXPECT_THAT(error_of([&] { root.sections("g"); }), HasSubstr("expected a list of sections"));
  EXPECT_THAT(error_of([&] { root.number("i", 0); }), HasSubstr("finite"));
  EXPECT_THAT(error_of([&] { root.bytes("j", 0); }),
              HasSubstr("number of bytes, e.g. 64MiB, found '12 parsecs'"));
  EXPECT_THAT(error_of([&] { root.bytes("i", 0); }), HasSubstr("number of bytes"));
}

TEST(Settings, ChoiceListsAndSuggests) {
  const Settings root = Settings::parse("strategy: zreo1\n", "x.yaml");
  EXPECT_EQ(error_of([&] {
              root.choice("strategy", "ddp", {"ddp", "zero1", "zero2"});
            }),
            "x.yaml:1: strategy: expected one of ddp, zero1, zero2; found 'zreo1'; did you mean "
            "'zero1'?");
}

TEST(Settings, FinishFindsUnknownKeysWithNearestName) {
  const Settings root = Settings::parse("train:\n  stpes: 3\n", "x.yaml");
  root.section("train").integer("steps", 0);
  EXPECT_EQ(error_of([&] { root.finish(); }),
            "x.yaml:2: train.stpes: unknown key; did you mean 'train.steps'?");
}

TEST(Settings, FinishSaysWhereAMisplacedKeyBelongs) {
  const Settings root = Settings::parse("train:\n  steps: 3\nbetas: 1\nfrobnicate: 2\n", "x.yaml");
  root.section("train").integer("steps", 0);
  root.section("train").section("optimizer").numbers("betas", {});
  EXPECT_EQ(error_of([&] { root.finish(); }),
            "x.yaml:3: betas: unknown key; it belongs at 'train.optimizer.betas'");
  root.integer("betas", 0);
  EXPECT_EQ(error_of([&] { root.finish(); }),
            "x.yaml:4: frobnicate: unknown key; known here: train, betas");
}

TEST(Settings, FinishLooksIntoListItems) {
  const Settings root = Settings::parse("v:\n  - uri: a\n  - uri: b\n    wieght: 2\n", "x.yaml");
  for (const Settings& item : root.sections("v")) {
    item.text("uri", "");
    item.number("weight", 1);
  }
  EXPECT_EQ(error_of([&] { root.finish(); }),
            "x.yaml:4: v[1].wieght: unknown key; did you mean 'v[1].weight'?");
}

TEST(Settings, BrokenFilesGiveOneLineWithPlace) {
  EXPECT_EQ(parse_error("a: 1\nb: 2\na: 3\n"),
            "x.yaml:3: a: given twice (first in line 1); keep one");
  EXPECT_THAT(parse_error(""), HasSubstr("x.yaml: empty"));
  EXPECT_THAT(parse_error("# only a comment\n"), HasSubstr("x.yaml: empty"));
  EXPECT_THAT(parse_error("- a\n- b\n"),
              HasSubstr("x.yaml:1: expected 'key: value' lines, found a list"));
  EXPECT_THAT(parse_error("just text\n"), HasSubstr("found 'just text'"));
  EXPECT_THAT(parse_error("a:\n\tb: 1\n"), HasSubstr("spaces, not tabs"));
  EXPECT_THAT(parse_error("a: 1\nb: [1, 2\nc: 3\n"), HasSubstr("x.yaml:"));
  EXPECT_THAT(parse_error("a: 1\n---\nb: 2\n"), HasSubstr("2 documents"));
  EXPECT_THAT(parse_error("[1]: 2\n"), HasSubstr("a key must be a word"));
  EXPECT_THAT(parse_error(std::string("a: 1\0b", 6)), HasSubstr("not a text file"));
  for (const char* bad : {"a: [", "a: \"", "a: *x\n", "%", "a: b: c\n", "{", "a: !!map 3\n? b\n"}) {
    EXPECT_EQ(parse_error(bad).find('\n'), std::string::npos) << bad;
  }
}

TEST(Settings, AliasesAndNestingHaveAnEnd) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int k = 0; k < 10; ++k) bomb += fmt::format("*a{}{}", i - 1, k < 9 ? ", " : "]\n");
  }
  EXPECT_THAT(parse_error(bomb), HasSubstr("too many values"));
  EXPECT_THAT(parse_error("a: &a [*a]\n"), HasSubstr("x.yaml"));
  EXPECT_THAT(parse_error("a: " + std::string(300, '[') + std::string(300, ']')),
              HasSubstr("too deep"));
  EXPECT_THAT(parse_error("a: " + std::string(100000, '[')), HasSubstr("x.yaml"));
}

TEST(Settings, ExpandsTheEnvironment) {
  ::setenv("CRATON_SETTINGS_TEST", "12", 1);
  ::setenv("CRATON_SETTINGS_EMPTY", "", 1);
  ::unsetenv("CRATON_SETTINGS_ABSENT");
  const Settings root = Settings::parse(
      "a: ${CRATON_SETTINGS_TEST}\nb: x/${CRATON_SETTINGS_ABSENT:-../shared/data}/y\n"
      "c: \"$${HOME}\"\nd: ['${CRATON_SETTINGS_TEST}', 3]\ne: ${CRATON_SETTINGS_EMPTY:-5}\n",
      "x.yaml");
  EXPECT_EQ(root.integer("a", 0), 12);
  EXPECT_EQ(root.text("b", ""), "x/../shared/data/y");
  EXPECT_EQ(root.text("c", ""), "${HOME}");
  EXPECT_THAT(root.integers("d", {}), ElementsAre(12, 3));
  EXPECT_EQ(root.integer("e", 0), 5);
  EXPECT_EQ(parse_error("a: 1\nb: ${CRATON_SETTINGS_ABSENT}\n"),
            "x.yaml:2: the environment variable CRATON_SETTINGS_ABSENT is not set; set it or write "
            "${CRATON_SETTINGS_ABSENT:-default}");
  EXPECT_THAT(parse_error("a: x${FOO\n"), HasSubstr("without '}'"));
  EXPECT_THAT(parse_error("a: ${F-O}\n"), HasSubstr("is no variable"));
}

TEST(Settings, OverridesFromTheCommandLine) {
  Settings root = Settings::parse(kYaml, "x.yaml");
  root.override_with("train.steps=20");
  root.override_with("new.section.value=[1, 2]");
  root.override_with("volumes.1.weight=0.5");
  root.override_with("name=a=b");
  EXPECT_EQ(root.section("train").integer("steps", 0), 20);
  EXPECT_THAT(root.section("new").section("section").integers("value", {}), ElementsAre(1, 2));
  EXPECT_DOUBLE_EQ(root.sections("volumes")[1].number("weight", 1), 0.5);
  EXPECT_EQ(root.text("name", ""), "a=b");
  root.override_with("train.steps=soon");
  EXPECT_EQ(error_of([&] { root.section("train").integer("steps", 0); }),
            "command line: train.steps: expected a whole number, found 'soon'");
  for (const char* bad : {"train.steps", "=3", "a..b=1", ".a=1", ""}) {
    EXPECT_THAT(error_of([&] { root.override_with(bad); }), HasSubstr("expected KEY=VALUE")) << bad;
  }
  EXPECT_THAT(error_of([&] { root.override_with("name.x=1"); }),
              HasSubstr("nothing can be set below it"));
  EXPECT_THAT(error_of([&] { root.override_with("name.x.y=1"); }),
              HasSubstr("nothing can be set below it"));
  EXPECT_THAT(error_of([&] { root.override_with("volumes.2.uri=1"); }),
              HasSubstr("is a list of 2"));
  EXPECT_THAT(error_of([&] { root.override_with("a=[1"); }), HasSubstr("command line: not YAML"));
  Settings typo = Settings::parse("train: {steps: 1}\n", "x.yaml");
  typo.override_with("trian.steps=1");
  typo.section("train").integer("steps", 0);
  EXPECT_EQ(error_of([&] { typo.finish(); }),
            "command line: trian: unknown key; did you mean 'train'?");
}

TEST(Settings, RejectNamesTheNearestPlace) {
  const Settings root = Settings::parse("train:\n  steps: -1\n", "x.yaml");
  EXPECT_EQ(error_of([&] { root.section("train").reject("steps", "must be positive, found -1"); }),
            "x.yaml:2: train.steps: must be positive, found -1");
  EXPECT_EQ(error_of([&] { root.section("train").reject("lr", "is needed"); }),
            "x.yaml:1: train.lr: is needed");
}

TEST(Settings, DumpParsesBackToTheSameValues) {
  ::setenv("CRATON_SETTINGS_TEST", "12", 1);
  Settings root = Settings::parse(kYaml, "x.yaml");
  root.override_with("odd=\"true: $${X} \\\"q\\\" #\"");
  root.override_with("unread.map.list=[a, [b, 'c, d'], {e: f}]");
  root.override_with("empty={}");
  root.override_with("quoted='5'");
  root.text("name", "");
  root.section("train").integer("steps", 1);
  root.section("train").number("weight_decay", 0.1);
  root.section("made").text("path", "runs/x y");
  const std::string dumped = root.dump();
  Settings again = Settings::parse(dumped, "y.yaml");
  EXPECT_EQ(again.text("odd", ""), "true: ${X} \"q\" #") << dumped;
  EXPECT_THAT(error_of([&] { again.integer("quoted", 0); }), HasSubstr("in quotes"));
  EXPECT_DOUBLE_EQ(again.section("train").number("weight_decay", 0), 0.1);
  EXPECT_DOUBLE_EQ(again.section("train").number("lr", 0), 1e-3);
  EXPECT_EQ(again.section("made").text("path", ""), "runs/x y");
  EXPECT_EQ(again.sections("volumes")[0].integer("weight", 0), 2);
  const auto list = again.section("unread").section("map");
  EXPECT_TRUE(list.has("list"));
  EXPECT_EQ(Settings::parse(dumped, "z.yaml").dump(), dumped);
}

TEST(Settings, CanonicalIgnoresOrderAndDefaults) {
  const Settings a = Settings::parse("x: 1\ny: {b: 2, a: [1, 2]}\n", "a.yaml");
  const Settings b = Settings::parse("y:\n  a:\n    - 1\n    - 2\n  b: 2\n\nx: 1\n", "b.yaml");
  b.integer("z", 5);
  EXPECT_EQ(a.canonical(), b.canonical());
  EXPECT_NE(a.canonical(), Settings::parse("x: 1\ny: {b: 2, a: [2, 1]}\n", "c.yaml").canonical());
}

TEST(Settings, KnownListsWhatWasRead) {
  const Settings root = Settings::parse(kYaml, "x.yaml");
  root.section("train").integer("steps", 5);
  root.section("other").boolean("on", true);
  for (const Settings& item : root.sections("volumes")) item.text("uri", "");
  std::vector<std::string> keys;
  for (const KnownKey& key : root.known())
    keys.push_back(key.key + " " + key.type + " " + key.fallback);
  EXPECT_THAT(keys, ElementsAre("train.steps integer 5", "other.on boolean true",
                                "volumes[].uri text \"\""));
}

TEST(Settings, LoadSaysWhatIsWrongWithTheFile) {
  EXPECT_EQ(error_of([] { Settings::load("/nowhere/x.yaml"); }), "no recipe at /nowhere/x.yaml");
  EXPECT_THAT(error_of([] { Settings::load("/tmp"); }), HasSubstr("is a folder"));
}

TEST(NearestName, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("steps", "stpes"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(nearest_name("Global-Batch", {"global_batch", "micro_batch"}), "global_batch");
  EXPECT_EQ(nearest_name("qqqqq", {"steps", "lr"}), "");
  EXPECT_EQ(nearest_name("xy", {"lr"}), "");
}

}  // namespace
}  // namespace craton::recipe
