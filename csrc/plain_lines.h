// Convolutions of few channels in plain loops, with sums in registers: AVX-512.
#pragma once

#include "conv.h"

namespace tacit {

template <class T>
struct MaskedVector;

template <>
struct MaskedVector<std::int64_t> {
  typedef std::uint64_t Vector __attribute__((vector_size(64)));
  static Vector load(unsigned mask, const std::int64_t* from) {
    return (Vector)_mm512_maskz_loadu_epi64(static_cast<__mmask8>(mask), from);
  }
  static void store(unsigned mask, std::int64_t* to, Vector value) {
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(mask), (__m512i)value);
  }
};

template <>
struct MaskedVector<std::int32_t> {
  typedef std::uint32_t Vector __attribute__((vector_size(64)));
  static Vector load(unsigned mask, const std::int32_t* from) {
    return (Vector)_mm512_maskz_loadu_epi32(static_cast<__mmask16>(mask), from);
  }
  static void store(unsigned mask, std::int32_t* to, Vector value) {
    _mm512_mask_storeu_epi32(to, static_cast<__mmask16>(mask), (__m512i)value);
  }
};

// `Columns` result planes, from `to` on, of one image and group. Neighbours along the last axis are
// neighbours in source and result. Lanes whose source does not exist are masked and count as zeros.
template <class T, std::size_t Columns>
class PlainLines {
  using U = std::make_unsigned_t<T>;
  using Vector = typename MaskedVector<T>::Vector;
  static constexpr std::ptrdiff_t kLanes = sizeof(Vector) / sizeof(T);
  static constexpr std::ptrdiff_t kVectors = 4 / Columns;  // of neighbours: a few sums at a time
  struct Masks {
    unsigned lanes[kVectors];
  };

 public:
  const Shape& shape;
  const Axes& axes;
  const T *source, *weight;
  WeightStrides strides;
  T* to;

  void run() const {
    const auto width = static_cast<std::ptrdiff_t>(axes[2].count);
    const auto available = static_cast<std::ptrdiff_t>(shape.source[2]);
    std::vector<Masks> masks(axes[2].taps.size());
    for (std::ptrdiff_t x = 0; x < width; x += kVectors * kLanes) {
      for (std::size_t i = 0; i < masks.size(); ++i) {
        const std::ptrdiff_t first = x + axes[2].taps[i].offset;
        masks[i] = between(-first, available - first);
      }
      const Masks stored = between(0, width - x);
      for (std::size_t z = 0; z < axes[0].count; ++z)
        for (std::size_t y = 0; y < axes[1].count; ++y) sum(z, y, x, masks.data(), stored);
    }
  }

 private:
  // The lanes from `begin` to `end`, of those there are.
  static Masks between(std::ptrdiff_t begin, std::ptrdiff_t end) {
    const auto below = [](std::ptrdiff_t n) {
      return (1u << std::clamp<std::ptrdiff_t>(n, 0, kLanes)) - 1;
    };
    Masks masks;
    for (std::ptrdiff_t v = 0; v < kVectors; ++v)
      masks.lanes[v] = below(end - v * kLanes) & ~below(begin - v * kLanes);
    return masks;
  }
  void sum(std::size_t z, std::size_t y, std::ptrdiff_t x, const Masks* masks,
           const Masks& stored) const {
    Vector sums[Columns][kVectors] = {};
    const auto under = [&](int d, std::size_t at, const Tap& tap) {  // wraps outside
      return at * axes[d].stride + static_cast<std::size_t>(tap.offset);
    };
    for (const Tap& tz : axes[0].taps)
      for (const Tap& ty : axes[1].taps) {
        const std::size_t sz = under(0, z, tz), sy = under(1, y, ty);
        if (sz >= shape.source[0] || sy >= shape.source[1]) continue;
        const T* from = source + (sz * shape.source[1] + sy) * shape.source[2] + x;
        for (std::size_t i = 0; i < axes[2].taps.size(); ++i)
          add(from + axes[2].taps[i].offset, masks[i],
              weight + weight_index(shape, tz, ty, axes[2].taps[i]), sums);
      }
    T* line =
        to +
        ((axes[0].first + z * axes[0].step) * shape.result[1] + axes[1].first + y * axes[1].step) *
            shape.result[2] +
        axes[2].first + x;
    for (std::size_t j = 0; j < Columns; ++j)
      for (std::ptrdiff_t v = 0; v < kVectors; ++v)
        MaskedVector<T>::store(stored.lanes[v], line + j * shape.result_size() + v * kLanes,
                               sums[j][v]);
  }
  // One tap, all channels.
  void add(const T* from, const Masks& masks, const T* factors,
           Vector (&sums)[Columns][kVectors]) const {
    for (std::size_t c = 0; c < shape.channels;
         ++c, from += shape.source_size(), factors += strides.channel) {
      Vector values[kVectors];
      for (std::ptrdiff_t v = 0; v < kVectors; ++v)
        values[v] = MaskedVector<T>::load(masks.lanes[v], from + v * kLanes);
      for (std::size_t j = 0; j < Columns; ++j)
        for (std::ptrdiff_t v = 0; v < kVectors; ++v)
          sums[j][v] += static_cast<U>(factors[j * strides.column]) * values[v];
    }
  }
};

}  // namespace tacit
