// Exact convolutions mod 2^32 and 2^64, and their gradients with respect to the input.
//
// Both are the same sum: result(position, column) = sum over taps and channels of
// source(position * stride + offset(tap), channel) * weight(tap, channel, column), where an Axis
// says which taps and offsets there are along each of the three axes. A gradient with stride s is s
// such sums along that axis, one for each phase (place mod s) of the result. There are three
// methods:
//   Encoded: the source becomes byte planes with channels last and a border of zeros. Rows of the
//     product are gathered from it 64 positions at a time, never the whole unfolded matrix. The
//     inner dimension, taps times channels, is cut into parts (conv_rows.h).
//   Winograd: 3x3 taps with stride 1 and many channels, in winograd.cpp.
//   Plain: few channels in a group or few positions, or no instructions for bytes. Blocks of words
//     (conv_words.h); dot products of words (conv_dots.h); or lines of the source are scaled and
//     added to the result, in AVX-512 registers (plain_lines.h) or in memory.
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>

#include <cmath>

#include "conv_rows.h"
#include "conv_words.h"

#if defined(__AVX512DQ__)
#include "conv_dots.h"
#include "plain_lines.h"
#endif

namespace tacit {
namespace {

// ---- plain ----------------------------------------------------------------------------------

// to[i * step] += factor * from[i * stride].
template <class T>
void add_scaled(T* to, std::size_t step, const T* from, std::size_t stride, std::size_t count,
                T factor) {
  using U = std::make_unsigned_t<T>;
  U* out = reinterpret_cast<U*>(to);
  const U* in = reinterpret_cast<const U*>(from);
  const U f = static_cast<U>(factor);
  if (step == 1 && stride == 1)
    for (std::size_t i = 0; i < count; ++i) out[i] += f * in[i];
  else
    for (std::size_t i = 0; i < count; ++i) out[i * step] += f * in[i * stride];
}

// The positions [begin, end) of an axis whose source under this tap exists.
std::pair<std::size_t, std::size_t> valid(const Axis& axis, const Tap& tap, std::size_t size) {
  const auto stride = static_cast<std::ptrdiff_t>(axis.stride),
             n = static_cast<std::ptrdiff_t>(size);
  const std::ptrdiff_t begin = tap.offset < 0 ? (-tap.offset + stride - 1) / stride : 0;
  const std::ptrdiff_t end = n > tap.offset ? (n - tap.offset + stride - 1) / stride : 0;
  const auto count = static_cast<std::ptrdiff_t>(axis.count);
  return {std::min(begin, count), std::max(std::min(begin, count), std::min(end, count))};
}

// One image, one column: the result plane at `to`.
template <class T>
void plain_plane(const Shape& shape, const Axes& axes, const T* source, const T* weight,
                 WeightStrides strides, T* to) {
  for (std::size_t c = 0; c < shape.channels; ++c)
    for (const Tap& tz : axes[0].taps)
      for (const Tap& ty : axes[1].taps)
        for (const Tap& tx : axes[2].taps) {
          const auto [z0, z1] = valid(axes[0], tz, shape.source[0]);
          const auto [y0, y1] = valid(axes[1], ty, shape.source[1]);
          const auto [x0, x1] = valid(axes[2], tx, shape.source[2]);
          const T factor = weight[c * strides.channel + weight_index(shape, tz, ty, tx)];
          const auto under = [&](int d, std::size_t at, const Tap& tap) {
            return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(at * axes[d].stride) +
                                            tap.offset);
          };
          for (std::size_t z = z0; z < z1; ++z)
            for (std::size_t y = y0; y < y1; ++y) {
              const T* from =
                  source + c * shape.source_size() +
                  (under(0, z, tz) * shape.source[1] + under(1, y, ty)) * shape.source[2] +
                  under(2, x0, tx);
              T* line = to +
                        ((axes[0].first + z * axes[0].step) * shape.result[1] + axes[1].first +
                         y * axes[1].step) *
                            shape.result[2] +
                        axes[2].first + x0 * axes[2].step;
              add_scaled(line, axes[2].step, from, axes[2].stride, x1 - x0, factor);
            }
        }
}

// Up to `most` neighbouring planes, which have an image and a group in common. Returns how many.
template <class T>
std::size_t plain_planes(const Shape& shape, const Axes& axes, const T* source, const T* weight,
                         WeightStrides strides, T* to, [[maybe_unused]] std::size_t most) {
#if defined(__AVX512DQ__)
  if (axes[2].step == 1 && axes[2].stride == 1) {
    const auto lines = [&]<std::size_t Columns>() {
      PlainLines<T, Columns>{shape, axes, source, weight, strides, to}.run();
      return Columns;
    };
    return most >= 4   ? lines.template operator()<4>()
           : most >= 2 ? lines.template operator()<2>()
                       : lines.template operator()<1>();
  }
#endif
  plain_plane(shape, axes, source, weight, strides, to);
  return 1;
}

// Whether blocks of words are faster than lines. AVX-512 multiplies lines in registers, if they are
// contiguous and short; elsewhere lines go through memory, and with few positions are slowest.
template <class T>
bool multiplies_words(const Shape& shape, const Axes& axes) {
  const std::size_t depth = shape.channels * num_taps(axes);
  if (depth < 8 || shape.columns <= kWordRows / 2) return false;
#if defined(__AVX512VNNI__)
  return false;  // large products are encoded
#elif defined(__AVX512DQ__)
  const std::size_t positions = axes[0].count * axes[1].count * axes[2].count;
  const bool are_lines = axes[2].step == 1 && axes[2].stride == 1;
  return positions >= kWordColumns &&
         (!are_lines || (sizeof(T) == 8 && positions >= 1024 && shape.columns >= 2 * kWordRows));
#elif defined(__ARM_NEON)
  return sizeof(T) == 8;
#else
  return true;
#endif
}

// ---- both -----------------------------------------------------------------------------------

// The fastest method by estimated times: per position for plain and encoded products, of the whole
// convolution for Winograd's, where also the weight counts, if it is not prepared.
template <class T>
Method chosen(const Shape& shape, const Axes& axes, [[maybe_unused]] WeightStrides strides,
              bool prepared) {
#if defined(__AVX512DQ__)
  if (dots_fit(shape, axes, strides))
    return dots_pay<T>(shape, axes, prepared) ? Method::plain : Method::encoded;
#endif
  const auto channels = static_cast<double>(shape.channels);
  const auto depth = static_cast<double>(num_taps(axes)) * channels;
  const auto columns = static_cast<double>(round_up(shape.columns, kColumns));
  const double encoded = columns * (Cost<T>::product() * depth + Cost<T>::combine) +
                         Cost<T>::encode * channels + Cost<T>::place;
  const double gathered = Cost<T>::gather * depth * std::ceil(columns / kColumnBlock);
  const bool contiguous = axes[2].step == 1 && axes[2].stride == 1;
  const double plain = static_cast<double>(shape.columns) * depth *
                       (multiplies_words<T>(shape, axes) ? Cost<T>::word
                        : contiguous                     ? Cost<T>::line
                                                         : 1.4);
  // Where AVX-512 multiplies, Winograd's transforms take two to five times as long as the products
  // that they save, and gathering is no longer small beside them.
  if (kUnsignedPanel) return encoded + gathered < plain ? Method::encoded : Method::plain;
  if (encoded >= plain) return Method::plain;
  if (sizeof(T) < 8 || !winograd_fits(axes)) return Method::encoded;
  const auto positions =
      static_cast<double>(shape.batch * axes[0].count * axes[1].count * axes[2].count);
  if (prepared) {  // Rows count in whole groups. 0.8: Winograd's keeps four times as many bytes.
    const double rows = std::ceil(positions / kRows) * kRows;
    return winograd_cost(shape, axes, true) < 0.8 * (rows * encoded + positions * gathered)
               ? Method::winograd
               : Method::encoded;
  }
  const double all = positions * (encoded + gathered) + Cost<T>::encode * depth * columns;
  return winograd_cost(shape, axes, false) < 0.95 * all ? Method::winograd : Method::encoded;
}

// One group at `source`, `weight` and `result`.
template <class T>
void run_encoded(const Shape& shape, const Axes& axes, const T* source, const T* weight,
                 WeightStrides strides, T* result, Method method, Prepared& prepared) {
  if constexpr (sizeof(T) == 8)
    if (method == Method::winograd && winograd_fits(axes))
      return winograd(shape, axes, source, weight, strides, result, prepared);
  bool accumulate = false;
  in_parts<T>(axes, 0, shape.channels, [&](const Axes& some, std::size_t c, std::size_t channels) {
    encoded_group(shape, some, source + c * shape.source_size(), weight + c * strides.channel,
                  strides, result, channels, accumulate, prepared);
    accumulate = true;
  });
}

// How many bytes all groups keep of the weight.
template <class T>
std::size_t prepared_bytes(const Shape& shape, const Axes& axes, Method method) {
  if (method == Method::plain || num_taps(axes) == 0) return 0;
  if (sizeof(T) == 8 && method == Method::winograd && winograd_fits(axes))
    return shape.groups * winograd_bytes(shape);
  std::size_t bytes = 0;
  in_parts<T>(axes, 0, shape.channels, [&](const Axes& some, std::size_t, std::size_t channels) {
    bytes += EncodedPanels<EncodingOf<T>>::size(num_taps(some) * channels, shape.columns);
  });
  return shape.groups * bytes;
}

// All groups, by one method.
template <class T>
void run_phase(const Shape& shape, const Axes& axes, const T* source, const T* weight,
               WeightStrides strides, T* result, Method method, Prepared prepared = {}) {
  if (num_taps(axes) == 0 || axes[0].count * axes[1].count * axes[2].count == 0) return;
  if (method == Method::choose) method = chosen<T>(shape, axes, strides, false);
  if (method != Method::plain) {
    for (std::size_t g = 0; g < shape.groups; ++g)
      run_encoded(shape, axes, source + g * shape.channels * shape.source_size(),
                  weight + g * strides.group, strides,
                  result + g * shape.columns * shape.result_size(), method, prepared);
    return;
  }
#if defined(__AVX512DQ__)
  if (dots_fit(shape, axes, strides)) {
    for (std::size_t g = 0; g < shape.groups; ++g)
      dot_convolution(shape, axes, source + g * shape.channels * shape.source_size(),
                      weight + g * strides.group, result + g * shape.columns * shape.result_size());
    return;
  }
#endif
  if (multiplies_words<T>(shape, axes)) {
    const WordConvolution<T> convolution(shape, axes, strides);
    for (std::size_t i = 0; i < shape.batch * shape.groups; ++i)
      convolution.run(source + i * shape.channels * shape.source_size(),
                      weight + i % shape.groups * strides.group,
                      result + i * shape.columns * shape.result_size());
    return;
  }
  const std::size_t planes = shape.groups * shape.columns;
  parallel_for(shape.batch * planes, 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end;) {
      const std::size_t n = i / planes, g = i % planes / shape.columns, column = i % shape.columns;
      i += plain_planes(
          shape, axes, source + (n * shape.groups + g) * shape.channels * shape.source_size(),
          weight + g * strides.group + column * strides.column, strides,
          result + i * shape.result_size(), std::min(shape.columns - column, end - i));
    }
  });
}

struct Window {
  Extent stride, padding, dilation;
};

WeightStrides forward_strides(const Shape& shape) {
  const std::size_t taps = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  return {shape.columns * shape.channels * taps, taps, shape.channels * taps};
}

Axes forward_axes(const Shape& shape, const Window& window) {
  Axes axes;
  for (int d = 0; d < 3; ++d) {
    axes[d] = {shape.result[d], 0, 1, window.stride[d], {}};
    for (std::size_t k = 0; k < shape.kernel[d]; ++k)
      axes[d].taps.push_back({k, static_cast<std::ptrdiff_t>(k * window.dilation[d]) -
                                     static_cast<std::ptrdiff_t>(window.padding[d])});
  }
  return axes;
}

template <class T>
void convolve(Address source, Address weight, Address result, Shape shape, const Window& window,
              Method method, Prepared prepared) {
  const Axes axes = forward_axes(shape, window);
  run_phase(shape, axes, at<const T>(source), at<const T>(weight), forward_strides(shape),
            at<T>(result), method, prepared);
}

// The fastest method for a weight that is prepared beforehand, and how many bytes it keeps.
template <class T>
std::pair<int, std::size_t> plan(const Shape& shape, const Window& window, Method method) {
  const Axes axes = forward_axes(shape, window);
  if (method == Method::choose) method = chosen<T>(shape, axes, forward_strides(shape), true);
  return {static_cast<int>(method), prepared_bytes<T>(shape, axes, method)};
}

// The transposed convolution, one phase `first` at a time: the forward one reads input
// stride p + dilation k - padding for output p, so input first + step q, with step = stride, takes
// source[q + (first + padding - dilation k) / step] for the taps k for which step divides. Taps go
// backwards, so that their offsets ascend.
Axis phase_axis(const Shape& shape, const Window& window, int d, std::size_t first) {
  const std::size_t step = window.stride[d];
  Axis axis{shape.result[d] > first ? (shape.result[d] - first + step - 1) / step : 0,
            first,
            step,
            1,
            {}};
  for (std::size_t k = shape.kernel[d]; k-- > 0;) {
    const std::ptrdiff_t distance = static_cast<std::ptrdiff_t>(first + window.padding[d]) -
                                    static_cast<std::ptrdiff_t>(k * window.dilation[d]);
    if (distance % static_cast<std::ptrdiff_t>(step) == 0)
      axis.taps.push_back({k, distance / static_cast<std::ptrdiff_t>(step)});
  }
  return axis;
}

template <class T>
void convolve_back(Address source, Address weight, Address result, Shape shape,
                   const Window& window, Method method, Prepared) {
  const std::size_t taps = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  const WeightStrides strides{shape.columns * shape.channels * taps, shape.columns * taps, taps};
  for (std::size_t z = 0; z < window.stride[0]; ++z)
    for (std::size_t y = 0; y < window.stride[1]; ++y)
      for (std::size_t x = 0; x < window.stride[2]; ++x) {
        const Axes axes{phase_axis(shape, window, 0, z), phase_axis(shape, window, 1, y),
                        phase_axis(shape, window, 2, x)};
        run_phase(shape, axes, at<const T>(source), at<const T>(weight), strides, at<T>(result),
                  method);
      }
}

}  // namespace

void bind_conv(nb::module_& module) {
  using Sizes = std::array<std::size_t, 4>;
  const auto shape = [](Sizes sizes, Extent source, Extent result, Extent kernel) {
    return Shape{sizes[0], sizes[1], sizes[2], sizes[3], source, result, kernel};
  };
  const auto def = [&](const char* name, auto function) {
    module.def(
        name,
        [=](Address source, Address weight, Address result, Sizes sizes, Extent source_size,
            Extent result_size, Extent kernel, Extent stride, Extent padding, Extent dilation,
            int method, Address prepared, bool filled) {
          function(source, weight, result, shape(sizes, source_size, result_size, kernel),
                   Window{stride, padding, dilation}, static_cast<Method>(method),
                   Prepared{at<std::int8_t>(prepared), filled});
        },
        nb::call_guard<nb::gil_scoped_release>());
  };
  const auto def_plan = [&](const char* name, auto function) {
    module.def(name, [=](Sizes sizes, Extent source_size, Extent result_size, Extent kernel,
                         Extent stride, Extent padding, Extent dilation, int method) {
      return function(shape(sizes, source_size, result_size, kernel),
                      Window{stride, padding, dilation}, static_cast<Method>(method));
    });
  };
  def("conv32", &convolve<std::int32_t>);
  def("conv64", &convolve<std::int64_t>);
  def("conv_grad_input32", &convolve_back<std::int32_t>);
  def("conv_grad_input64", &convolve_back<std::int64_t>);
  def_plan("conv_plan32", &plan<std::int32_t>);
  def_plan("conv_plan64", &plan<std::int64_t>);
}

}  // namespace tacit
