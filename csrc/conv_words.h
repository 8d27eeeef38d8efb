// Convolutions as products of words (csrc/words.h), without encoding: rows are the channels of the
// result, columns its positions, depths the source's channels times taps.
#pragma once

#include "conv.h"
#include "words.h"

namespace tacit {

// One image and group.
template <class T>
class WordConvolution {
 public:
  WordConvolution(const Shape& shape, const Axes& axes, WeightStrides strides)
      : shape_(shape), axes_(axes), strides_(strides) {
    for (std::size_t c = 0; c < shape.channels; ++c)
      for (const Tap& z : axes[0].taps)
        for (const Tap& y : axes[1].taps)
          for (const Tap& x : axes[2].taps)
            depths_.push_back(
                {c * strides.channel + weight_index(shape, z, y, x),
                 c * shape.source_size(),
                 {static_cast<std::size_t>(z.offset), static_cast<std::size_t>(y.offset),
                  static_cast<std::size_t>(x.offset)}});
  }

  void run(const T* source, const T* weight, T* result) const {
    word_product<T>(
        shape_.columns, axes_[0].count * axes_[1].count * axes_[2].count, depths_.size(),
        [&](std::size_t i, std::size_t l) {
          return weight[i * strides_.column + depths_[l].weight];
        },
        [&](std::size_t l, std::size_t j, std::size_t count, T* line) {
          return gather(source, depths_[l], j, count, line);
        },
        [&](std::size_t i, std::size_t j, std::size_t count, const T* values, bool accumulate) {
          scatter(result + i * shape_.result_size(), j, count, values, accumulate);
        });
  }

 private:
  struct Depth {
    std::size_t weight, channel;  // where they begin
    Extent offset;                // of the tap; wraps if it is negative
  };
  // The place of position j along each axis.
  Extent place(std::size_t j) const {
    return {j / axes_[2].count / axes_[1].count, j / axes_[2].count % axes_[1].count,
            j % axes_[2].count};
  }
  void advance(Extent& at) const {
    if (++at[2] < axes_[2].count) return;
    at[2] = 0;
    if (++at[1] < axes_[1].count) return;
    at[1] = 0, ++at[0];
  }

  // What `count` positions from j on read under a tap, zero outside of the source.
  const T* gather(const T* source, const Depth& depth, std::size_t j, std::size_t count,
                  T* line) const {
    Extent at = place(j);
    const auto under = [&](int d) { return at[d] * axes_[d].stride + depth.offset[d]; };
    const auto inside = [&] {  // places before the source wrap to large numbers
      return under(0) < shape_.source[0] && under(1) < shape_.source[1] &&
             under(2) < shape_.source[2];
    };
    const auto from = [&] {
      return source + depth.channel + (under(0) * shape_.source[1] + under(1)) * shape_.source[2] +
             under(2);
    };
    if (axes_[2].stride == 1 && at[2] + count <= axes_[2].count && inside() &&
        under(2) + count <= shape_.source[2])
      return from();
    for (std::size_t i = 0; i < count; ++i, advance(at)) line[i] = inside() ? *from() : 0;
    return line;
  }

  void scatter(T* to, std::size_t j, std::size_t count, const T* values, bool accumulate) const {
    using U = std::make_unsigned_t<T>;
    Extent at = place(j);
    for (std::size_t i = 0; i < count; ++i, advance(at)) {
      const auto index = [&](int d) { return axes_[d].first + at[d] * axes_[d].step; };
      T& one = to[(index(0) * shape_.result[1] + index(1)) * shape_.result[2] + index(2)];
      one = static_cast<T>((accumulate ? static_cast<U>(one) : 0) + static_cast<U>(values[i]));
    }
  }

  const Shape& shape_;
  const Axes& axes_;
  WeightStrides strides_;
  std::vector<Depth> depths_;
};

}  // namespace tacit
