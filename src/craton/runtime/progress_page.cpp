#include "craton/runtime/progress_page.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "craton/base/error.h"

namespace craton::runtime {
namespace {

ProgressPage private_page;
ProgressPage* current_page = &private_page;

void* map(int fd, int protection) {
  struct stat info;
  if (fd < 0 || ::fstat(fd, &info) != 0 || info.st_size < off_t{sizeof(ProgressPage)})
    return nullptr;
  void* memory = ::mmap(nullptr, sizeof(ProgressPage), protection, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

thread_local bool detail::watched_thread = false;

FileDescriptor make_progress_page() {
  FileDescriptor fd(::memfd_create("craton-progress", 0));
  if (!fd.valid() || ::ftruncate(fd.get(), sizeof(ProgressPage)) != 0)
    fail_errno("cannot make a progress page", errno);
  return fd;
}

const ProgressPage* map_progress_page(int fd) {
  return static_cast<const ProgressPage*>(map(fd, PROT_READ));
}

void unmap_progress_page(const ProgressPage* page) {
  ::munmap(const_cast<ProgressPage*>(page), sizeof(ProgressPage));
}

ProgressPage& progress() { return *current_page; }

bool publish_progress(int fd) {
  void* memory = map(fd, PROT_READ | PROT_WRITE);
  if (memory == nullptr) return false;
  current_page = static_cast<ProgressPage*>(memory);
  detail::watched_thread = true;
  return true;
}

}  // namespace craton::runtime
