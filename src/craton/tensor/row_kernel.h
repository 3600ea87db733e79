#pragma once

// The bodies of the row-wise kernels behind layers.h, compiled once for each vector type (see
// attention_kernel.h).
#include "craton/tensor/row_call.h"

namespace craton::tensor {
namespace {

template <typename V>
struct RowKernel {
  using T = typename V::T;
  static constexpr int kWidth = V::kWidth;

  static V load_part(const T* p, int64_t n) {
    T lanes[kWidth];
    for (int i = 0; i < kWidth; ++i) lanes[i] = i < n ? p[i] : T(0);
    return V::load(lanes);
  }
  static void store_part(V x, T* p, int64_t n) {
    T lanes[kWidth];
    x.store(lanes);
    for (int i = 0; i < kWidth && i < n; ++i) p[i] = lanes[i];
  }
  static V get(const T* p, int64_t n) { return n >= kWidth ? V::load(p) : load_part(p, n); }
  static void put(V x, T* p, int64_t n) {
    if (n >= kWidth) {
      x.store(p);
    } else {
      store_part(x, p, n);
    }
  }

  static void gelu(const T* before, T* after, int64_t n) {
    for (int64_t i = 0; i < n; i += kWidth) {
      const V x = get(before + i, n - i);
      V cdf, density;
      normal_distribution(x, cdf, density);
      put(x * cdf, after + i, n - i);
    }
  }

  static void gelu_backward(const T* before, T* gradient, T* after, T* column_sums, int64_t rows,
                            int64_t dim) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < dim; i += kWidth) {
        const int64_t at = r * dim + i, n = dim - i;
        const V x = get(before + at, n);
        V cdf, density;
        normal_distribution(x, cdf, density);
        put(x * cdf, after + at, n);
        const V g = get(gradient + at, n) * multiply_add(x, density, cdf);
        put(g, gradient + at, n);
        put(get(column_sums + i, n) + g, column_sums + i, n);
      }
    }
  }

  static void column_sum(const T* x, T* sums, int64_t rows, int64_t dim) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < dim; i += kWidth) {
        put(get(sums + i, dim - i) + get(x + r * dim + i, dim - i), sums + i, dim - i);
      }
    }
  }

  static V sigmoid(V x) {
    V e[1] = {minimum(x * V::set(T(-1.4426950408889634074)), V::set(T(126)))};
    powers_of_two(e);
    return V::set(1) / (V::set(1) + e[0]);
  }

  static void silu_mul(const T* gate, const T* up, T* out, int64_t n) {
    for (int64_t i = 0; i < n; i += kWidth) {
      const V g = get(gate + i, n - i);
      put(g * sigmoid(g) * get(up + i, n - i), out + i, n - i);
    }
  }

  static void silu_mul_backward(const T* gate, const T* up, const T* d_out, T* d_gate, T* d_up,
                                int64_t n) {
    for (int64_t i = 0; i < n; i += kWidth) {
      const V g = get(gate + i, n - i), d = get(d_out + i, n - i), s = sigmoid(g);
      put(d * g * s, d_up + i, n - i);
      const V slope = s * multiply_add(g, V::set(1) - s, V::set(1));
      put(d * get(up + i, n - i) * slope, d_gate + i, n - i);
    }
  }

  static T lane_sum(V x) { return sum_lanes(x); }

  static void norm(const NormForwardCall<T>& c, int64_t first, int64_t rows) {
    const int64_t dim = c.dim;
    for (int64_t r = first; r < first + rows; ++r) {
      const T* x = c.x + r * dim;
      if (c.delta != nullptr) {
        T* sum = c.sum + r * dim;
        for (int64_t i = 0; i < dim; i += kWidth) {
          put(get(x + i, dim - i) + get(c.delta + r * dim + i, dim - i), sum + i, dim - i);
        }
        x = sum;
      }
      T mean = 0;
      if (c.centered) {
        V total = V::zero();
        for (int64_t i = 0; i < dim; i += kWidth) total = total + get(x + i, dim - i);
        mean = lane_sum(total) / T(dim);
      }
      const V m = V::set(mean);
      V squares = V::zero();
      int64_t i = 0;
      for (; i + kWidth <= dim; i += kWidth) {
        const V d = V::load(x + i) - m;
        squares = multiply_add(d, d, squares);
      }
      T square = lane_sum(squares);
      for (; i < dim; ++i) square += (x[i] - mean) * (x[i] - mean);
      V root[1] = {square_root(V::set(square / T(dim) + T(c.eps)))};
      T lanes[kWidth];
      (V::set(1) / root[0]).store(lanes);
      const T scale = lanes[0];
      const V s = V::set(scale);
      for (i = 0; i < dim; i += kWidth) {
        V y = (get(x + i, dim - i) - m) * s * get(c.weight + i, dim - i);
        if (c.bias != nullptr) y = y + get(c.bias + i, dim - i);
        put(y, c.y + r * dim + i, dim - i);
      }
      c.mean[r] = mean;
      c.scale[r] = scale;
    }
  }

  /// With h = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - h mean(g h)); the
  /// middle term only where x was centred.
  static void norm_backward(const NormBackwardCall<T>& c, int64_t first, int64_t rows, T* d_weight,
                            T* d_bias) {
    const int64_t dim = c.dim;
    for (int64_t r = first; r < first + rows; ++r) {
      const T *x = c.x + r * dim, *dy = c.dy + r * dim;
      const V m = V::set(c.mean[r]), s = V::set(c.scale[r]);
      V sum_g = V::zero(), sum_gh = V::zero();
      for (int64_t i = 0; i < dim; i += kWidth) {
        const int64_t n = dim - i;
        const V d = get(dy + i, n), h = (get(x + i, n) - m) * s, g = d * get(c.weight + i, n);
        sum_g = sum_g + g;
        sum_gh = multiply_add(g, h, sum_gh);
        put(multiply_add(d, h, get(d_weight + i, n)), d_weight + i, n);
        if (d_bias != nullptr) put(get(d_bias + i, n) + d, d_bias + i, n);
      }
      const V mean_g = V::set(c.centered ? lane_sum(sum_g) / T(dim) : T(0));
      const V mean_gh = V::set(lane_sum(sum_gh) / T(dim));
      for (int64_t i = 0; i < dim; i += kWidth) {
        const int64_t n = dim - i;
        const V h = (get(x + i, n) - m) * s, g = get(dy + i, n) * get(c.weight + i, n);
        V dx = (g - mean_g - h * mean_gh) * s;
        if (c.d_sum != nullptr) dx = dx + get(c.d_sum + r * dim + i, n);
        put(dx, c.dx + r * dim + i, n);
      }
    }
  }

  static void rotate(const T* x, T* y, const T* cos, const T* sin, int64_t turned, int64_t half,
                     T sign) {
    const V flip = V::set(sign);
    for (int64_t i = 0; i < turned; i += kWidth) {
      const int64_t n = turned - i;
      const V a = get(x + i, n), b = get(x + half + i, n), c = get(cos + i, n),
              s = get(sin + i, n) * flip;
      put(a * c - b * s, y + i, n);
      put(a * s + b * c, y + half + i, n);
    }
    if (x != y) {
      for (int64_t i = turned; i < half; ++i) {
        y[i] = x[i];
        y[half + i] = x[half + i];
      }
    }
  }

  static constexpr RowKernelTable<T> table() {
    return {gelu, gelu_backward, column_sum, silu_mul, silu_mul_backward,
            norm, norm_backward, rotate};
  }
};

}  // namespace
}  // namespace craton::tensor
