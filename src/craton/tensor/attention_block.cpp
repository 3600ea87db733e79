#include "craton/tensor/attention_block.h"

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "craton/tensor/attention_call.h"
#include "craton/tensor/processor.h"
#include "craton/tensor/torch.h"

namespace craton::tensor {
namespace {

constexpr double kLog2E = 1.4426950408889634074;
constexpr double kLn2 = 0.69314718055994530942;

template <typename T>
AttentionKernelTable<T> kernels() {
  if constexpr (std::is_same_v<T, float>) {
    if (vector_kernels()) return avx2_attention();
  }
  return portable_attention<T>();
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};

/// Scratch of the calling thread, kept between calls: fresh pages cost more than small kernels.
template <typename T>
T* workspace(int64_t elements) {
  thread_local std::unique_ptr<void, Free> memory;
  thread_local int64_t size = 0;
  if (elements > size) {
    memory.reset();
    memory.reset(std::aligned_alloc(64, (elements * sizeof(T) + 63) / 64 * 64));
    TORCH_CHECK(memory != nullptr, "attention: no memory for ", elements * sizeof(T),
                " bytes of scratch");
    size = elements;
  }
  return static_cast<T*>(memory.get());
}

/// Calls body(batch, head) for every pair. Each pair writes its own memory, so the split over
/// threads does not change bits.
template <typename F>
void for_each_head(int64_t batch, int64_t heads, F body) {
  at::parallel_for(0, batch * heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / heads, i % heads);
  });
}

template <typename T>
T dot(const T* a, const T* b, int64_t n) {
  T lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int j = 0; j < 8; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) lanes[i % 8] += a[i] * b[i];
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

}  // namespace

template <typename T>
void attention_begin(const AttentionShape& s, const AttentionState<T>& state) {
  for_each_head(s.batch, s.heads, [&](int64_t batch, int64_t head) {
    const int64_t first = (batch * s.heads + head) * s.queries;
    for (int64_t i = 0; i < s.queries; ++i) {
      state.max[first + i] = -std::numeric_limits<T>::infinity();
      state.sum[first + i] = 0;
      T* row = state.out.row(batch, i, head);
      for (int64_t d = 0; d < s.head_dim; ++d) row[d] = 0;
    }
  });
}

template <typename T>
void attention_forward_block(const AttentionShape& shape, const AttentionMask& mask, double scale,
                             HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                             const AttentionState<T>& state) {
  const AttentionForwardCall<T> call{shape, mask, scale, q, k, v, state};
  const AttentionKernelTable<T> kernel = kernels<T>();
  for_each_head(shape.batch, shape.kv_heads, [&](int64_t batch, int64_t head) {
    kernel.forward(call, batch, head, workspace<T>(kernel.forward_workspace(shape)));
  });
}

template <typename T>
void attention_finish(const AttentionShape& s, const AttentionState<T>& state, const T* sinks,
                      T* lse) {
  for_each_head(s.batch, s.heads, [&](int64_t batch, int64_t head) {
    const int64_t first = (batch * s.heads + head) * s.queries;
    for (int64_t i = 0; i < s.queries; ++i) {
      double max = state.max[first + i], sum = state.sum[first + i], factor = 1;
      if (sinks != nullptr) {
        const double sink = double(sinks[head]) * kLog2E;
        const double joint = std::max(max, sink);
        factor = std::exp2(max - joint);
        sum = sum * factor + std::exp2(sink - joint);
        max = joint;
      }
      const bool seen = sum != 0;  // NaN counts as seen: it must show
      lse[first + i] = seen ? T(max * kLn2 + std::log(sum)) : -std::numeric_limits<T>::infinity();
      const T scale = seen ? T(factor / sum) : T(0);
      T* row = state.out.row(batch, i, head);
      for (int64_t d = 0; d < s.head_dim; ++d) row[d] *= scale;
    }
  });
}

template <typename T>
void attention_merge(const AttentionShape& s, HeadRows<T> a, T* lse_a, HeadRows<const T> b,
                     const T* lse_b) {
  for_each_head(s.batch, s.heads, [&](int64_t batch, int64_t head) {
    const int64_t first = (batch * s.heads + head) * s.queries;
    for (int64_t i = 0; i < s.queries; ++i) {
      const double la = lse_a[first + i], lb = lse_b[first + i];
      const double max = std::max(la, lb);
      if (max == -std::numeric_limits<double>::infinity()) continue;  // neither saw a key
      const double wa = std::exp(la - max), wb = std::exp(lb - max);
      lse_a[first + i] = T(max + std::log(wa + wb));
      const T fa = T(wa / (wa + wb)), fb = T(wb / (wa + wb));
      T* to = a.row(batch, i, head);
      const T* from = b.row(batch, i, head);
      for (int64_t d = 0; d < s.head_dim; ++d) to[d] = fa * to[d] + fb * from[d];
    }
  });
}

template <typename T>
void attention_row_dots(const AttentionShape& s, HeadRows<const T> d_out, HeadRows<const T> out,
                        T* rows) {
  for_each_head(s.batch, s.heads, [&](int64_t batch, int64_t head) {
    const int64_t first = (batch * s.heads + head) * s.queries;
    for (int64_t i = 0; i < s.queries; ++i) {
      rows[first + i] = dot(d_out.row(batch, i, head), out.row(batch, i, head), s.head_dim);
    }
  });
}

template <typename T>
void attention_backward_block(const AttentionShape& shape, const AttentionMask& mask, double scale,
                              HeadRows<const T> q, HeadRows<const T> k, HeadRows<const T> v,
                              HeadRows<const T> d_out, const T* lse, const T* row_dots,
                              HeadRows<T> dq, HeadRows<T> dk, HeadRows<T> dv, bool accumulate) {
  const AttentionBackwardCall<T> call{shape, mask,     scale, q,  k,  v,         d_out,
                                      lse,   row_dots, dq,    dk, dv, accumulate};
  const AttentionKernelTable<T> kernel = kernels<T>();
  for_each_head(shape.batch, shape.kv_heads, [&](int64_t batch, int64_t head) {
    kernel.backward(call, batch, head, workspace<T>(kernel.backward_workspace(shape)));
  });
}

#define CRATON_INSTANTIATE(T)                                                                     \
  template void attention_begin(const AttentionShape&, const AttentionState<T>&);                 \
  template void attention_forward_block(const AttentionShape&, const AttentionMask&, double,      \
                                        HeadRows<const T>, HeadRows<const T>, HeadRows<const T>,  \
                                        const AttentionState<T>&);                                \
  template void attention_finish(const AttentionShape&, const AttentionState<T>&, const T*, T*);  \
  template void attention_merge(const AttentionShape&, HeadRows<T>, T*, HeadRows<const T>,        \
                                const T*);                                                        \
  template void attention_row_dots(const AttentionShape&, HeadRows<const T>, HeadRows<const T>,   \
                                   T*);                                                           \
  template void attention_backward_block(const AttentionShape&, const AttentionMask&, double,     \
                                         HeadRows<const T>, HeadRows<const T>, HeadRows<const T>, \
                                         HeadRows<const T>, const T*, const T*, HeadRows<T>,      \
                                         HeadRows<T>, HeadRows<T>, bool)
CRATON_INSTANTIATE(float);
CRATON_INSTANTIATE(double);
#undef CRATON_INSTANTIATE

}  // namespace craton::tensor
