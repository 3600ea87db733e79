#include "craton/runtime/stop_signal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace craton::runtime {
namespace {

using namespace std::chrono_literals;

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    here = FileDescriptor(fds[0]);
    there = FileDescriptor(fds[1]);
  }
  FileDescriptor here, there;
};

TEST(StopSignal, SendsAndReceivesWholeTexts) {
  const StopSignal stop;
  Pair pair;
  const std::string text(4 << 20, 'x');  // more than a socket holds
  std::thread sender([&] {
    EXPECT_TRUE(stop.send(pair.here.get(), std::as_bytes(std::span(text))));
    pair.here = FileDescriptor();
  });
  std::vector<std::byte> buffer(64 << 10);
  std::string data;
  while (stop.receive(pair.there.get(), buffer, data)) {
  }
  sender.join();
  EXPECT_EQ(data, text);
}

TEST(StopSignal, EndsWhatWaitsWithoutATimeoutAndWhatComesLater) {
  const StopSignal stop;
  Pair pair;
  std::array<std::byte, 16> buffer;
  std::string data;
  std::thread receiver([&] { EXPECT_FALSE(stop.receive(pair.there.get(), buffer, data)); });
  stop.give();
  receiver.join();
  const std::string text(4 << 20, 'x');
  EXPECT_FALSE(stop.send(pair.here.get(), std::as_bytes(std::span(text))));  // nobody reads
  EXPECT_FALSE(stop.wait(pair.there.get(), POLLIN));  // though there is something
}

TEST(StopSignal, ATimeoutEndsOneWaitAndNotTheNext) {
  const StopSignal stop;
  Pair pair;
  EXPECT_FALSE(stop.wait(pair.there.get(), POLLIN, 1ms));
  const std::string text = "later";
  ASSERT_TRUE(stop.send(pair.here.get(), std::as_bytes(std::span(text)), 10s));
  std::array<std::byte, 16> buffer;
  std::string data = "sooner, ";
  EXPECT_TRUE(stop.receive(pair.there.get(), buffer, data, 10s));
  EXPECT_EQ(data, "sooner, later");
}

}  // namespace
}  // namespace craton::runtime
