#include "craton/store/object_store.h"

#include <gtest/gtest.h>

#include <fstream>

#include "craton/base/error.h"
#include "craton/runtime/file.h"
#include "craton/store/file_store.h"
#include "craton/store/memory_store.h"
#include "craton/testing/object_store_contract.h"

namespace craton::testing {

struct FileStoreFixture {
  runtime::TemporaryDirectory folder;
  std::shared_ptr<store::ObjectStore> make() {
    return store::open_store("file://" + (folder.path() / "new" / "root").string());
  }
};
struct BulkFileStoreFixture {
  runtime::TemporaryDirectory folder;
  std::shared_ptr<store::ObjectStore> make() {
    return std::make_shared<store::FileStore>(folder.path(), store::Durability::kOnSync);
  }
};
struct MemoryStoreFixture {
  std::shared_ptr<store::ObjectStore> make() {
    static int counter = 0;
    return store::open_store("memory://contract" + std::to_string(++counter));
  }
};
struct MemorySubtreeFixture {
  std::shared_ptr<store::ObjectStore> make() {
    static int counter = 0;
    const std::string name = "memory://subtree" + std::to_string(++counter);
    store::open_store(name)->put("beside", bytes_of("not part of it"));
    return store::open_store(name + "/deep/er");
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(File, ObjectStoreContract, FileStoreFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(BulkFile, ObjectStoreContract, BulkFileStoreFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, ObjectStoreContract, MemoryStoreFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(MemorySubtree, ObjectStoreContract, MemorySubtreeFixture);

}  // namespace craton::testing

namespace craton::store {
namespace {

using testing::bytes_of;
using testing::text_of;

ErrorCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode::kInternal;
}

TEST(OpenStore, NamesTheSchemesItHas) {
  try {
    open_store("gopher://hole/x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(e.what()).find("file://"), std::string::npos) << e.what();
  }
  EXPECT_EQ(code_of([] { open_store(""); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { open_store("file://relative/path"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([] { open_store("memory://"); }), ErrorCode::kInvalidArgument);
}

TEST(OpenStore, TakesRegisteredSchemes) {
  register_store_scheme("alias", [](std::string_view uri) {
    return open_store("memory://alias-" + std::string(uri.substr(8)));
  });
  open_store("alias://x")->put("k", bytes_of("v"));
  EXPECT_EQ(text_of(*open_store("memory://alias-x")->get("k")), "v");
}

TEST(OpenStore, PlainPathsAndUrisAreTheSame) {
  runtime::TemporaryDirectory folder;
  open_store(folder.path().string() + "/")->put("k", bytes_of("v"));
  const auto store = open_store("file://" + folder.path().string());
  EXPECT_EQ(text_of(*store->get("k")), "v");
  EXPECT_EQ(store->uri(), "file://" + folder.path().string());
}

TEST(JoinUri, AddsOneSlash) {
  EXPECT_EQ(join_uri("s3://b/x", "y/z"), "s3://b/x/y/z");
  EXPECT_EQ(join_uri("s3://b/x/", "/y"), "s3://b/x/y");
  EXPECT_EQ(join_uri("/data", "y"), "/data/y");
  EXPECT_EQ(join_uri("memory://n", ""), "memory://n");
}

TEST(FileStore, KeysCannotLeaveTheRoot) {
  runtime::TemporaryDirectory folder;
  std::ofstream(folder.path() / "secret") << "s";
  FileStore store(folder.path() / "root");
  for (const char* key : {"../secret", "/etc/passwd", "a/../../secret", "", "a//b", "./a"}) {
    EXPECT_EQ(code_of([&] { store.get(key); }), ErrorCode::kInvalidArgument) << key;
    EXPECT_EQ(code_of([&] { store.put(key, bytes_of("x")); }), ErrorCode::kInvalidArgument) << key;
  }
}

TEST(FileStore, LeavesNoTemporaryFilesBehind) {
  runtime::TemporaryDirectory folder;
  FileStore store(folder.path());
  store.put("a/k", bytes_of("v"));
  store.put_if_absent("a/k", bytes_of("w"));
  store.start_upload("a/l")->append(bytes_of("lost"));
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);
}

TEST(FileStore, SaysWhatItCannotWrite) {
  runtime::TemporaryDirectory folder;
  FileStore store(folder.path());
  store.put("a", bytes_of("a file, so no folder"));
  try {
    store.put("a/b", bytes_of("x"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("/a"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace craton::store
