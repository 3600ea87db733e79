// The command line as a user meets it: one clear line and a non-zero exit for what cannot be.

#include "tests/volume_cli/volume_cli.h"

#include "craton/base/philox.h"
#include "craton/volume/segy/fixture.h"
#include "craton/volume/volume.h"

namespace craton::volume::segy {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

using tests::VolumeCli;

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

TEST_F(VolumeCli, PredictionsGoBackUnderTheHeadersOfTheirSurvey) {
  Fixture file = small_survey();
  file.traces.erase(file.traces.begin() + 7);
  ASSERT_EQ(craton({"volume", "ingest", write("in.sgy", file.bytes()), path("v.mdio"), "--quiet"})
                .exit_code,
            0);
  const auto survey = open_volume(path("v.mdio"));
  VolumeSpec spec;
  spec.axes = survey->info().axes;
  spec.chunk_shape = {6, 5, 20};
  const auto writer = create_volume(path("filled.mdio"), spec);
  writer->write_chunk(std::vector<int64_t>{0, 0, 0}, std::vector<float>(600, 2.5f));
  writer->set_attribute("craton", "{\"kind\": \"filled\", \"volume\": \"" + path("v.mdio") + "\"}");
  writer->finish();
  const auto back = craton({"volume", "export", path("filled.mdio"), path("back.sgy"), "--quiet"});
  ASSERT_EQ(back.exit_code, 0) << back.errors;
  EXPECT_THAT(back.errors, HasSubstr("headers and order of traces come from"));
  EXPECT_THAT(back.output,
              HasSubstr("30 traces as IBM float, 4 bytes, 1 of them with new headers"));
  const auto bytes = runtime::read_file(path("back.sgy"));
  const auto original = file.bytes();
  EXPECT_TRUE(std::equal(original.begin(), original.begin() + 3600 + 240, bytes.begin()));
  fs::remove_all(path("v.mdio"));
  EXPECT_EQ(craton({"volume", "export", path("filled.mdio"), path("new.sgy"), "--quiet"}).exit_code,
            0);
}

TEST_F(VolumeCli, FoldersAndEmptyFilesAreNoSegy) {
  fs::create_directories(path("folder"));
  expect_refused({"volume", "ingest", path("folder"), path("out.mdio")}, "is a folder");
  expect_refused({"volume", "ingest", write("nothing.sgy", {}), path("out.mdio")}, "0 bytes are less");
  const auto in = write("in.sgy", small_survey().bytes());
  ASSERT_EQ(craton({"volume", "ingest", in, path("v.mdio"), "--quiet"}).exit_code, 0);
  expect_refused({"volume", "export", path("v.mdio"), path("folder")}, "is a folder");
  expect_refused({"volume", "export", path("v.mdio"), path("nowhere/out.sgy")}, "No such file");
}

}  // namespace
}  // namespace craton::volume::segy
