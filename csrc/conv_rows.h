// Encoded convolutions: rows of the product gathered from encoded images, 64 positions at a time,
// and the sums written to the positions of the result (see csrc/conv.cpp).
#pragma once

#include "conv.h"

namespace tacit {

// ---- positions ------------------------------------------------------------------------------

// How rows of the product are numbered: `line` of them for each line of a result, `span` for each
// plane. Some belong to no position where lines are longer than those of the result.
struct Numbering {
  std::size_t line, span;
  explicit Numbering(const Axes& axes) : line(axes[2].count), span(axes[1].count * axes[2].count) {}
  // Places of a padded image, from a plane's first position to its last. Blocks of rows end with
  // it.
  Numbering(const Axes& axes, const Border& border)
      : line(border.padded[2]),
        span(round_up((axes[1].count - 1) * line + axes[2].count, kRowBlock)) {}
  std::size_t num_rows(const Axes& axes, std::size_t images) const {
    return images * axes[0].count * span;
  }
};

// What a row of the product is: a position in the result of an image.
struct Position {
  const Axes& axes;
  Numbering numbering;
  std::size_t in_plane, image, z, y, x;

  Position(const Axes& a, Numbering n, std::size_t row) : axes(a), numbering(n) {
    in_plane = row % n.span, row /= n.span;
    x = in_plane % n.line, y = in_plane / n.line;
    z = row % a[0].count, image = row / a[0].count;
  }
  bool exists() const { return x < axes[2].count && y < axes[1].count; }
  void advance() {
    if (++in_plane == numbering.span) {
      in_plane = x = y = 0;
      if (++z == axes[0].count) z = 0, ++image;
    } else if (++x == numbering.line) {
      x = 0, ++y;
    }
  }
  std::size_t in_source(const Extent& size) const {
    return ((image * size[0] + z * axes[0].stride) * size[1] + y * axes[1].stride) * size[2] +
           x * axes[2].stride;
  }
  std::size_t in_result(const Extent& size) const {
    const auto along = [&](int d, std::size_t at) { return axes[d].first + at * axes[d].step; };
    return (along(0, z) * size[1] + along(1, y)) * size[2] + along(2, x);
  }
};

// ---- encoded --------------------------------------------------------------------------------

// Bytes under the kernel, as runs that are contiguous in memory: [run] of a position.
struct Run {
  std::size_t offset, length;
};

inline std::vector<Run> runs_of(const Border& border, const Axes& axes, std::size_t channels) {
  std::vector<Run> runs;
  for (const Tap& tz : axes[0].taps)
    for (const Tap& ty : axes[1].taps)
      for (const Tap& tx : axes[2].taps) {
        const auto along = [&](int d, const Tap& tap) {
          return static_cast<std::size_t>(tap.offset +
                                          static_cast<std::ptrdiff_t>(border.before[d]));
        };
        const std::size_t offset =
            ((along(0, tz) * border.padded[1] + along(1, ty)) * border.padded[2] + along(2, tx)) *
            channels;
        if (!runs.empty() && runs.back().offset + runs.back().length == offset)
          runs.back().length += channels;
        else
          runs.push_back({offset, channels});
      }
  return runs;
}

// Where the rows of the product come from: gathered from encoded images, for each position the
// bytes under the kernel. With one tap and no border the images are the rows already, and with
// whole runs of kDepthStep bytes and stride 1 places of the images are: nothing is copied.
enum class Reading { gathered, direct, in_place };

inline Reading reading_of(const Border& border, const Axes& axes, std::size_t channels) {
  if (axes[0].stride != 1 || axes[1].stride != 1 || axes[2].stride != 1) return Reading::gathered;
  if (num_taps(axes) == 1 && border.padded == Extent{axes[0].count, axes[1].count, axes[2].count})
    return Reading::direct;
  if (!kUnsignedPanel) return Reading::gathered;  // ARM's blocks read no table of runs
  for (const Run& run : runs_of(border, axes, channels))
    if (run.length % kDepthStep != 0) return Reading::gathered;
  return Reading::in_place;
}

template <class S>
struct GatheredRows {
  const EncodedImages<S>& images;
  const Axes& axes;
  Numbering numbering;
  Reading reading;
  std::vector<Run> runs;
  std::vector<std::size_t> steps;
  RowLayout layout;
  Scratch buffer;
  std::size_t current = ~std::size_t{0};
  std::array<std::size_t, kRowBlock> starts{};

  GatheredRows(const EncodedImages<S>& i, const Axes& a, Numbering n, Reading r)
      : images(i),
        axes(a),
        numbering(n),
        reading(r),
        runs(runs_of(i.border, a, i.channels)),
        layout(RowLayout::plain(round_up(num_taps(a) * i.channels, kDepthStep) + 64)),
        buffer(Use::rows, r == Reading::gathered ? kRowBlock * layout.row + kDepthStep : 0) {
    if (reading == Reading::gathered) return;
    layout = RowLayout::plain(i.channels);
    if (reading == Reading::direct) return;
    for (const Run& run : runs)
      for (std::size_t k = 0; k < run.length; k += kDepthStep) steps.push_back(run.offset + k);
    layout.runs = steps.data();
  }

  const std::int8_t* block(int plane, std::size_t first, std::size_t count) {
    const std::int8_t* source = images.bytes + plane * images.plane_stride;
    if (reading == Reading::direct) return source + first * images.channels;
    if (current != first) {
      current = first;
      Position position(axes, numbering, first);
      for (std::size_t i = 0; i < count; ++i, position.advance())
        starts[i] = position.in_source(images.border.padded) * images.channels;
    }
    if (reading == Reading::in_place) return source + starts[0];
    for (std::size_t i = 0; i < count; ++i) {
      std::int8_t* out = buffer.data() + i * layout.row;
      // In steps of kDepthStep bytes. What is written beyond a run is overwritten by the next one;
      // beyond the last, it is multiplied by zeros of the panel.
      for (const Run& run : runs) {
        const std::int8_t* from = source + starts[i] + run.offset;
        for (std::size_t k = 0; k < run.length; k += kDepthStep)
          std::memcpy(out + k, from + k, kDepthStep);
        out += run.length;
      }
    }
    return buffer.data();
  }
  const std::int8_t* upcoming(const std::int8_t* block) const {
    return reading == Reading::gathered ? block : block + images.plane_stride;
  }
  // Rows of places after a plane's last position are there to fill its last block.
  std::size_t used(std::size_t first, std::size_t count) const {
    if (reading != Reading::in_place) return count;
    const std::size_t positions = (axes[1].count - 1) * numbering.line + axes[2].count;
    return std::min(count, positions - first % numbering.span);
  }
};

template <class T>
void store_block(const Block<T>& block, const Axes& axes, Numbering numbering, const Extent& size,
                 T* result, std::size_t image_stride, bool accumulate) {
  using U = std::make_unsigned_t<T>;
  const std::size_t column_stride = size[0] * size[1] * size[2];
  Position position(axes, numbering, block.first_row);
  for (std::size_t i = 0; i < block.num_rows; ++i, position.advance()) {
    if (!position.exists()) continue;
    T* to = result + position.image * image_stride + block.first_column * column_stride +
            position.in_result(size);
    const T* from = block.values + i * kColumns;
    for (std::size_t j = 0; j < block.num_columns; ++j, to += column_stride)
      *to = accumulate ? static_cast<T>(static_cast<U>(*to) + static_cast<U>(from[j])) : from[j];
  }
}

template <class T>
void encoded_group(const Shape& shape, const Axes& axes, const T* source, const T* weight,
                   WeightStrides strides, T* result, std::size_t channels, bool accumulate,
                   Prepared& prepared) {
  using S = EncodingOf<T>;
  const std::size_t depth = num_taps(axes) * channels;
  std::vector<std::size_t> offsets;  // of the weight's element at each depth, in column 0
  offsets.reserve(depth);
  for (const Tap& tz : axes[0].taps)
    for (const Tap& ty : axes[1].taps)
      for (const Tap& tx : axes[2].taps)
        for (std::size_t c = 0; c < channels; ++c)
          offsets.push_back(c * strides.channel + weight_index(shape, tz, ty, tx));
  const std::size_t size = EncodedPanels<S>::size(depth, shape.columns);
  const Scratch panel_bytes(Use::panels, prepared.spare(size));
  const auto element = [&](std::size_t k, std::size_t j) {
    return weight[offsets[k] + j * strides.column];
  };
  const EncodedPanels<S> panels(element, depth, shape.columns, prepared.take(panel_bytes, size),
                                prepared.filled);
  const Border border(shape, axes);
  const Reading how = reading_of(border, axes, channels);
  const Numbering numbering = how == Reading::in_place ? Numbering(axes, border) : Numbering(axes);
  const std::size_t source_stride = shape.groups * shape.channels * shape.source_size();
  const std::size_t result_stride = shape.groups * shape.columns * shape.result_size();
  const std::size_t image_bytes = border.size() * channels * S::planes;
  const std::size_t chunk = std::max<std::size_t>(1, kImageBytes / image_bytes);
  for (std::size_t n = 0; n < shape.batch; n += chunk) {
    const std::size_t images = std::min(chunk, shape.batch - n);
    const Scratch image_bytes_(Use::image,
                               S::planes * EncodedImages<S>::plane_size(border, images, channels));
    const EncodedImages<S> encoded(border, shape, source + n * source_stride, images, source_stride,
                                   channels, image_bytes_.data());
    multiply(
        numbering.num_rows(axes, images),
        [&] { return GatheredRows<S>(encoded, axes, numbering, how); }, panels,
        [&](const Block<T>& block) {
          store_block(block, axes, numbering, shape.result, result + n * result_stride,
                      result_stride, accumulate);
        });
  }
}

// Calls visit(axes, first channel, channels) for parts of the sum that are short enough to be
// exact: halves of the channels, or if there is one channel, halves of the taps along the longest
// axis.
template <class T, class Visit>
void in_parts(const Axes& axes, std::size_t first, std::size_t channels, const Visit& visit) {
  if (num_taps(axes) * channels <= part_depth<EncodingOf<T>>(kColumns))
    return visit(axes, first, channels);
  if (channels > 1) {
    const std::size_t half = channels / 2;
    in_parts<T>(axes, first, half, visit);
    return in_parts<T>(axes, first + half, channels - half, visit);
  }
  const auto longest = std::max_element(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return a.taps.size() < b.taps.size();
  });
  Axes low = axes, high = axes;
  const auto half = static_cast<std::ptrdiff_t>(longest->taps.size() / 2);
  auto& low_taps = low[longest - axes.begin()].taps;
  auto& high_taps = high[longest - axes.begin()].taps;
  low_taps.erase(low_taps.begin() + half, low_taps.end());
  high_taps.erase(high_taps.begin(), high_taps.begin() + half);
  in_parts<T>(low, first, channels, visit);
  in_parts<T>(high, first, channels, visit);
}

}  // namespace tacit
