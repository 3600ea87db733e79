#include "craton/parallel/whole_tensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "craton/base/check.h"
#include "craton/parallel/operations.h"

namespace craton::parallel {
namespace {

/// The part of a parameter that lies in one chunk.
struct Overlap {
  int64_t chunk = 0;
  int64_t in_chunk = 0, in_tensor = 0, length = 0;
};

std::vector<Overlap> overlaps(const FlatLayout& layout, const ParameterSlot& slot) {
  std::vector<Overlap> out;
  for (int64_t at = slot.offset; at < slot.offset + slot.numel;) {
    const int64_t chunk = at / kChunkElements;
    const int64_t end = std::min(layout.chunk(chunk).end(), slot.offset + slot.numel);
    out.push_back({chunk, at - chunk * kChunkElements, at - slot.offset, end - at});
    at = end;
  }
  return out;
}

}  // namespace

std::vector<Rank> distribute_tensors(const FlatLayout& layout, int world_size) {
  std::vector<size_t> order(layout.slots().size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return layout.slots()[a].numel > layout.slots()[b].numel;
  });
  std::vector<int64_t> load(static_cast<size_t>(world_size), 0);
  std::vector<Rank> owners(layout.slots().size());
  for (size_t slot : order) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    load[static_cast<size_t>(least)] += layout.slots()[slot].numel;
    owners[slot] = Rank(static_cast<int32_t>(least));
  }
  return owners;
}

std::vector<WholeTensor> gather_whole_tensors(ShardedState& state, comm::Communicator& communicator,
                                              const Assignment& assignment, Step step) {
  const FlatLayout& layout = state.layout();
  const Rank self = communicator.rank();
  const int members = assignment.world_size();  // without those who have left the generation
  const std::vector<Rank> owners = distribute_tensors(layout, members);
  // Calls visit(slot, overlap) for what `primary` holds of the tensors of `owner`: the same order
  // on both sides.
  const auto walk = [&](Rank primary, Rank owner, const auto& visit) {
    for (size_t slot = 0; slot < owners.size(); ++slot) {
      if (owners[slot] != owner) continue;
      for (const Overlap& part : overlaps(layout, layout.slots()[slot])) {
        if (assignment.primary(layout.shard_of(part.chunk)) == primary) visit(slot, part);
      }
    }
  };

  std::vector<std::unique_ptr<comm::PendingSend>> sends;
  for (int r = 0; r < members; ++r) {
    if (Rank(r) == self) continue;
    std::vector<std::span<const std::byte>> pieces;
    walk(self, Rank(r), [&](size_t, const Overlap& part) {
      for (const float* from : {state.parameters(part.chunk), state.exp_avg(part.chunk),
                                state.exp_avg_sq(part.chunk)}) {
        pieces.push_back(
            std::as_bytes(std::span(from + part.in_chunk, static_cast<size_t>(part.length))));
      }
    });
    if (!pieces.empty())
      sends.push_back(communicator.send(Rank(r), operation(step, Phase::kState), pieces));
  }

  std::vector<WholeTensor> tensors;
  std::vector<size_t> position(owners.size());
  for (size_t slot = 0; slot < owners.size(); ++slot) {
    if (owners[slot] != self) continue;
    position[slot] = tensors.size();
    const std::vector<float> empty(static_cast<size_t>(layout.slots()[slot].numel));
    tensors.push_back({slot, empty, empty, empty});
  }
  for (int r = 0; r < members; ++r) {
    bool any = false;
    walk(Rank(r), self, [&](size_t, const Overlap&) { any = true; });
    if (!any) continue;
    const auto message =
        Rank(r) == self ? nullptr : communicator.receive(Rank(r), operation(step, Phase::kState));
    size_t piece = 0;
    walk(Rank(r), self, [&](size_t slot, const Overlap& part) {
      WholeTensor& tensor = tensors[position[slot]];
      const float* own[] = {nullptr, nullptr, nullptr};
      if (!message) {
        own[0] = state.parameters(part.chunk) + part.in_chunk;
        own[1] = state.exp_avg(part.chunk) + part.in_chunk;
        own[2] = state.exp_avg_sq(part.chunk) + part.in_chunk;
      }
      size_t k = 0;
      for (std::vector<float>* to : {&tensor.parameter, &tensor.exp_avg, &tensor.exp_avg_sq}) {
        const auto bytes = static_cast<size_t>(part.length) * sizeof(float);
        const void* from = own[k++];
        if (message) {
          CRATON_CHECK(message->pieces()[piece].size() == bytes);
          from = message->pieces()[piece++].data();
        }
        std::memcpy(to->data() + part.in_tensor, from, bytes);
      }
    });
  }
  for (auto& send : sends) send->wait();
  return tensors;
}

}  // namespace craton::parallel
