#pragma once

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "craton/base/error.h"
#include "craton/cluster/membership.h"
#include "craton/comm/collectives.h"
#include "craton/protocol/messages.h"

namespace craton::bench {

/// Where the time goes when a generation begins.
struct GenerationSeconds {
  double membership = 0;   ///< the operator names the members: decide, encode
  double reports = 0;      ///< all workers decode it, and report
  double decision = 0;     ///< the operator takes the reports and decides; encode
  double connections = 0;  ///< all workers decode the decision, join and pass a barrier
  double total() const { return membership + reports + decision + connections; }
};

inline constexpr std::array<std::pair<std::string_view, double GenerationSeconds::*>, 4>
    kGenerationParts = {{{"membership", &GenerationSeconds::membership},
                         {"reports", &GenerationSeconds::reports},
                         {"decision", &GenerationSeconds::decision},
                         {"connections", &GenerationSeconds::connections}}};

/// Stubs share one process here, so that its limit of descriptors counts for all of them.
inline void raise_descriptor_limit() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

/// The operator and `count` workers of one machine, the workers as threads of this process with an
/// endpoint each: from the moment when all are ready to the moment when all have passed a barrier.
class GenerationBench {
 public:
  /// `shards`: of the job, whatever its size.
  GenerationBench(int count, int shards) {
    comm::EndpointOptions options;
    options.transport = comm::TransportChoice::kSharedMemory;
    for (int i = 0; i < count; ++i) {
      endpoints_.push_back(std::make_unique<comm::Endpoint>(options));
      const comm::PeerAddress& a = endpoints_.back()->address();
      workers_.push_back(
          {cluster::WorkerId(a.incarnation), "node-" + std::to_string(i / 8),
           protocol::to_text({a.incarnation, a.host_id, a.local_socket, a.tcp_host, a.tcp_port}),
           "same"});
    }
    state_.options.shape = {.shards = shards, .micro_batches = count, .backups = 1};
    state_.options.start_workers = count;
    state_.options.elastic.max_workers = count;
    (void)event(cluster::OperatorStarted{});
  }

  GenerationSeconds run() {
    GenerationSeconds seconds;
    for (size_t i = 0; i + 1 < workers_.size(); ++i)
      (void)event(cluster::WorkerReady{workers_[i], Generation(0)});
    auto start = Clock::now();
    const std::string membership =
        encoded<cluster::Announce>(event(cluster::WorkerReady{workers_.back(), Generation(0)}));
    seconds.membership = lap(start);
    std::vector<std::string> reports(workers_.size());
    each_worker([&](size_t i) { reports[i] = report(i, membership); });
    seconds.reports = lap(start);
    std::string decision;
    for (const std::string& bytes : reports) {
      const auto message = protocol::decode(bytes);
      const auto actions = event(cluster::ReportReceived{std::get<cluster::Report>(message)});
      if (&bytes == &reports.back()) decision = encoded<cluster::SendDecision>(actions);
    }
    seconds.decision = lap(start);
    each_worker([&](size_t i) { enter(i, membership, decision); });
    seconds.connections = lap(start);
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static double lap(Clock::time_point& since) {
    const auto now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(since, now)).count();
  }
  std::vector<cluster::Action> event(decltype(cluster::Event::what) what) {
    return cluster::decide(state_, {cluster::Instant(1), std::move(what)});
  }
  template <typename Sent>
  static std::string encoded(const std::vector<cluster::Action>& actions) {
    for (const auto& action : actions) {
      if (const auto* sent = std::get_if<Sent>(&action)) {
        if constexpr (std::is_same_v<Sent, cluster::Announce>)
          return protocol::encode(sent->membership);
        else
          return protocol::encode(sent->decision);
      }
    }
    fail(ErrorCode::kInternal, "the operator has nothing to say");
  }
  template <typename Body>
  void each_worker(Body body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < workers_.size(); ++i) threads.emplace_back([&body, i] { body(i); });
    for (auto& thread : threads) thread.join();
  }
  std::string report(size_t i, const std::string& bytes) const {
    const auto message = protocol::decode(bytes);
    cluster::Report report;
    report.worker = workers_[i].id;
    report.generation = std::get<cluster::Membership>(message).generation;
    return protocol::encode(report);
  }
  void enter(size_t i, const std::string& membership, const std::string& decision) {
    const auto named = protocol::decode(membership), decided = protocol::decode(decision);
    const auto& members = std::get<cluster::Membership>(named);
    comm::Group group;
    group.generation = std::get<cluster::Decision>(decided).generation;
    for (const auto& member : members.members) {
      const auto a = protocol::parse_address(member.worker.address);
      group.members.push_back({a.incarnation, a.host_id, a.local_socket, a.tcp_host, a.tcp_port});
    }
    group.self = *cluster::rank_of(members.members, workers_[i].id);
    const auto communicator = endpoints_[i]->join(group);
    comm::barrier(*communicator, 0);
  }

  std::vector<std::unique_ptr<comm::Endpoint>> endpoints_;
  std::vector<cluster::WorkerInfo> workers_;
  cluster::MembershipState state_;
};

inline GenerationSeconds begin_generation(int count, int shards) {
  raise_descriptor_limit();
  return GenerationBench(count, shards).run();
}

}  // namespace craton::bench
