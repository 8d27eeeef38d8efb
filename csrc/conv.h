// The geometry of a convolution as a sum over taps, and its source as byte planes. `Source` is the
// tensor that is read (the input, or for a gradient the output's gradient), `result` the one that
// is written, and `columns` are the channels of the result in one group.
#pragma once

#include <vector>

#include "gemm.h"

namespace tacit {

using Extent = std::array<std::size_t, 3>;

// One position of the kernel along one axis.
struct Tap {
  std::size_t kernel;     // index into the weight
  std::ptrdiff_t offset;  // from a position's place in the source, without border, to what it reads
};

// Position i of the result, at place first + step i, reads the source at stride i + offset of each
// tap.
struct Axis {
  std::size_t count;
  std::size_t first, step;
  std::size_t stride;
  std::vector<Tap> taps;  // by ascending offset
};
using Axes = std::array<Axis, 3>;

struct Shape {
  std::size_t batch, groups, channels, columns;  // channels, columns: of one group
  Extent source, result, kernel;
  std::size_t source_size() const { return source[0] * source[1] * source[2]; }
  std::size_t result_size() const { return result[0] * result[1] * result[2]; }
};

// Strides of the weight, in elements.
struct WeightStrides {
  std::size_t group, channel, column;
};

inline std::size_t num_taps(const Axes& axes) {
  return axes[0].taps.size() * axes[1].taps.size() * axes[2].taps.size();
}

inline std::size_t weight_index(const Shape& shape, const Tap& z, const Tap& y, const Tap& x) {
  return (z.kernel * shape.kernel[1] + y.kernel) * shape.kernel[2] + x.kernel;
}

// How many zeros are around the source, so that every tap of every position reads inside.
struct Border {
  Extent before, padded;
  Border(const Shape& shape, const Axes& axes) {
    for (int d = 0; d < 3; ++d) {
      std::ptrdiff_t low = 0, high = static_cast<std::ptrdiff_t>(shape.source[d]);
      for (const Tap& tap : axes[d].taps) {
        low = std::min(low, tap.offset);
        high = std::max(
            high,
            tap.offset + static_cast<std::ptrdiff_t>((axes[d].count - 1) * axes[d].stride) + 1);
      }
      before[d] = static_cast<std::size_t>(-low);
      padded[d] = static_cast<std::size_t>(high - low);
    }
  }
  std::size_t size() const { return padded[0] * padded[1] * padded[2]; }
};

// Byte planes of a few images of one group: [plane][image][z][y][x][channel].
template <class S>
struct EncodedImages {
  using T = typename S::Word;
  // Rows are gathered and multiplied in steps of kDepthStep bytes, and in whole blocks where they
  // are read in place, which may read behind the end.
  static constexpr std::size_t kSlack = 64;
  const Border& border;
  std::size_t channels, plane_stride;
  std::int8_t* bytes;

  static std::size_t plane_size(const Border& border, std::size_t images, std::size_t channels) {
    return round_up(border.size() * images * channels + kRowBlock * channels + kSlack, 64) + kSpare;
  }
  EncodedImages(const Border& b, const Shape& shape, const T* source, std::size_t images,
                std::size_t image_stride, std::size_t channels_, std::int8_t* buffer)
      : border(b),
        channels(channels_),
        plane_stride(plane_size(b, images, channels_)),
        bytes(buffer) {
    const std::size_t lines = border.padded[0] * border.padded[1];
    parallel_for(images * lines, std::max<std::size_t>(1, 4096 / (border.padded[2] * channels)),
                 [&](std::size_t begin, std::size_t end) {
                   std::vector<T> line(shape.source[2] * channels + kBlock);
                   for (std::size_t i = begin; i < end; ++i)
                     encode_line(shape, source + i / lines * image_stride, i, i % lines,
                                 line.data());
                 });
  }

 private:
#if defined(__AVX512VNNI__)
  // `count` places of a line, of all channels, kBlock at a time: they are transposed to four lines
  // for each place, of every fourth channel, as ElementBlock takes them.
  void encode_places(const T* from, std::size_t channel_stride, std::size_t count,
                     std::int8_t* out) const {
    const auto mask = static_cast<__mmask8>((1u << count) - 1);
    alignas(64) T lines[8][4][kBlock / 4];
    for (std::size_t c = 0; c < channels; c += kBlock) {
      for (std::size_t t = 0; t < 4; ++t)
        for (std::size_t h = 0; h < kBlock / 4; h += 8) {
          __m512i v[8];
          for (std::size_t i = 0; i < 8; ++i) {
            const T* channel = from + (c + 4 * (h + i) + t) * channel_stride;
            v[i] = _mm512_maskz_loadu_epi64(mask, channel);
            __builtin_prefetch(channel + 16);
          }
          transpose(v);
          for (std::size_t x = 0; x < 8; ++x) _mm512_store_si512(&lines[x][t][h], v[x]);
        }
      for (std::size_t x = 0; x < count; ++x)
        S::template encode<Side::rows>(
            ElementBlock<T>::lines(lines[x][0], kBlock / 4), [&](int p, BlockBytes value) {
              std::memcpy(out + p * plane_stride + x * channels + c, &value, kBlock);
            });
    }
  }
#endif

  void encode_line(const Shape& shape, const T* image, std::size_t index, std::size_t line,
                   T* transposed) {
    const std::size_t width = shape.source[2], bytes_before = border.before[2] * channels;
    // Unsigned: a line before the source wraps to a large number, which is outside, too.
    const std::size_t z = line / border.padded[1] - border.before[0];
    const std::size_t y = line % border.padded[1] - border.before[1];
    const std::size_t line_bytes = border.padded[2] * channels;
    std::int8_t* out = bytes + index * line_bytes;
    const bool inside = z < shape.source[0] && y < shape.source[1];
    const std::size_t used = inside ? width * channels : 0;
    for (int p = 0; p < S::planes; ++p) {
      std::memset(out + p * plane_stride, 0, inside ? bytes_before : line_bytes);
      std::memset(out + p * plane_stride + bytes_before + used, 0,
                  inside ? line_bytes - bytes_before - used : 0);
    }
    if (!inside) return;
    const T* from = image + (z * shape.source[1] + y) * width;
#if defined(__AVX512VNNI__)
    if constexpr (sizeof(T) == 8)
      if (channels % kBlock == 0) {
        for (std::size_t x = 0; x < width; x += 8)
          encode_places(from + x, shape.source_size(), std::min<std::size_t>(8, width - x),
                        out + bytes_before + x * channels);
        return;
      }
#endif
    constexpr std::size_t tile = 8;
    for (std::size_t c0 = 0; c0 < channels; c0 += tile)
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t c = c0; c < std::min(channels, c0 + tile); ++c)
          transposed[x * channels + c] = from[c * shape.source_size() + x];
    for (std::size_t k = 0; k < used; k += kBlock)
      encode_block<S, Side::rows>(transposed + k, 1, kBlock, [&](int p, BlockBytes value) {
        std::memcpy(out + p * plane_stride + bytes_before + k, &value, std::min(kBlock, used - k));
      });
  }
};

// So many bytes of the source are encoded at a time, but at least one image.
constexpr std::size_t kImageBytes = 32u << 20;

// Winograd's convolution (winograd.cpp) of one group, exact mod 2^64.
bool winograd_fits(const Axes& axes);  // 3x3 taps side by side, stride 1
double winograd_cost(const Shape& shape, const Axes& axes, bool prepared);
std::size_t winograd_bytes(const Shape& shape);  // how many bytes it keeps of the weight
void winograd(const Shape& shape, const Axes& axes, const std::int64_t* source,
              const std::int64_t* weight, WeightStrides strides, std::int64_t* result,
              Prepared& prepared);

}  // namespace tacit
