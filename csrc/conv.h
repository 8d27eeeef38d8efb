// What convolutions are made of: the sum over taps, and the source as byte planes.
#pragma once

#include <vector>

#include "gemm.h"

namespace tacit {

using Extent = std::array<std::size_t, 3>;

struct Tap {
  std::size_t kernel;     // index into the weight
  std::ptrdiff_t offset;  // into the source, before the border is added
};

struct Axis {
  std::size_t count;        // positions of the result
  std::size_t first, step;  // where position 0 lies in the result, and how far the next
  std::size_t stride;       // of the source
  std::vector<Tap> taps;    // by ascending offset
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

// Zeros around the source, so that every tap of every position is inside.
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
  static constexpr std::size_t kSlack =
      64;  // rows are gathered and multiplied in steps of 16 bytes
  const Border& border;
  std::size_t channels, plane_stride;
  std::int8_t* bytes;

  static std::size_t plane_size(const Border& border, std::size_t images, std::size_t channels) {
    return round_up(border.size() * images * channels + kRows * channels + kSlack, 64) + kSpare;
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
  void encode_line(const Shape& shape, const T* image, std::size_t index, std::size_t line,
                   T* transposed) {
    const std::size_t width = shape.source[2], bytes_before = border.before[2] * channels;
    const std::size_t z = line / border.padded[1] - border.before[0];  // wraps below zero: outside
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
    constexpr std::size_t tile = 8;
    for (std::size_t c0 = 0; c0 < channels; c0 += tile)
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t c = c0; c < std::min(channels, c0 + tile); ++c)
          transposed[x * channels + c] = from[c * shape.source_size() + x];
    for (std::size_t k = 0; k < used; k += kBlock)
      encode_block<S, Side::rows>(transposed + k, 1, kBlock, [&](int p, Bytes value) {
        std::memcpy(out + p * plane_stride + bytes_before + k, &value, std::min(kBlock, used - k));
      });
  }
};

constexpr std::size_t kImageBytes = 32u << 20;  // of encoded source at a time, or one image

// Winograd's way (winograd.cpp), for 3x3 taps with stride 1; one group, exact mod 2^64.
bool winograd_fits(const Axes& axes);
double winograd_cost(const Shape& shape, const Axes& axes, bool prepared);
std::size_t winograd_bytes(const Shape& shape);  // that it keeps of the weight
void winograd(const Shape& shape, const Axes& axes, const std::int64_t* source,
              const std::int64_t* weight, WeightStrides strides, std::int64_t* result,
              Prepared& prepared);

}  // namespace tacit
