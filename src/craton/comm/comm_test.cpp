#include <gtest/gtest.h>

#include "craton/testing/transport_contract.h"

namespace craton::testing {
namespace {

comm::EndpointOptions with(comm::TransportChoice transport, std::string host_id = "") {
  comm::EndpointOptions options;
  options.transport = transport;
  options.host_id = std::move(host_id);
  return options;
}

const TransportCase kSharedMemory{"shared_memory",
                                  [](int) { return with(comm::TransportChoice::kSharedMemory); }};
const TransportCase kTcp{"tcp", [](int) { return with(comm::TransportChoice::kTcp); }};
/// Even and odd ranks stand for two hosts: shared memory within, TCP between.
const TransportCase kMixed{
    "mixed_tcp",
    [](int rank) { return with(comm::TransportChoice::kAuto, rank % 2 == 0 ? "even" : "odd"); }};

INSTANTIATE_TEST_SUITE_P(Comm, TransportContract, ::testing::Values(kSharedMemory, kTcp, kMixed),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace craton::testing
