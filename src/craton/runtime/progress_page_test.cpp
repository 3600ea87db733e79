#include "craton/runtime/progress_page.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace craton::runtime {
namespace {

TEST(ProgressPage, AnotherProcessSeesWhatThisOneDoes) {
  const FileDescriptor fd = make_progress_page();
  const ProgressPage* page = map_progress_page(fd.get());
  ASSERT_NE(page, nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (!publish_progress(fd.get())) ::_exit(1);
    set_progress_step(7);
    set_progress_phase(3);
    const ProgressWait wait(99);
    std::thread([] { const ProgressWait other(5); }).join();  // does not count
    ::_exit(0);  // as a process that dies while it waits
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(page->step, 7);
  EXPECT_EQ(page->phase, 3u);
  EXPECT_EQ(page->waiting, 1u);
  EXPECT_EQ(page->operation, 99u);
  EXPECT_EQ(page->changes, 3u);
  unmap_progress_page(page);
}

TEST(ProgressPage, AnotherFileIsNone) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  EXPECT_EQ(map_progress_page(fds[0]), nullptr);
  EXPECT_FALSE(publish_progress(fds[1]));
  EXPECT_EQ(map_progress_page(-1), nullptr);
  ::close(fds[0]);
  ::close(fds[1]);
}

}  // namespace
}  // namespace craton::runtime
