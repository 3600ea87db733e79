#include "craton/runtime/message_channel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "craton/base/error.h"
#include "craton/runtime/process.h"

namespace craton::runtime {
namespace {

using std::chrono::milliseconds;

TEST(MessageChannel, CarriesWholeMessagesOfAnySize) {
  auto [near, far_end] = MessageChannel::pair();
  MessageChannel far(std::move(far_end));
  const std::string large(1 << 20, 'x');
  std::thread sender([&, &channel = *near] {
    channel.send("");
    channel.send("hello");
    channel.send(large);
  });
  EXPECT_EQ(far.receive(milliseconds(-1)), "");
  EXPECT_EQ(far.receive(milliseconds(-1)), "hello");
  EXPECT_EQ(far.receive(milliseconds(-1)), large);
  sender.join();
  EXPECT_EQ(far.receive(milliseconds(0)), std::nullopt);
}

TEST(MessageChannel, TheOtherSidesEndIsAnError) {
  auto [near, far_end] = MessageChannel::pair();
  far_end.reset();
  EXPECT_THROW(near->receive(milliseconds(-1)), Error);
  EXPECT_THROW(near->send("x"), Error);
}

TEST(MessageChannel, ALyingLengthIsRefused) {
  auto [near, far_end] = MessageChannel::pair();
  const uint32_t length = 0xFFFFFFFF;
  ASSERT_EQ(::write(far_end.get(), &length, sizeof(length)), 4);
  EXPECT_THROW(near->receive(milliseconds(-1)), Error);
}

TEST(RunProgram, KeepsOutputErrorsAndExitCode) {
  const auto result = run_program({"sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).exit_code, 137);
  EXPECT_EQ(run_program({"sh", "-c", "echo $CRATON_X"}, {{"CRATON_X=5"}}).output, "5\n");
}

TEST(RunProgram, EndsWhatDoesNotEnd) {
  ProgramOptions options;
  options.timeout = std::chrono::seconds(1);
  EXPECT_THROW(run_program({"sh", "-c", "exec sleep 100"}, options), Error);
}

}  // namespace
}  // namespace craton::runtime
