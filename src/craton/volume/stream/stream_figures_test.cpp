#include "craton/volume/stream/stream_figures.h"

#include <gtest/gtest.h>

namespace craton::volume {
namespace {

StreamFigures idle() {
  StreamFigures f;
  f.seconds = 10;
  f.requests = 100;
  f.seconds_to_first_byte = 1;
  f.seconds_of_bodies = 1;
  return f;
}

TEST(StreamLimit, IsWhatTheTimeWentInto) {
  StreamFigures f = idle();
  f.seconds_to_first_byte = 30;
  EXPECT_EQ(limit_of(f, 2, 4).name, "server");
  f.seconds_of_bodies = 100;
  EXPECT_EQ(limit_of(f, 2, 4).name, "network");
  f.seconds_without_room = 20;
  EXPECT_EQ(limit_of(f, 2, 4).name, "memory");
  f.processor_seconds = 18;
  EXPECT_EQ(limit_of(f, 2, 4).name, "decode");
  f.slow_downs = 1;
  EXPECT_EQ(limit_of(f, 2, 4).name, "server");
  EXPECT_EQ(limit_of(StreamFigures(), 0, 0).name, "decode");
}

TEST(StreamFigures, OfSeveralWorkersAreAdded) {
  StreamFigures a = idle(), b = idle();
  a.latencies[10] = 99;
  b.latencies[60] = 1;
  b.seconds = 12;
  b.windows = 5;
  a.add(b);
  EXPECT_EQ(a.seconds, 12);
  EXPECT_EQ(a.windows, 5u);
  EXPECT_EQ(a.requests, 200u);
  EXPECT_LT(a.latency_quantile(0.5), 1e-3);
  EXPECT_GT(a.latency_quantile(0.999), 50e-3);
  EXPECT_EQ(StreamFigures().latency_quantile(0.5), 0);
}

}  // namespace
}  // namespace craton::volume
