#include "craton/protocol/operator_requests.h"

#include <gtest/gtest.h>

#include "craton/base/error.h"

namespace craton::protocol {
namespace {

TEST(OperatorRequests, ComeBackEqual) {
  const cluster::Instant here{5000}, there{70000};
  const std::string scale = encode_request(cluster::ScaleRequested{3}, here);
  EXPECT_EQ(std::get<cluster::ScaleRequested>(decode_request(kScaleMethod, scale, there)).workers,
            3);
  const cluster::DrainRequested drain{"", cluster::WorkerId(7), here + cluster::Duration(900)};
  const auto back = std::get<cluster::DrainRequested>(
      decode_request(kDrainMethod, encode_request(drain, here), there));
  EXPECT_EQ(back.worker, cluster::WorkerId(7));
  EXPECT_EQ(back.deadline, there + cluster::Duration(900));  // the time that is left travels
  EXPECT_FALSE(
      std::get<cluster::DrainRequested>(
          decode_request(kDrainMethod, encode_request(cluster::DrainRequested{"n1", {}, {}}, here),
                         there))
          .deadline);
  EXPECT_EQ(std::get<cluster::UndrainRequested>(
                decode_request(kUndrainMethod,
                               encode_request(cluster::UndrainRequested{"n2"}, here), there))
                .node,
            "n2");
  EXPECT_EQ(std::get<cluster::StopRequested>(
                decode_request(kStopMethod, encode_request(cluster::StopRequested{"enough"}, here),
                               there))
                .why,
            "enough");
  EXPECT_THROW(encode_request(cluster::Tick{}, here), Error);
  EXPECT_EQ(decode_answer(encode_answer({true, "done"})), (Answer{true, "done"}));
  EXPECT_THROW(decode_request("/craton.wire.Operator/Dance", scale, there), Error);
  EXPECT_THROW(decode_request(kScaleMethod, "\xff garbage", there), Error);
}

TEST(OperatorRequests, AStatusComesBackEqual) {
  JobStatus status;
  status.name = "demo";
  status.strategy = "zero1";
  status.phase = cluster::JobPhase::kRecovering;
  status.generation = 4;
  status.step = 12;
  status.steps = 100;
  status.checkpoint = 10;
  status.requested = 3;
  status.min_workers = 1;
  status.max_workers = 8;
  status.spares = 1;
  status.loss = 0.25;
  status.seconds_per_step = 0.5;
  status.elapsed_seconds = 9;
  status.pid = 4711;
  status.batch = 48;
  status.learning_rate = 3e-4;
  status.workers = {{cluster::WorkerId(7),
                     2,
                     1,
                     "node-a",
                     4712,
                     "trains",
                     {cluster::StepPhase::kGather, Step(12), 99, true},
                     cluster::Duration(40)}};
  EXPECT_EQ(decode_status(encode_status(status)), status);
  EXPECT_THROW(decode_status("\xff garbage"), Error);
}

}  // namespace
}  // namespace craton::protocol
