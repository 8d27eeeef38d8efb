// Convolutions with few positions, without encoding: dot products of a channel's weights with what
// is under the kernel at a position. Deep layers have more weights than caches hold, so that
// reading them takes the time: 8 bytes of a word, 18 of its residues.
#pragma once

#include "conv_rows.h"
#include "plain.h"

namespace tacit {

constexpr std::size_t kMostDots = 64;

inline std::size_t num_positions(const Shape& shape, const Axes& axes) {
  return shape.batch * axes[0].count * axes[1].count * axes[2].count;
}

// Whether the weights of a channel are contiguous, by channels and taps of the source, and what is
// under the kernel at all positions fits into the memory that encoded images may take.
inline bool dots_fit(const Shape& shape, const Axes& axes, WeightStrides strides) {
  std::size_t kernel = 0;  // the taps in the order of the weight
  for (const Tap& z : axes[0].taps)
    for (const Tap& y : axes[1].taps)
      for (const Tap& x : axes[2].taps)
        if (weight_index(shape, z, y, x) != kernel++) return false;
  const std::size_t positions = num_positions(shape, axes), depth = shape.channels * kernel;
  return strides.channel == kernel && strides.column == depth && positions <= kMostDots &&
         positions * depth * sizeof(std::int64_t) <= kImageBytes;
}

// Whether they are faster than encoded products of a group, whose rows are places of lines with
// their borders.
template <class T>
bool dots_pay(const Shape& shape, const Axes& axes, bool prepared) {
  const auto columns = static_cast<double>(shape.columns);
  const auto wide = static_cast<double>(round_up(shape.columns, kColumns));
  const auto channels = static_cast<double>(shape.channels);
  const double depth = channels * static_cast<double>(num_taps(axes));
  const auto positions = static_cast<double>(num_positions(shape, axes));
  const double weights = columns * depth;
  const double dots = weights * (positions * Cost<T>::plain + Cost<T>::read(weights, sizeof(T))) +
                      positions * depth;
  const std::size_t line = axes[2].count + axes[2].taps.size() - 1;
  const auto rows = static_cast<double>(
      shape.batch * axes[0].count * multiplied_rows((axes[1].count - 1) * line + axes[2].count));
  const double weight = prepared ? Cost<T>::read(weights, EncodingOf<T>::planes) : Cost<T>::encode;
  const double encoded = rows * (wide * (Cost<T>::product() * depth + Cost<T>::combine) +
                                 Cost<T>::place + Cost<T>::encode * channels) +
                         weights * weight;
  return dots < encoded;
}

// Writes what is under the kernel at a position, zero outside of the source; returns the end.
template <class T>
T* gather_under(const Shape& shape, const Axes& axes, const Position& at, const T* source, T* to) {
  const std::size_t place[3] = {at.z, at.y, at.x};
  const T* const image = source + at.image * shape.groups * shape.channels * shape.source_size();
  std::vector<const T*> taps;  // of the first channel
  for (const Tap& z : axes[0].taps)
    for (const Tap& y : axes[1].taps)
      for (const Tap& x : axes[2].taps) {
        const Tap* const tap[3] = {&z, &y, &x};
        std::size_t index = 0;
        bool inside = true;
        for (int d = 0; d < 3; ++d) {  // places before the source wrap to large numbers
          const std::size_t read =
              place[d] * axes[d].stride + static_cast<std::size_t>(tap[d]->offset);
          inside = inside && read < shape.source[d];
          index = index * shape.source[d] + read;
        }
        taps.push_back(inside ? image + index : nullptr);
      }
  for (std::size_t c = 0; c < shape.channels; ++c)
    for (const T* const tap : taps) *to++ = tap ? tap[c * shape.source_size()] : 0;
  return to;
}

// One group.
template <class T>
void dot_convolution(const Shape& shape, const Axes& axes, const T* source, const T* weight,
                     T* result) {
  const std::size_t depth = shape.channels * num_taps(axes), columns = shape.columns;
  const std::size_t positions = num_positions(shape, axes);
  const Scratch under(Use::image, positions * depth * sizeof(T));
  const Scratch sums(Use::sums, positions * columns * sizeof(T));
  const Numbering numbering(axes);
  T* to = under.data<T>();
  for (std::size_t i = 0; i < positions; ++i)
    to = gather_under(shape, axes, Position(axes, numbering, i), source, to);
  multiply_plain<T>({weight, static_cast<std::ptrdiff_t>(depth), 1},
                    {under.data<T>(), 1, static_cast<std::ptrdiff_t>(depth)},
                    {sums.data<T>(), static_cast<std::ptrdiff_t>(positions), 1}, columns, positions,
                    depth);
  const T* from = sums.data<T>();
  const std::size_t image = shape.groups * columns * shape.result_size();
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t i = 0; i < positions; ++i) {
      const Position at(axes, numbering, i);
      result[at.image * image + column * shape.result_size() + at.in_result(shape.result)] =
          *from++;
    }
}

}  // namespace tacit
