// The S3 store and the programs against a real S3 server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "craton/base/philox.h"
#include "craton/runtime/thread_pool.h"
#include "craton/store/s3/s3_store.h"
#include "craton/store/s3/s3_upload.h"
#include "craton/testing/object_store_contract.h"
#include "tests/craton_program.h"
#include "tests/servers/s3_server.h"
#include "tests/tiny_job.h"

namespace craton::testing {

using store::s3::S3Store;

/// One server for all tests of this program; nullptr, with a message, where there is none.
tests::S3Server* server() {
  static const std::string missing = tests::S3Server::missing();
  static std::unique_ptr<tests::S3Server> instance;
  if (!missing.empty()) return nullptr;
  if (!instance) {
    instance = std::make_unique<tests::S3Server>();
    instance->enter_environment();
    instance->make_bucket("surveys");
  }
  return instance.get();
}

std::shared_ptr<store::ObjectStore> fresh_prefix() {
  static int counter = 0;
  return store::open_store("s3://surveys/test " + std::to_string(++counter) + "/a+b");
}

class S3Environment : public ::testing::Environment {
 public:
  void SetUp() override {
    if (server() == nullptr) GTEST_SKIP() << tests::S3Server::missing();
  }
};
const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new S3Environment);

struct S3Fixture {
  std::shared_ptr<store::ObjectStore> make() { return fresh_prefix(); }
};
INSTANTIATE_TYPED_TEST_SUITE_P(S3, ObjectStoreContract, S3Fixture);

/// Bytes that no two offsets share.
store::Bytes pattern(size_t size) {
  store::Bytes bytes(size);
  const Philox random(7, RandomPurpose::kTest);
  for (size_t i = 0; i + 16 <= size; i += 16) {
    const auto block = random.block(i / 16);
    std::memcpy(bytes.data() + i, block.data(), 16);
  }
  return bytes;
}

ErrorCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode::kInternal;
}

TEST(S3, KeysWithOddCharactersAreTheSameThereAndBack) {
  const auto store = fresh_prefix();
  const std::vector<std::string> keys = {"a b",     "a+b",
                                         "a%20b",   "a&b=c",
                                         "a*b",     "a//b",
                                         "a/../b",  "\xc3\xa4\xe2\x82\xac",
                                         "a<b>'\"", "a:b@c,d;e!$()~",
                                         "a?b#c"};
  for (const std::string& key : keys) store->put(key, bytes_of(key));
  std::vector<std::string> listed;
  for (const auto& info : store->list("")) listed.push_back(info.key);
  EXPECT_THAT(listed, ::testing::UnorderedElementsAreArray(keys));
  for (const std::string& key : keys) EXPECT_EQ(text_of(*store->get(key)), key);
}

TEST(S3, LargeObjectsGoUpAndComeDownInParts) {
  const auto store = fresh_prefix();
  const store::Bytes bytes = pattern(3 * store::s3::part_size(0) + 12345);
  auto upload = store->start_upload("big");
  for (size_t at = 0; at < bytes.size(); at += 1'000'003)
    upload->append(std::span(bytes).subspan(at, std::min<size_t>(1'000'003, bytes.size() - at)));
  EXPECT_FALSE(store->head("big"));
  upload->finish();
  EXPECT_EQ(store->head("big")->size, bytes.size());
  EXPECT_EQ(*store->get_range("big", 0, bytes.size()), bytes);
  store::Bytes buffer;
  EXPECT_TRUE(std::ranges::equal(*store->get_into("big", buffer), bytes));
  const auto part = store->get_range("big", 20'000'001, 17'000'000);
  EXPECT_TRUE(std::ranges::equal(*part, std::span(bytes).subspan(20'000'001, 17'000'000)));
}

TEST(S3, DroppedUploadsLeaveNothingAndLostOnesCanBeAborted) {
  S3Store store(store::s3::parse_location("s3://surveys/uploads", store::process_environment()),
                {});
  const store::Bytes part(store::s3::part_size(0));
  const auto later = std::chrono::system_clock::now() + std::chrono::hours(1);
  { store.start_upload("dropped")->append(part); }
  EXPECT_EQ(store.abort_uploads(later), 0u);
  auto lost = store.start_upload("lost");
  lost->append(part);
  EXPECT_EQ(store.abort_uploads(later), 1u);
  EXPECT_THROW(lost->finish(), Error);
  EXPECT_TRUE(store.list("").empty());
}

TEST(S3, ListingsHaveMoreThanOnePage) {
  const auto store = fresh_prefix();
  runtime::parallel_for(1100, 8, [&](size_t i) {
    store->put("d" + std::to_string(i % 2) + "/" + std::to_string(i), bytes_of("x"));
  });
  EXPECT_EQ(store->list("").size(), 1100u);
  EXPECT_THAT(store->list_children(""), ::testing::ElementsAre("d0/", "d1/"));
}

TEST(S3, WrongKeysAreRefusedAndSaid) {
  auto wrong = store::s3::parse_location("s3://surveys/x", store::process_environment());
  class WrongSource final : public store::s3::CredentialSource {
   public:
    std::string name() const override { return "wrong"; }
    store::s3::Credentials fetch() override {
      return {tests::S3Server::kAccessKey, "NOTTHESECRET", "", std::nullopt};
    }
  };
  S3Store store(wrong, {},
                std::make_shared<store::s3::CredentialProvider>(std::make_unique<WrongSource>()));
  try {
    store.get("k");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kPermission);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("SignatureDoesNotMatch"));
    EXPECT_THAT(e.what(), ::testing::Not(::testing::HasSubstr("NOTTHESECRET")));
  }
  EXPECT_EQ(code_of([] { store::open_store("s3://nobucket/x")->get("k"); }), ErrorCode::kNotFound);
}

TEST(S3, StoresOfOneProcessHaveCredentialsOfTheirOwn) {
  const runtime::TemporaryDirectory folder;
  const std::vector<std::string> owners = {"north", "south"};
  std::string profiles;
  for (const std::string& owner : owners) {
    server()->add_user(owner, owner + "KEY", owner + "SECRET");
    server()->make_bucket(owner, owner + "KEY", owner + "SECRET");
    profiles += fmt::format(
        "[{0}]\naws_access_key_id = {0}KEY\naws_secret_access_key = {0}SECRET\n", owner);
  }
  runtime::write_file_atomically(folder.path() / "credentials", profiles);
  ::setenv("AWS_SHARED_CREDENTIALS_FILE", (folder.path() / "credentials").c_str(), 1);
  const auto open = [](const std::string& bucket, const std::string& profile) {
    return store::open_store(fmt::format("s3://{}/x?profile={}", bucket, profile));
  };
  // The third has the keys of the environment, which are set all the time.
  const std::vector<std::shared_ptr<store::ObjectStore>> stores = {
      open("north", "north"), open("south", "south"), store::open_store("s3://surveys/own")};
  for (size_t i = 0; i < stores.size(); ++i) stores[i]->put("k", bytes_of(std::to_string(i)));
  std::atomic<int> wrong{0};
  runtime::parallel_for(120, 12, [&](size_t i) {
    const size_t n = i % stores.size();
    wrong += text_of(*stores[n]->get("k")) != std::to_string(n);
  });
  EXPECT_EQ(wrong, 0);
  const auto refused = [&](const std::string& bucket, const std::string& profile) {
    return code_of([&] { open(bucket, profile)->get("k"); });
  };
  EXPECT_EQ(refused("north", "south"), ErrorCode::kPermission);
  EXPECT_EQ(refused("south", "north"), ErrorCode::kPermission);
  EXPECT_EQ(code_of([] { store::open_store("s3://north/x")->get("k"); }), ErrorCode::kPermission);
  ::unsetenv("AWS_SHARED_CREDENTIALS_FILE");
}

TEST(S3, AStalledServerEndsInATimeoutAndServesAgainAfterwards) {
  store::http::Limits limits;
  limits.first_byte = std::chrono::milliseconds(500);
  limits.attempts = 2;
  S3Store store(store::s3::parse_location("s3://surveys/stall", store::process_environment()),
                limits);
  store.put("k", bytes_of("v"));
  server()->freeze();
  const ErrorCode code = code_of([&] { store.get("k"); });
  server()->thaw();
  EXPECT_EQ(code, ErrorCode::kTimeout);
  S3Store patient(store::s3::parse_location("s3://surveys/stall", store::process_environment()),
                  {});
  EXPECT_EQ(text_of(*patient.get("k")), "v");
}

}  // namespace craton::testing

namespace craton::tests {
namespace {

using ::testing::HasSubstr;

TEST(S3Program, CopiesListsShowsAndChecks) {
  CratonProgram craton;
  craton.write("note.txt", "a survey\n");
  EXPECT_EQ(craton.run({"store", "cp", "note.txt", "s3://surveys/cli/"}).exit_code, 0);
  EXPECT_EQ(craton.run({"store", "cat", "s3://surveys/cli/note.txt"}).output, "a survey\n");
  EXPECT_EQ(
      craton.run({"store", "cat", "s3://surveys/cli/note.txt", "--offset", "2", "--length", "3"})
          .output,
      "sur");
  EXPECT_EQ(craton.run({"store", "ls", "s3://surveys/cli"}).output, "note.txt\n");
  EXPECT_EQ(craton.run({"store", "cp", "s3://surveys/cli/note.txt", "back.txt"}).exit_code, 0);
  EXPECT_EQ(runtime::read_text(craton.folder() / "back.txt"), "a survey\n");
  const auto check = craton.run({"store", "check", "s3://surveys/cli"});
  EXPECT_EQ(check.exit_code, 0) << check.output;
  for (const char* fact : {"http://127.0.0.1", "environment", "agrees", "works"})
    EXPECT_THAT(check.output, HasSubstr(fact));
  const auto wrong =
      craton.run({"store", "check", "s3://surveys/cli"}, {"AWS_SECRET_ACCESS_KEY=NOTTHESECRET"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.output, HasSubstr("SignatureDoesNotMatch"));
  EXPECT_THAT(wrong.output + wrong.errors, ::testing::Not(HasSubstr("NOTTHESECRET")));
  const auto absent = craton.run({"store", "cat", "s3://surveys/cli/absent"});
  EXPECT_EQ(absent.exit_code, 1);
  EXPECT_THAT(absent.errors, HasSubstr("there is no object"));
}

TEST(S3Program, VolumesAreMadeAndReadThere) {
  CratonProgram craton;
  const std::vector<std::string> synth = {"volume", "synth", "local.mdio", "--shape", "24,32,40"};
  const auto made = craton.run(synth);
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  ASSERT_EQ(craton.run({"volume", "export", "local.mdio", "local.sgy"}).exit_code, 0);
  const auto ingest = craton.run({"volume", "ingest", "local.sgy", "s3://surveys/vol/f.mdio"});
  ASSERT_EQ(ingest.exit_code, 0) << ingest.errors;
  const auto info = craton.run({"volume", "info", "s3://surveys/vol/f.mdio"});
  EXPECT_EQ(info.exit_code, 0) << info.errors;
  EXPECT_THAT(info.output, HasSubstr("24 x 32 x 40"));
  const auto view = craton.run({"volume", "view", "s3://surveys/vol/f.mdio", "-o", "view.png"});
  EXPECT_EQ(view.exit_code, 0) << view.errors;
  ASSERT_EQ(craton.run({"volume", "export", "s3://surveys/vol/f.mdio", "back.sgy"}).exit_code, 0);
  ASSERT_EQ(craton.run({"volume", "export", "local.mdio", "again.sgy"}).exit_code, 0);
  EXPECT_EQ(runtime::read_file(craton.folder() / "back.sgy").size(),
            runtime::read_file(craton.folder() / "again.sgy").size());
  EXPECT_EQ(craton.run({"volume", "ingest", "local.sgy", "s3://surveys/vol/f.mdio"}).exit_code, 1);
}

TEST(S3Program, AKilledCopyShowsNothingAndCanBeDoneAgain) {
  CratonProgram craton;
  const auto bytes = testing::pattern(160 << 20);
  runtime::write_file_atomically(craton.folder() / "big", bytes);
  const char* bin = std::getenv("CRATON_TEST_BIN");
  runtime::ProgramOptions options;
  options.folder = craton.folder();
  testing::S3Store store(
      store::s3::parse_location("s3://surveys/killed", store::process_environment()), {});
  std::optional<runtime::ProgramResult> ended;
  for (int tries = 0; tries < 5; ++tries) {  // a copy may be done before it is killed
    store.remove("big");
    runtime::RunningProgram copy({std::string(bin ? bin : "build/release/bin") + "/craton", "store",
                                  "cp", "big", "s3://surveys/killed/big"},
                                 options);
    while (store.unfinished_uploads().empty() && !(ended = copy.wait(std::chrono::milliseconds(0))))
      ;
    copy.signal(SIGKILL);
    ended = copy.wait(std::chrono::minutes(1));
    ASSERT_TRUE(ended);
    if (ended->exit_code != 0) break;
  }
  ASSERT_EQ(ended->exit_code, 128 + SIGKILL) << ended->errors;
  EXPECT_FALSE(store.head("big"));
  ASSERT_EQ(craton.run({"store", "cp", "big", "s3://surveys/killed/"}).exit_code, 0);
  EXPECT_EQ(store.get("big"), bytes);
  EXPECT_EQ(store.abort_uploads(std::chrono::system_clock::now() + std::chrono::hours(1)), 1u);
}

TEST(S3Program, AKilledCopyOfAVolumeShowsNoneAndGoesOn) {
  CratonProgram craton;
  ASSERT_EQ(craton.run({"volume", "synth", "a.mdio", "--shape", "40,40,40", "--chunks", "16,16,16"})
                .exit_code,
            0);
  const std::string there = "s3://surveys/copied/a.mdio";
  const auto killed = craton.run({"volume", "cp", "a.mdio", there},
                                 {"CRATON_FAULTS=copy.object:occurrence=9:kill"});
  EXPECT_EQ(killed.exit_code, 128 + SIGKILL);
  EXPECT_NE(craton.run({"volume", "info", there}).exit_code, 0);
  const auto whole = craton.run({"volume", "cp", "a.mdio", there});
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_THAT(whole.output, HasSubstr("went on from an earlier run"));
  EXPECT_EQ(craton.run({"volume", "info", there}).exit_code, 0);
  EXPECT_EQ(craton.run({"volume", "cp", "a.mdio", there}).exit_code, 1);
  ASSERT_EQ(craton.run({"volume", "cp", there, "back.mdio"}).exit_code, 0);
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(craton.folder() / "a.mdio")) {
    if (!entry.is_regular_file()) continue;
    const auto relative = entry.path().lexically_relative(craton.folder() / "a.mdio");
    EXPECT_EQ(runtime::read_file(entry.path()),
              runtime::read_file(craton.folder() / "back.mdio" / relative));
  }
}

TEST(S3Program, TrainingFromThereEndsWithTheSameBits) {
  const char* bin = std::getenv("CRATON_TEST_BIN");
  if (!std::filesystem::exists(std::filesystem::path(bin ? bin : "build/release/bin") /
                               "craton-worker"))
    GTEST_SKIP() << "craton-worker is not built";
  TinyJob job;
  const std::string there = "s3://surveys/train/survey.mdio";
  ASSERT_EQ(job.program().run({"store", "cp", "-r", "survey.mdio", there}).exit_code, 0);
  const std::string here = job.digest("here", 2, {});
  EXPECT_EQ(job.digest("there", 2, {"data.volumes.0.uri=" + there}), here);
  EXPECT_EQ(job.digest("warm", 2, {"data.volumes.0.uri=" + there}), here);
  EXPECT_EQ(job.digest("uncached", 2, {"data.volumes.0.uri=" + there, "data.cache.bytes=0"}), here);
}

}  // namespace
}  // namespace craton::tests
