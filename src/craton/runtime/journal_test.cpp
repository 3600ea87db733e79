#include "craton/runtime/journal.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"
#include "craton/runtime/file.h"

namespace craton::runtime {
namespace {

using Entries = std::vector<std::string>;

class JournalTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "work.journal"; }
  Entries entries_of(std::string_view key) const { return Journal(path(), key).entries(); }
  TemporaryDirectory folder_;
};

TEST_F(JournalTest, EntriesComeBackInOrder) {
  {
    Journal journal(path(), "key");
    EXPECT_FALSE(journal.was_same());
    EXPECT_FALSE(journal.was_other());
    journal.append("one");
    journal.append("");
    journal.append("three");
    EXPECT_EQ(journal.size(), 3u);
  }
  Journal again(path(), "key");
  EXPECT_TRUE(again.was_same());
  EXPECT_EQ(again.entries(), (Entries{"one", "", "three"}));
  again.append("four");
  EXPECT_EQ(again.size(), 4u);
}

TEST_F(JournalTest, AnotherKeyStartsAnew) {
  Journal(path(), "key").append("one");
  {
    Journal other(path(), "key 2");
    EXPECT_TRUE(other.was_other());
    EXPECT_FALSE(other.was_same());
    EXPECT_TRUE(other.entries().empty());
    other.append("two");
  }
  EXPECT_EQ(entries_of("key 2"), Entries{"two"});
  EXPECT_TRUE(entries_of("key").empty());
}

TEST_F(JournalTest, EveryCutLosesOnlyTheLineThatIsCut) {
  {
    Journal journal(path(), "key");
    for (int i = 0; i < 4; ++i) journal.append(std::string(static_cast<size_t>(i) * 5, 'x'));
  }
  const std::string whole = read_text(path());
  size_t most = 0;
  for (size_t length = 0; length <= whole.size(); ++length) {
    write_file_atomically(path(), std::string_view(whole).substr(0, length));
    const Entries found = entries_of("key");
    EXPECT_GE(found.size(), most) << length;
    most = std::max(most, found.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], std::string(i * 5, 'x')) << length;
    // What is appended after the cut is whole again.
    Journal(path(), "key").append("more");
    ASSERT_FALSE(entries_of("key").empty());
    EXPECT_EQ(entries_of("key").back(), "more") << length;
  }
  EXPECT_EQ(most, 4u);
}

TEST_F(JournalTest, AfterARestartOfTheMachineOnlyWhatWasSyncedCounts) {
  {
    Journal journal(path(), "key");
    journal.append("one");
    journal.append("two");
    journal.mark_synced(1);
    journal.append("three");
  }
  std::string text = read_text(path());
  const size_t boot = text.find("\n@") + 2;
  text[boot] = text[boot] == '0' ? '1' : '0';  // written before the machine was started again
  write_file_atomically(path(), text);
  EXPECT_EQ(entries_of("key"), Entries{"one"});
  Journal(path(), "key").append("new two");
  EXPECT_EQ(entries_of("key"), (Entries{"one", "new two"}));
}

TEST_F(JournalTest, OneProcessAtATime) {
  Journal first(path(), "key");
  EXPECT_THROW(Journal(path(), "key"), Error);
  first.remove();
  EXPECT_FALSE(std::filesystem::exists(path()));
  Journal second(path(), "key");  // another file by now
  EXPECT_FALSE(second.was_same());
}

}  // namespace
}  // namespace craton::runtime
