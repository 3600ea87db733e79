#pragma once

// The body of the attention kernels, compiled once for each vector type. Internal linkage, and no
// inline function of other headers (see vector_avx2.h).
//
// Idea. A register tile of 6 rows x 2 vectors is the only inner loop: C[6][2W] += A[6][n] B[n][2W],
// where A's elements are broadcast and B is packed so that each step reads 2W neighbours. All seven
// products of attention are of this form, over blocks of 96 x 96 that stay in the level-2 cache.
// Two packings serve them:
//   dim panels  [head_dim / 2W][rows][2W]   rows of Q, dO, V, K: B where rows are summed over, A
//   where channels are key panels  [rows / 2W][head_dim][2W]   K^T, V^T: B where channels are
//   summed over
// Q is packed with scale * log2(e), so that probabilities are 2^(s - max).
// Forward (FlashAttention-2): for each query block, over key blocks: S = Q K^T, online softmax, O =
// alpha O + P V. Backward: for each key block, over query blocks: P = 2^(S - L), dV += P^T dO, dP =
// dO V^T, dS = P (dP - D), dK += dS^T Q, dQ += dS K. Orders of sums depend on shapes only. S has
// the same bits forward and backward.
#include "craton/tensor/attention_call.h"

namespace craton::tensor {
namespace {

template <typename V>
struct AttentionKernel {
  using T = typename V::T;
  static constexpr int kWidth = V::kWidth;
  static constexpr int kPanel = 2 * kWidth;
  static constexpr int kRows = 6;
  static constexpr int kBlock = 96;
  /// Rows of P and dS; not a power of two, so that a column does not fall into few cache sets.
  static constexpr int kScoreStride = kBlock + 16;
  static constexpr int64_t kSegment = 64 * kBlock;
  static constexpr T kInfinity = __builtin_huge_val();
  static constexpr T kLog2E = 1.4426950408889634074;
  static constexpr T kLn2 = 0.69314718055994530942;

  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
  static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
  static int64_t padded_dim(const AttentionShape& s) { return round_up(s.head_dim, kPanel); }

  struct Tile {
    V c[kRows][2];

    void clear() {
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) c[i][0] = c[i][1] = V::zero();
    }
    /// Rows `stride` elements apart.
    void load(const T* p, int stride) {
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        c[i][0] = V::load(p + i * stride);
        c[i][1] = V::load(p + i * stride + kWidth);
      }
    }
    void store(T* p, int stride) const {
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        c[i][0].store(p + i * stride);
        c[i][1].store(p + i * stride + kWidth);
      }
    }
    /// C += A B over n steps; A[i][k] is a[i * kRowStride + k * kStepStride].
    template <int kRowStride, int kStepStride>
    void multiply(const T* a, const T* b, int64_t n) {
      for (int64_t k = 0; k < n; ++k) {
        const V b0 = V::load(b), b1 = V::load(b + kWidth);
#pragma GCC unroll 6
        for (int i = 0; i < kRows; ++i) {
          const V x = V::set(a[i * kRowStride]);
          c[i][0] = multiply_add(x, b0, c[i][0]);
          c[i][1] = multiply_add(x, b1, c[i][1]);
        }
        a += kStepStride;
        b += kPanel;
      }
    }
    /// Sum over channels: six rows of dim panels against one key panel.
    void multiply_channels(const T* rows, int64_t panel_stride, const T* key_panel,
                           int64_t panels) {
      for (int64_t p = 0; p < panels; ++p) {
        multiply<kPanel, 1>(rows + p * panel_stride, key_panel + p * kPanel * kPanel, kPanel);
      }
    }
  };

  /// Packs n rows into dim panels of `rows` rows, times factor; what is beyond n or head_dim, or
  /// hidden, becomes 0.
  static void pack_dim_panels(T* to, int64_t rows, const T* from, int64_t stride, int64_t n,
                              int64_t dim, T factor, const bool* visible) {
    const V f = V::set(factor);
    for (int64_t p = 0; p * kPanel < dim; ++p) {
      const int64_t width = least(kPanel, dim - p * kPanel);
      for (int64_t i = 0; i < rows; ++i) {
        T* out = to + (p * rows + i) * kPanel;
        const T* in = from + i * stride + p * kPanel;
        if (i >= n || (visible && !visible[i])) {
          for (int j = 0; j < kPanel; ++j) out[j] = 0;
        } else if (width == kPanel) {
          (V::load(in) * f).store(out);
          (V::load(in + kWidth) * f).store(out + kWidth);
        } else {
          for (int j = 0; j < kPanel; ++j) out[j] = j < width ? in[j] * factor : T(0);
        }
      }
    }
  }

  /// Packs n rows into key panels; what is beyond n or head_dim, or hidden, becomes 0.
  static void pack_key_panels(T* to, const T* from, int64_t stride, int64_t n, int64_t dim,
                              int64_t padded, const bool* visible) {
    for (int64_t k0 = 0; k0 < n; k0 += kPanel, to += padded * kPanel) {
      for (int j = 0; j < kPanel; ++j) {
        const int64_t key = k0 + j;
        const bool there = key < n && !(visible && !visible[key]);
        const T* in = from + key * stride;
        for (int64_t d = 0; d < padded; ++d) to[d * kPanel + j] = there && d < dim ? in[d] : T(0);
      }
    }
  }

  struct Range {
    int64_t low, high;
  };
  /// Keys of [first, first + n) that a query at `position` may see, relative to first.
  static Range visible_keys(const AttentionMask& m, int64_t position, int64_t first, int64_t n) {
    int64_t low = 0, high = n;
    if (m.causal) high = least(high, position + 1 - first);
    if (m.window > 0) {
      low = most(low, position - m.window + 1 - first);
      if (!m.causal) high = least(high, position + m.window - first);
    }
    return {least(low, n), most(high, 0)};
  }

  /// A block of queries against a block of keys.
  struct Pair {
    int64_t position;  ///< of the first query
    int64_t queries, first_key, keys;
    const bool* visible;  ///< of the block's keys, or null when all are

    bool empty(const AttentionMask& m) const {
      const Range first = visible_keys(m, position, first_key, keys);
      const Range last = visible_keys(m, position + queries - 1, first_key, keys);
      return first.low >= last.high;
    }
    bool whole(const AttentionMask& m) const {
      const Range first = visible_keys(m, position, first_key, keys);
      const Range last = visible_keys(m, position + queries - 1, first_key, keys);
      return keys % kPanel == 0 && !visible && first.low == 0 && first.high == keys &&
             last.low == 0 && last.high == keys;
    }
    /// Sets what query i does not see among the scores of keys [begin, end) to `value`.
    void hide(const AttentionMask& m, int64_t i, T* scores, int64_t begin, int64_t end,
              T value) const {
      const Range r = visible_keys(m, position + i, first_key, keys);
      for (int64_t j = begin; j < least(r.low, end); ++j) scores[j - begin] = value;
      for (int64_t j = most(r.high, begin); j < end; ++j) scores[j - begin] = value;
      if (visible) {
        for (int64_t j = begin; j < least(keys, end); ++j) {
          if (!visible[j]) scores[j - begin] = value;
        }
      }
    }
  };

  static const bool* visible_in(const bool* row, int64_t first, int64_t n) {
    if (row == nullptr) return nullptr;
    for (int64_t j = first; j < first + n; ++j) {
      if (!row[j]) return row + first;
    }
    return nullptr;
  }

  // ---- forward ----

  static int64_t forward_workspace(const AttentionShape& s) {
    const int64_t keys = least(round_up(s.keys, kPanel), kSegment);
    return padded_dim(s) * (2 * keys + 2 * kBlock) + kBlock * kScoreStride + 4 * kBlock;
  }

  struct Forward {
    const AttentionForwardCall<T>& call;
    int64_t dim, panels;
    T *key_panels, *value_panels, *query, *out, *scores, *row_max, *row_sum, *alpha, *base;
    int64_t segment_rows = 0;

    Forward(const AttentionForwardCall<T>& c, T* work)
        : call(c), dim(padded_dim(c.shape)), panels(dim / kPanel) {
      const int64_t keys = least(round_up(c.shape.keys, kPanel), kSegment);
      key_panels = work;
      value_panels = key_panels + dim * keys;
      query = value_panels + dim * keys;
      out = query + dim * kBlock;
      scores = out + dim * kBlock;
      row_max = scores + kBlock * kScoreStride;
      row_sum = row_max + kBlock;
      alpha = row_sum + kBlock;
      base = alpha + kBlock;
    }

    void run(int64_t batch, int64_t kv_head) {
      const AttentionShape& s = call.shape;
      const bool* visible =
          call.mask.key_mask ? call.mask.key_mask + batch * call.mask.key_mask_stride : nullptr;
      const int64_t group = s.heads / s.kv_heads;
      for (int64_t first = 0; first < s.keys; first += kSegment) {
        const int64_t n = least(kSegment, s.keys - first);
        segment_rows = round_up(n, kPanel);
        pack_key_panels(key_panels, call.k.row(batch, first, kv_head), call.k.token_stride, n,
                        s.head_dim, dim, visible ? visible + first : nullptr);
        pack_dim_panels(value_panels, segment_rows, call.v.row(batch, first, kv_head),
                        call.v.token_stride, n, s.head_dim, 1, visible ? visible + first : nullptr);
        for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
          for (int64_t query = 0; query < s.queries; query += kBlock)
            query_block(batch, head, query, first, n, visible);
        }
      }
    }

    void query_block(int64_t batch, int64_t head, int64_t first_query, int64_t first_key, int64_t n,
                     const bool* visible) {
      const AttentionShape& s = call.shape;
      const int64_t rows = least(kBlock, s.queries - first_query);
      const int64_t position = first_query + call.mask.query_offset;
      if (Pair{position, rows, first_key, n, nullptr}.empty(call.mask)) return;
      const int64_t state = (batch * s.heads + head) * s.queries + first_query;
      pack_dim_panels(query, kBlock, call.q.row(batch, first_query, head), call.q.token_stride,
                      rows, s.head_dim, T(call.scale) * kLog2E, nullptr);
      const HeadRows<T>& o = call.state.out;
      pack_dim_panels(out, kBlock, o.row(batch, first_query, head), o.token_stride, rows,
                      s.head_dim, 1, nullptr);
      for (int64_t i = 0; i < kBlock; ++i) {
        row_max[i] = i < rows ? call.state.max[state + i] : -kInfinity;
        row_sum[i] = i < rows ? call.state.sum[state + i] : T(0);
      }
      for (int64_t key = 0; key < n; key += kBlock) {
        const int64_t keys = least(kBlock, n - key);
        Pair pair{position, rows, first_key + key, keys,
                  visible_in(visible, first_key + key, keys)};
        if (!pair.empty(call.mask)) block(pair, key);
      }
      for (int64_t i = 0; i < rows; ++i) {
        call.state.max[state + i] = row_max[i];
        call.state.sum[state + i] = row_sum[i];
        T* to = o.row(batch, first_query + i, head);
        for (int64_t d = 0; d < s.head_dim; ++d)
          to[d] = out[(d / kPanel * kBlock + i) * kPanel + d % kPanel];
      }
    }

    void block(const Pair& pair, int64_t key) {
      const int64_t rows = round_up(pair.queries, kRows), columns = round_up(pair.keys, kPanel);
      for (int64_t j = 0; j < columns; j += kPanel) {
        for (int64_t i = 0; i < rows; i += kRows) {
          Tile t;
          t.clear();
          t.multiply_channels(query + i * kPanel, kBlock * kPanel, key_panels + (key + j) * dim,
                              panels);
          t.store(scores + i * kScoreStride + j, kScoreStride);
        }
      }
      softmax(pair, rows, columns);
      for (int64_t p = 0; p < panels; ++p) {
        for (int64_t i = 0; i < rows; i += kRows) {
          T* to = out + (p * kBlock + i) * kPanel;
          Tile t;
          t.load(to, kPanel);
#pragma GCC unroll 6
          for (int r = 0; r < kRows; ++r) {
            const V a = V::set(alpha[i + r]);
            t.c[r][0] = t.c[r][0] * a;
            t.c[r][1] = t.c[r][1] * a;
          }
          t.template multiply<kScoreStride, 1>(scores + i * kScoreStride,
                                               value_panels + (p * segment_rows + key) * kPanel,
                                               pair.keys);
          t.store(to, kPanel);
        }
      }
    }

    /// Turns scores into probabilities relative to the new maximum of each row; alpha is what that
    /// costs the sums so far.
    void softmax(const Pair& pair, int64_t rows, int64_t columns) {
      const bool whole = pair.whole(call.mask);
      for (int64_t i = 0; i < rows; ++i) {
        T* row = scores + i * kScoreStride;
        if (!whole) pair.hide(call.mask, i, row, 0, columns, -kInfinity);
        V m0 = V::load(row), m1 = V::load(row + kWidth);
        for (int64_t j = kPanel; j < columns; j += kPanel) {
          m0 = maximum(m0, V::load(row + j));
          m1 = maximum(m1, V::load(row + j + kWidth));
        }
        const T block_max = max_lane(maximum(m0, m1));
        const T old_max = row_max[i];
        row_max[i] = block_max > old_max ? block_max : old_max;
        base[i] = row_max[i] == -kInfinity ? T(0) : row_max[i];
        alpha[i] = old_max - base[i];
      }
      for (int64_t i = 0; i < rows; i += kPanel) {
        V change[2] = {V::load(alpha + i), V::load(alpha + i + kWidth)};
        powers_of_two(change);
        change[0].store(alpha + i);
        change[1].store(alpha + i + kWidth);
      }
      for (int64_t i = 0; i < rows; ++i) {
        T* row = scores + i * kScoreStride;
        const V shift = V::set(base[i]);
        V s0 = V::zero(), s1 = V::zero();
        for (int64_t j = 0; j < columns; j += kPanel) {
          V p[2] = {V::load(row + j) - shift, V::load(row + j + kWidth) - shift};
          powers_of_two(p);
          if (!whole) {
            p[0].store(row + j);
            p[1].store(row + j + kWidth);
            pair.hide(call.mask, i, row + j, j, j + kPanel, 0);
            p[0] = V::load(row + j);
            p[1] = V::load(row + j + kWidth);
          }
          p[0].store(row + j);
          p[1].store(row + j + kWidth);
          s0 = s0 + p[0];
          s1 = s1 + p[1];
        }
        row_sum[i] = row_sum[i] * alpha[i] + sum_lanes(s0 + s1);
      }
    }
  };

  static void forward(const AttentionForwardCall<T>& call, int64_t batch, int64_t kv_head,
                      T* work) {
    Forward(call, work).run(batch, kv_head);
  }

  // ---- backward ----

  static int64_t backward_workspace(const AttentionShape& s) {
    const int64_t queries = least(round_up(s.queries, kRows), kSegment);
    return padded_dim(s) * (3 * queries + 5 * kBlock) + 2 * kBlock * kScoreStride + 2 * queries;
  }

  struct Backward {
    const AttentionBackwardCall<T>& call;
    int64_t dim, panels;
    T *query, *d_out, *d_query, *key_panels, *key_rows, *value_panels, *d_key, *d_value, *p, *ds,
        *lse, *dots;
    int64_t segment_rows = 0;

    Backward(const AttentionBackwardCall<T>& c, T* work)
        : call(c), dim(padded_dim(c.shape)), panels(dim / kPanel) {
      const int64_t queries = least(round_up(c.shape.queries, kRows), kSegment);
      query = work;
      d_out = query + dim * queries;
      d_query = d_out + dim * queries;
      key_panels = d_query + dim * queries;
      key_rows = key_panels + dim * kBlock;
      value_panels = key_rows + dim * kBlock;
      d_key = value_panels + dim * kBlock;
      d_value = d_key + dim * kBlock;
      p = d_value + dim * kBlock;
      ds = p + kBlock * kScoreStride;
      lse = ds + kBlock * kScoreStride;
      dots = lse + queries;
    }

    void run(int64_t batch, int64_t kv_head) {
      const AttentionShape& s = call.shape;
      const int64_t group = s.heads / s.kv_heads;
      bool accumulate = call.accumulate;
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        for (int64_t first = 0; first < s.queries; first += kSegment) {
          segment(batch, head, kv_head, first, least(kSegment, s.queries - first), accumulate);
          accumulate = true;
        }
      }
    }

    void segment(int64_t batch, int64_t head, int64_t kv_head, int64_t first, int64_t n,
                 bool accumulate_keys) {
      const AttentionShape& s = call.shape;
      segment_rows = round_up(n, kRows);
      pack_dim_panels(query, segment_rows, call.q.row(batch, first, head), call.q.token_stride, n,
                      s.head_dim, T(call.scale) * kLog2E, nullptr);
      pack_dim_panels(d_out, segment_rows, call.d_out.row(batch, first, head),
                      call.d_out.token_stride, n, s.head_dim, 1, nullptr);
      for (int64_t i = 0; i < dim * segment_rows; ++i) d_query[i] = 0;
      const int64_t row = (batch * s.heads + head) * s.queries + first;
      for (int64_t i = 0; i < segment_rows; ++i) {
        const T l = i < n ? call.lse[row + i] : -kInfinity;
        lse[i] = l == -kInfinity ? kInfinity : l * kLog2E;  // a row without keys: 2^(s - inf) = 0
        dots[i] = i < n ? call.row_dots[row + i] : T(0);
      }
      for (int64_t key = 0; key < s.keys; key += kBlock)
        key_block(batch, kv_head, first, n, key, accumulate_keys);
      unpack(d_query, segment_rows, call.dq, batch, first, head, n, T(call.scale), call.accumulate);
    }

    void key_block(int64_t batch, int64_t kv_head, int64_t first_query, int64_t n, int64_t key,
                   bool accumulate) {
      const AttentionShape& s = call.shape;
      const int64_t keys = least(kBlock, s.keys - key);
      const bool* row =
          call.mask.key_mask ? call.mask.key_mask + batch * call.mask.key_mask_stride : nullptr;
      const bool* visible = visible_in(row, key, keys);
      const int64_t rows = round_up(keys, kPanel);
      pack_key_panels(key_panels, call.k.row(batch, key, kv_head), call.k.token_stride, keys,
                      s.head_dim, dim, visible);
      pack_key_panels(value_panels, call.v.row(batch, key, kv_head), call.v.token_stride, keys,
                      s.head_dim, dim, visible);
      pack_dim_panels(key_rows, rows, call.k.row(batch, key, kv_head), call.k.token_stride, keys,
                      s.head_dim, 1, visible);
      for (int64_t i = 0; i < dim * kBlock; ++i) d_key[i] = d_value[i] = 0;
      for (int64_t query_row = 0; query_row < n; query_row += kBlock) {
        const Pair pair{first_query + query_row + call.mask.query_offset,
                        least(kBlock, n - query_row), key, keys, visible};
        if (!pair.empty(call.mask)) block(pair, query_row, rows);
      }
      unpack(d_key, kBlock, call.dk, batch, key, kv_head, keys, kLn2, accumulate);
      unpack(d_value, kBlock, call.dv, batch, key, kv_head, keys, 1, accumulate);
    }

    void block(const Pair& pair, int64_t first, int64_t key_panel_rows) {
      const int64_t rows = round_up(pair.queries, kRows), columns = round_up(pair.keys, kPanel);
      const bool whole = pair.whole(call.mask);
      for (int64_t j = 0; j < columns; j += kPanel) {
        for (int64_t i = 0; i < rows; i += kRows) probabilities(pair, whole, first, i, j);
      }
      for (int64_t c = 0; c < panels; ++c) {
        const T* g = d_out + (c * segment_rows + first) * kPanel;
        const T* q = query + (c * segment_rows + first) * kPanel;
        for (int64_t i = 0; i < pair.keys; i += kRows) {
          add_product<1, kScoreStride>(d_value + (c * kBlock + i) * kPanel, p + i, g, rows);
        }
        for (int64_t i = 0; i < pair.keys; i += kRows) {
          add_product<1, kScoreStride>(d_key + (c * kBlock + i) * kPanel, ds + i, q, rows);
        }
        const T* k = key_rows + c * key_panel_rows * kPanel;
        for (int64_t i = 0; i < rows; i += kRows) {
          add_product<kScoreStride, 1>(d_query + (c * segment_rows + first + i) * kPanel,
                                       ds + i * kScoreStride, k, pair.keys);
        }
      }
    }

    template <int kRowStride, int kStepStride>
    static void add_product(T* to, const T* a, const T* b, int64_t n) {
      Tile t;
      t.load(to, kPanel);
      t.template multiply<kRowStride, kStepStride>(a, b, n);
      t.store(to, kPanel);
    }

    /// One tile of P and dS.
    void probabilities(const Pair& pair, bool whole, int64_t first, int64_t i, int64_t j) {
      T* probability = p + i * kScoreStride + j;
      T* d_score = ds + i * kScoreStride + j;
      Tile t;
      t.clear();
      t.multiply_channels(query + (first + i) * kPanel, segment_rows * kPanel, key_panels + j * dim,
                          panels);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const V shift = V::set(lse[first + i + r]);
        t.c[r][0] = t.c[r][0] - shift;
        t.c[r][1] = t.c[r][1] - shift;
        powers_of_two(t.c[r]);
        t.c[r][0].store(probability + r * kScoreStride);
        t.c[r][1].store(probability + r * kScoreStride + kWidth);
      }
      if (!whole) {
        for (int64_t r = 0; r < kRows; ++r) {
          pair.hide(call.mask, i + r, probability + r * kScoreStride, j, j + kPanel, 0);
        }
      }
      t.clear();
      t.multiply_channels(d_out + (first + i) * kPanel, segment_rows * kPanel,
                          value_panels + j * dim, panels);
#pragma GCC unroll 6
      for (int r = 0; r < kRows; ++r) {
        const V dot = V::set(dots[first + i + r]);
        for (int h = 0; h < 2; ++h) {
          const V prob = V::load(probability + r * kScoreStride + h * kWidth);
          (prob * (t.c[r][h] - dot)).store(d_score + r * kScoreStride + h * kWidth);
        }
      }
    }

    void unpack(const T* from, int64_t rows, const HeadRows<T>& to, int64_t batch, int64_t token,
                int64_t head, int64_t n, T factor, bool accumulate) const {
      for (int64_t i = 0; i < n; ++i) {
        T* out = to.row(batch, token + i, head);
        for (int64_t c = 0; c < panels; ++c) {
          const T* in = from + (c * rows + i) * kPanel;
          const int64_t width = least(kPanel, call.shape.head_dim - c * kPanel);
          for (int64_t d = 0; d < width; ++d) {
            T* x = out + c * kPanel + d;
            *x = accumulate ? *x + in[d] * factor : in[d] * factor;
          }
        }
      }
    }
  };

  static void backward(const AttentionBackwardCall<T>& call, int64_t batch, int64_t kv_head,
                       T* work) {
    Backward(call, work).run(batch, kv_head);
  }

  static constexpr AttentionKernelTable<T> table() {
    return {forward_workspace, forward, backward_workspace, backward};
  }
};

}  // namespace
}  // namespace craton::tensor
