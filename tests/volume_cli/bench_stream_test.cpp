// `craton bench stream` over a volume in a folder.

#include <nlohmann/json.hpp>

#include "volume_cli.h"

namespace craton::tests {
namespace {

using ::testing::HasSubstr;

class BenchStream : public VolumeCli {
 protected:
  nlohmann::json run(std::vector<std::string> arguments) const {
    std::vector<std::string> all = {"bench",    "stream",   path("a.mdio"),
                                    "--window", "16,16,16", "--budget",
                                    "16MiB",    "--json",   path("figures.json")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const auto result = craton(all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("limit"));
    return nlohmann::json::parse(runtime::read_text(path("figures.json")));
  }
};

TEST_F(BenchStream, APassFetchesEachChunkAboutOnceAndTheCacheServesTheNextOne) {
  ASSERT_EQ(craton({"volume", "synth", path("a.mdio"), "--shape", "48,48,64", "--chunks",
                    "16,16,16", "--dead", "0"})
                .exit_code,
            0);
  uint64_t stored = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path("a.mdio/amplitude")))
    if (entry.is_regular_file()) stored += entry.file_size();
  const auto cold = run({"--seconds", "0", "--cache", path("cache"), "--workers", "2"});
  EXPECT_GT(cold["windows"].get<uint64_t>(), 20u);
  EXPECT_LT(cold["raw_bytes"].get<double>(), 1.1 * static_cast<double>(stored) + 64e3);
  EXPECT_GT(cold["raw_bytes"].get<double>(), 0.9 * static_cast<double>(stored));
  EXPECT_LE(cold["held_bytes"].get<uint64_t>(), cold["budget_bytes"].get<uint64_t>());
  const auto warm = run({"--seconds", "0", "--cache", path("cache")});
  EXPECT_EQ(warm["windows"], cold["windows"]);
  EXPECT_LT(warm["raw_bytes"].get<double>(), 0.1 * static_cast<double>(stored));
  EXPECT_GT(warm["cache_hit_rate"].get<double>(), 0.5);
  const auto decoded =
      run({"--seconds", "0", "--cache", path("decoded"), "--cache-format", "decoded"});
  EXPECT_EQ(decoded["windows"], cold["windows"]);
}

TEST_F(BenchStream, SaysWhatIsWrong) {
  expect_refused({"bench", "stream", path("absent")}, "there is no volume");
}

}  // namespace
}  // namespace craton::tests
