#include "craton/comm/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "craton/base/error.h"

namespace craton::comm {
namespace {

constexpr size_t kCut = 64 / sizeof(float);
/// Floats of one step of a long sum: the partial sums stay in the first-level cache.
constexpr size_t kBlock = 2048;
/// Inputs that are added in one pass: memory is read once and written once.
constexpr size_t kStreams = 4;

Rank shifted(const Communicator& comm, int by) {
  const int n = comm.world_size();
  return Rank(((comm.rank().value() + by) % n + n) % n);
}

std::span<const std::byte> whole(const Message& message, size_t expected) {
  if (message.bytes() != expected || message.pieces().size() != 1) {
    fail(ErrorCode::kCorrupt, "a collective got {} bytes from a peer, expected {}", message.bytes(),
         expected);
  }
  return message.pieces()[0];
}

void wait_all(const std::vector<std::unique_ptr<PendingSend>>& sends) {
  for (const auto& send : sends) send->wait();
}

std::unique_ptr<PendingSend> send_one(Communicator& comm, Rank to, uint64_t operation,
                                      std::span<const std::byte> bytes) {
  return comm.send(to, operation, {&bytes, 1});
}

/// out[i] = ((in[0][i] + in[1][i]) + ...) + in[count - 1][i]; `out` may be one of the inputs.
void sum_streams(const float* const* in, size_t count, float* out, size_t n) {
  const float *a = in[0], *b = in[count > 1 ? 1 : 0], *c = in[count > 2 ? 2 : 0],
              *d = in[count > 3 ? 3 : 0];
  switch (count) {
    case 1:
      if (out != a) std::memmove(out, a, n * sizeof(float));
      return;
    case 2:
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
      return;
    case 3:
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) out[i] = (a[i] + b[i]) + c[i];
      return;
    default:
#pragma GCC ivdep
      for (size_t i = 0; i < n; ++i) out[i] = ((a[i] + b[i]) + c[i]) + d[i];
  }
}

/// The same for any number of inputs, in blocks.
void sum_in_order(const std::vector<const float*>& in, float* out, size_t elements) {
  if (in.size() <= kStreams) {
    sum_streams(in.data(), in.size(), out, elements);
    return;
  }
  alignas(64) std::array<float, kBlock> sum;
  for (size_t at = 0; at < elements; at += kBlock) {
    const size_t n = std::min(kBlock, elements - at);
    for (size_t first = 0; first < in.size();) {
      std::array<const float*, kStreams> streams;
      size_t count = 0;
      if (first > 0) streams[count++] = sum.data();
      while (count < kStreams && first < in.size()) streams[count++] = in[first++] + at;
      sum_streams(streams.data(), count, sum.data(), n);
    }
    std::memcpy(out + at, sum.data(), n * sizeof(float));
  }
}

}  // namespace

Part part_of(size_t elements, int world_size, Rank rank) {
  const size_t lines = (elements + kCut - 1) / kCut;
  const auto n = static_cast<size_t>(world_size), r = static_cast<size_t>(rank.value());
  const auto bound = [&](size_t i) { return std::min(elements, lines * i / n * kCut); };
  return {bound(r), bound(r + 1)};
}

void barrier(Communicator& comm, uint64_t operation) {
  // Round k: tell the rank 2^k ahead, hear from the one 2^k behind; after log2(n) rounds everyone
  // has heard, through others, from everyone. The partners of all rounds differ, so one number will
  // do.
  for (int distance = 1; distance < comm.world_size(); distance *= 2) {
    const auto send = send_one(comm, shifted(comm, distance), operation, {});
    comm.receive(shifted(comm, -distance), operation)->release();
    send->wait();
  }
}

void broadcast(Communicator& comm, uint64_t operation, Rank root, std::span<std::byte> bytes) {
  if (comm.rank() != root) {
    const auto message = comm.receive(root, operation);
    const auto from = whole(*message, bytes.size());
    if (!from.empty()) std::memcpy(bytes.data(), from.data(), from.size());
    message->release();
    return;
  }
  std::vector<std::unique_ptr<PendingSend>> sends;
  for (int i = 1; i < comm.world_size(); ++i) {
    sends.push_back(send_one(comm, shifted(comm, i), operation, bytes));
  }
  wait_all(sends);
}

std::vector<std::vector<std::byte>> all_gather_bytes(Communicator& comm, uint64_t operation,
                                                     std::span<const std::byte> own) {
  std::vector<std::vector<std::byte>> all(static_cast<size_t>(comm.world_size()));
  std::vector<std::unique_ptr<PendingSend>> sends;
  for (int i = 1; i < comm.world_size(); ++i) {
    sends.push_back(send_one(comm, shifted(comm, i), operation, own));
  }
  all[static_cast<size_t>(comm.rank().value())].assign(own.begin(), own.end());
  for (int i = 1; i < comm.world_size(); ++i) {
    const Rank from = shifted(comm, -i);
    const auto message = comm.receive(from, operation);
    auto& bytes = all[static_cast<size_t>(from.value())];
    bytes.reserve(message->bytes());
    for (const auto& piece : message->pieces()) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    message->release();
  }
  wait_all(sends);
  return all;
}

void reduce_scatter(Communicator& comm, uint64_t operation, std::span<float> data) {
  const int n = comm.world_size();
  std::vector<std::unique_ptr<PendingSend>> sends;
  for (int i = 1; i < n; ++i) {
    const Rank to = shifted(comm, i);
    const Part part = part_of(data.size(), n, to);
    sends.push_back(
        send_one(comm, to, operation, std::as_bytes(data.subspan(part.begin, part.size()))));
  }
  const Part own = part_of(data.size(), n, comm.rank());
  std::vector<std::unique_ptr<Message>> messages(static_cast<size_t>(n));
  std::vector<const float*> inputs(static_cast<size_t>(n), data.data() + own.begin);
  for (int i = 1; i < n; ++i) {
    const auto from = static_cast<size_t>(shifted(comm, -i).value());
    messages[from] = comm.receive(Rank(static_cast<int32_t>(from)), operation);
    inputs[from] =
        reinterpret_cast<const float*>(whole(*messages[from], own.size() * sizeof(float)).data());
  }
  sum_in_order(inputs, data.data() + own.begin, own.size());
  for (const auto& message : messages) {
    if (message) message->release();
  }
  wait_all(sends);
}

void all_gather(Communicator& comm, uint64_t operation, std::span<float> data) {
  const int n = comm.world_size();
  const Part own = part_of(data.size(), n, comm.rank());
  std::vector<std::unique_ptr<PendingSend>> sends;
  for (int i = 1; i < n; ++i) {
    sends.push_back(send_one(comm, shifted(comm, i), operation,
                             std::as_bytes(data.subspan(own.begin, own.size()))));
  }
  for (int i = 1; i < n; ++i) {
    const Rank from = shifted(comm, -i);
    const Part part = part_of(data.size(), n, from);
    const auto message = comm.receive(from, operation);
    const auto bytes = whole(*message, part.size() * sizeof(float));
    if (!bytes.empty()) std::memcpy(data.data() + part.begin, bytes.data(), bytes.size());
    message->release();
  }
  wait_all(sends);
}

void all_reduce_small(Communicator& comm, uint64_t operation, std::span<double> values) {
  const auto all = all_gather_bytes(comm, operation, std::as_bytes(values));
  std::vector<double> one(values.size());
  std::fill(values.begin(), values.end(), 0.0);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != values.size_bytes()) {
      fail(ErrorCode::kCorrupt, "rank {} summed {} bytes, expected {}", rank, all[rank].size(),
           values.size_bytes());
    }
    if (!one.empty()) std::memcpy(one.data(), all[rank].data(), all[rank].size());
    for (size_t i = 0; i < one.size(); ++i) values[i] = rank == 0 ? one[i] : values[i] + one[i];
  }
}

}  // namespace craton::comm
