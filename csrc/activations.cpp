// What follows a product of integers in a network: its floats, a bias and ReLU, in one pass over
// memory; and the largest number of each 2 x 2 window.
#include <algorithm>
#include <limits>

#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kGrain = 1 << 16;  // elements
constexpr std::size_t kWindows = 128;    // whose places are found at a time

std::size_t grain_of(std::size_t elements) {
  return std::max<std::size_t>(kGrain / std::max<std::size_t>(elements, 1), 1);
}

// y = max(x scale + bias, low), or NaN. The scale is a power of two, so that x scale is exact once
// x is a float; this file is compiled without contraction, which would add without rounding first.
// No result is -0: x scale is not, and neither is a sum unless both terms are.
template <class Int>
float activated(Int x, float scale, float bias, float low) {
  const float y = static_cast<float>(x) * scale + bias;
  return y < low ? low : y;
}

template <class Int>
void activate(const Int* x, float scale, float bias, float low, float* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = activated(x[i], scale, bias, low);
}

float lowest(bool relu) { return relu ? 0.0f : -std::numeric_limits<float>::infinity(); }

// x of shape (outer, channels, inner), with a bias for each channel.
template <class Int>
void finish(Address x, float scale, Address bias, bool relu, Address out, std::size_t outer,
            std::size_t channels, std::size_t inner) {
  const Int* from = at<const Int>(x);
  const float *biases = at<const float>(bias), low = lowest(relu);
  float* to = at<float>(out);
  if (channels == 1) {
    parallel_for(outer * inner, kGrain, [=](std::size_t begin, std::size_t end) {
      activate(from + begin, scale, biases[0], low, to + begin, end - begin);
    });
    return;
  }
  if (inner == 1) {
    parallel_for(outer, grain_of(channels), [=](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        for (std::size_t i = 0; i < channels; ++i)
          to[row * channels + i] = activated(from[row * channels + i], scale, biases[i], low);
    });
    return;
  }
  parallel_for(outer * channels, grain_of(inner), [=](std::size_t begin, std::size_t end) {
    for (std::size_t plane = begin; plane < end; ++plane)
      activate(from + plane * inner, scale, biases[plane % channels], low, to + plane * inner,
               inner);
  });
}

// The largest number of each window of two lines of a plane, and its place in the plane, of which
// `first` is that of the upper line. As in torch, the first of equal numbers wins, and the last NaN
// against everything.
void pool_lines(const float* upper, std::size_t width, std::size_t first, float* out,
                std::int64_t* places) {
  const float* lower = upper + width;
  const auto down = static_cast<std::int32_t>(width);
  for (std::size_t begin = 0; begin < width / 2; begin += kWindows) {
    const std::size_t some = std::min(kWindows, width / 2 - begin);
    const float *a = upper + 2 * begin, *c = lower + 2 * begin;
    std::int32_t found[kWindows];  // in two loops, each of which the compiler vectorises
    for (std::size_t j = 0; j < some; ++j) {
      float best = a[2 * j];
      std::int32_t place = 0;
      const auto meet = [&](float y, std::int32_t offset) __attribute__((always_inline)) {
        const bool wins = (y > best) | (y != y);
        best = wins ? y : best;
        place = wins ? offset : place;
      };
      meet(a[2 * j + 1], 1);
      meet(c[2 * j], down);
      meet(c[2 * j + 1], down + 1);
      out[begin + j] = best;
      found[j] = place + 2 * static_cast<std::int32_t>(j);
    }
    for (std::size_t j = 0; j < some; ++j)
      places[begin + j] = static_cast<std::int64_t>(first + 2 * begin) + found[j];
  }
}

void max_pool2x2(Address x, Address out, Address places, std::size_t planes, std::size_t height,
                 std::size_t width) {
  const std::size_t size = height * width, windows = (height / 2) * (width / 2);
  parallel_for(planes, grain_of(size), [=](std::size_t begin, std::size_t end) {
    for (std::size_t plane = begin; plane < end; ++plane)
      for (std::size_t i = 0; i < height / 2; ++i) {
        const std::size_t window = plane * windows + i * (width / 2);
        pool_lines(at<const float>(x) + plane * size + 2 * i * width, width, 2 * i * width,
                   at<float>(out) + window, at<std::int64_t>(places) + window);
      }
  });
}

}  // namespace

void bind_activations(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("finish32", &finish<std::int32_t>, release());
  module.def("finish64", &finish<std::int64_t>, release());
  module.def("max_pool2x2", &max_pool2x2, release());
}

}  // namespace tacit
