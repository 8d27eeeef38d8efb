// Exact 3x3 convolutions mod 2^64 with four times fewer products: Winograd's F(4x4, 3x3), as in
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (1509.09308).
//
// A tile of 4x4 results needs a patch of 6x6 of the source. Along each axis, with the points 0, 1,
// -1, 2, -2 and infinity: result = A ((G weight) * (B source)) / 24, where * is elementwise and B,
// G and A (`expand`, `evaluate`, `collapse`) are the paper's B^T, 24 G and A^T, but for the signs
// of two rows of B and G, and a factor 2 at infinity that A has and not G. Residues make it exact:
// 2 and 3 have inverses mod each modulus, so the division by 24^2 is part of the weight's residues.
// The integers that the Chinese remainder recovers are those of the plain sum, with the same bound.
//
// One modulus at a time: the weight's bytes are transformed (36 for 9). Then, for so many tiles at
// a time that all stays in the cache, the source's bytes are transformed (36 for 16 results), 36
// products over the channels are made, and the sums are transformed and reduced to bytes. When all
// moduli are done, bytes become words (csrc/remainder.h).
#include "conv.h"
#include "remainder.h"

namespace tacit {
namespace {

// M = 2^139.38, of moduli prime to 24.
using OddModuli = ResidueSystem<576, 251, 247, 241, 239, 235, 233, 229, 227, 223, 217, 211, 199,
                                197, 193, 191, 187, 181, 179>;
constexpr std::size_t kTile = 4, kPatch = 6, kPoints = kPatch * kPatch, kTaps = 9;
constexpr std::size_t kLanes = kRows * kColumns;
constexpr std::size_t kTileGroups = 4;  // groups of kRows tiles at a time
constexpr std::size_t kStrip = 8;       // neighbouring tiles whose overlap is transformed once

// Bounds. Rows of B have sums of magnitudes of at most 10, those of G 12, of A 20: two `expand`
// make bytes at most 100 times larger, two `evaluate` 144 times: 144 * 127 < 2^15. Two `collapse`
// make sums of products of bytes at most 400 times larger: below 2^31 for so many channels
// (asserted). A sum of 9 * 320 products of words is at most 2880 * 2^126 = 0.27 M, and the error of
// the Chinese remainder 0.07: together below 1/2.
constexpr std::size_t kMaxChannels = kUnsignedPanel ? 160 : 320;
static_assert(kMaxChannels * 128 * (kUnsignedPanel ? 250 : 127) * 400 < (1ull << 31));

// BlockBytes from a point to the next, of kRows tiles or kColumns columns: a spare line keeps
// points out of each other's cache sets.
constexpr std::size_t rows_stride(std::size_t depth) { return kRows * depth + 64; }
constexpr std::size_t panel_stride(std::size_t depth) { return kColumns * depth + 64; }

// ---- transforms -----------------------------------------------------------------------------

// B: the values of a patch, along one axis, that are multiplied at each point.
template <class V>
inline __attribute__((always_inline)) void expand(const V d[6], V out[6]) {
  const V even = d[4] - d[2], odd = 2 * (d[3] - d[1]);
  const V far_even = 4 * d[2] - d[4], far_odd = 4 * d[1] - d[3];
  out[0] = 4 * (d[0] - d[2]) + even;
  out[1] = far_even + far_odd;
  out[2] = far_even - far_odd;
  out[3] = even + odd;
  out[4] = even - odd;
  out[5] = d[5] - d[3] - 2 * odd;
}

// G: the kernel g_0 + g_1 x + g_2 x^2 at the points, times 6, 4, 4, 1 and 1, which are 24 over the
// derivative of x (x^2 - 1) (x^2 - 4) there, up to sign; at infinity g_2 times 24 / 2.
template <class V>
inline __attribute__((always_inline)) void evaluate(const V g[3], V out[6]) {
  const V even = g[0] + g[2], far_even = g[0] + 4 * g[2], far_odd = 2 * g[1];
  out[0] = 6 * g[0];
  out[1] = 4 * (even + g[1]);
  out[2] = 4 * (even - g[1]);
  out[3] = far_even + far_odd;
  out[4] = far_even - far_odd;
  out[5] = 12 * g[2];
}

// A: result i is the sum over points x of x^i times the product there; infinity counts in result 3.
template <class V>
inline __attribute__((always_inline)) void collapse(const V m[6], V out[4]) {
  const V even = m[1] + m[2], odd = m[1] - m[2], far_even = m[3] + m[4], far_odd = m[3] - m[4];
  out[0] = m[0] + even + far_even;
  out[1] = odd + 2 * far_odd;
  out[2] = even + 4 * far_even;
  out[3] = odd + 8 * far_odd + 2 * m[5];
}

template <class Vector>
void emit(std::int8_t* to, Vector value) {
  std::memcpy(to, &value, sizeof value);
}

// ---- the weight -----------------------------------------------------------------------------

// Residues of the weight, [plane][block][tap][kBlock]: a block is kWide columns by kPanelRun
// channels.
constexpr std::size_t kWide = kBlock / kPanelRun;
struct EncodedTaps {
  std::size_t blocks, plane_stride;
  std::int8_t* bytes;

  static std::size_t plane_size(std::size_t depth, std::size_t columns) {
    return depth * round_up(columns, kColumns) * kTaps + kSpare;
  }
  // `w(c, j, tap)` is an element, zero outside.
  template <class Elements>
  EncodedTaps(const Elements& w, std::size_t depth, std::size_t columns, std::int8_t* buffer,
              bool filled)
      : blocks(depth * round_up(columns, kColumns) / kBlock),
        plane_stride(plane_size(depth, columns)),
        bytes(buffer) {
    if (filled) return;
    parallel_for(blocks, 64, [&](std::size_t begin, std::size_t end) {
      for (std::size_t b = begin; b < end; ++b) {
        constexpr std::size_t wide = kColumns / kWide;
        const std::size_t c = b / wide % (depth / kPanelRun) * kPanelRun;
        const std::size_t j = b / wide / (depth / kPanelRun) * kColumns + b % wide * kWide;
        for (std::size_t tap = 0; tap < kTaps; ++tap) {
          std::int64_t words[kBlock];
          for (std::size_t i = 0; i < kBlock; ++i)
            words[i] = w(c + i % kPanelRun, j + i / kPanelRun, tap);
          std::int8_t* out = bytes + (b * kTaps + tap) * kBlock;
          OddModuli::encode<Side::weights>(
              words, [&](int p, BlockBytes value) { emit(out + p * plane_stride, value); });
        }
      }
    });
  }
};

constexpr std::size_t panels_size(std::size_t depth, std::size_t columns) {
  return kPoints * panel_stride(depth) * round_up(columns, kColumns) / kColumns;
}

// Residues from 0 to modulus - 1, from centred ones. They may be above 127: of unsigned bytes.
Piece unsigned_residues(Piece value, int modulus) {
  typedef std::uint8_t Unsigned __attribute__((vector_size(sizeof(Piece))));
  const Unsigned added = (Unsigned)(value < 0) & static_cast<std::uint8_t>(modulus);
  return (Piece)((Unsigned)value + added);
}

// The panels of one modulus: [panel][point][run of depths][column][kPanelRun].
void transform_taps(const EncodedTaps& taps, int plane, std::size_t depth, std::int8_t* panels) {
  const Modulus modulus(OddModuli::moduli[plane]);
  const std::size_t panel_blocks = depth * kColumns / kBlock;
  constexpr std::size_t pieces = kBlock / kPiece;
  parallel_for(taps.blocks * pieces, 256, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t b = i / pieces, piece = i % pieces * kPiece;
      const std::int8_t* from = taps.bytes + plane * taps.plane_stride + b * kTaps * kBlock + piece;
      std::int8_t* out = panels + b / panel_blocks * kPoints * panel_stride(depth) +
                         b % panel_blocks * kBlock + piece;
      Shorts half[3][6][2], lines[6][6][2];
      for (int x = 0; x < 3; ++x)
        for (int h = 0; h < 2; ++h) {
          Shorts g[3], line[6];
          for (int y = 0; y < 3; ++y) g[y] = widened(from + (3 * y + x) * kBlock + 8 * h);
          evaluate(g, line);
          for (int y = 0; y < 6; ++y) half[x][y][h] = line[y];
        }
      for (int y = 0; y < 6; ++y) {
        for (int h = 0; h < 2; ++h) {
          const Shorts g[3] = {half[0][y][h], half[1][y][h], half[2][y][h]};
          Shorts line[6];
          evaluate(g, line);
          for (int x = 0; x < 6; ++x) lines[y][x][h] = line[x];
        }
        for (int x = 0; x < 6; ++x) {
          Piece value = modulus.reduce(lines[y][x][0], lines[y][x][1]);
          if (kUnsignedPanel) value = unsigned_residues(value, OddModuli::moduli[plane]);
          emit(out + (6 * y + x) * panel_stride(depth), value);
        }
      }
    }
  });
}

// ---- the source -----------------------------------------------------------------------------

// Tiles of a batch of results, in order.
struct Tiles {
  std::size_t height, width, depth, count;  // height, width: in tiles
  Tiles(const Axes& axes, std::size_t images)
      : height(round_up(axes[1].count, kTile) / kTile),
        width(round_up(axes[2].count, kTile) / kTile),
        depth(axes[0].count),
        count(images * depth * height * width) {}
  struct Place {
    std::size_t plane, y, x;  // plane: image and z; y, x: in tiles
  };
  Place place(std::size_t index) const {
    return {index / width / height, index / width % height, index % width};
  }
};

struct Source {
  const EncodedImages<OddModuli>& images;
  const Axes& axes;
  Tiles tiles;
  std::size_t depth;  // channels, rounded up to what rows hold

  // Transforms the patches of `count` neighbouring tiles from `first` on, all in one line of tiles,
  // to rows [group of tiles][point][channel run][tile][kDepthStep]. Columns of patches are
  // transformed once, although neighbouring patches share two.
  void transform(int plane, std::size_t first, std::size_t count, std::size_t row,
                 std::int8_t* rows) const {
    const Modulus modulus(OddModuli::moduli[plane]);
    const Border& border = images.border;
    const auto along = [&](int d) {
      return static_cast<std::size_t>(axes[d].taps[0].offset +
                                      static_cast<std::ptrdiff_t>(border.before[d]));
    };
    const auto at = tiles.place(first);
    const std::size_t z = at.plane / tiles.depth * border.padded[0] + at.plane % tiles.depth;
    const std::size_t y = (z + along(0)) * border.padded[1] + kTile * at.y + along(1);
    const std::size_t channels = images.channels, line = border.padded[2] * channels;
    const std::int8_t* patch = images.bytes + plane * images.plane_stride + y * line +
                               (kTile * at.x + along(2)) * channels;
    const std::size_t stride = rows_stride(depth), depth_ = depth;
    const RowLayout layout = RowLayout::packed(depth);
    Shorts columns[kTile * kStrip + 2][kPatch][2];
    for (std::size_t c = 0; c < depth_; c += kPiece) {
      for (std::size_t x = 0; x < kTile * count + 2; ++x)
        for (int h = 0; h < 2; ++h) {
          Shorts d[6], out[6];
          for (int i = 0; i < 6; ++i) d[i] = widened(patch + i * line + x * channels + c + 8 * h);
          expand(d, out);
          for (int i = 0; i < 6; ++i) columns[x][i][h] = out[i];
        }
      for (std::size_t t = 0; t < count; ++t) {
        const std::size_t r = row + t;
        std::int8_t* to = rows + r / kRows * kPoints * stride + c / kDepthStep * layout.step +
                          r % kRows * layout.row + c % kDepthStep;
        for (int i = 0; i < 6; ++i) {
          Shorts out[2][6];
          for (int h = 0; h < 2; ++h) {
            Shorts d[6];
            for (int x = 0; x < 6; ++x) d[x] = columns[kTile * t + x][i][h];
            expand(d, out[h]);
          }
          for (int x = 0; x < 6; ++x)
            emit(to + (6 * i + x) * stride, modulus.reduce(out[0][x], out[1][x]));
        }
      }
    }
  }
};

// ---- the result -----------------------------------------------------------------------------

// Sums [point][lane] to residues [position in the tile][lane].
void collapse_sums(const std::int32_t* sums, const Modulus& modulus, std::int8_t* out) {
  for (std::size_t lane = 0; lane < kLanes; lane += kPiece) {
    Ints results[16][4];
    for (int v = 0; v < 4; ++v) {
      Ints half[4][6];
      for (int x = 0; x < 6; ++x) {
        Ints m[6], line[4];
        for (int y = 0; y < 6; ++y)
          std::memcpy(&m[y], sums + (6 * y + x) * kLanes + lane + 4 * v, sizeof m[y]);
        collapse(m, line);
        for (int y = 0; y < 4; ++y) half[y][x] = line[y];
      }
      for (int y = 0; y < 4; ++y) {
        Ints line[4];
        collapse(half[y], line);
        for (int x = 0; x < 4; ++x) results[4 * y + x][v] = line[x];
      }
    }
    for (int i = 0; i < 16; ++i) emit(out + i * kLanes + lane, modulus.reduce(results[i]));
  }
}

// Residues of all tiles and columns, [plane][panel][group][position][lane], and the words they
// make.
struct Results {
  const Axes& axes;
  Extent size;
  Tiles tiles;
  std::size_t groups, columns, plane_stride;
  std::int8_t* bytes;
  static constexpr std::size_t block = kTile * kTile * kLanes;

  std::int8_t* at(int plane, std::size_t panel, std::size_t group) const {
    return bytes + plane * plane_stride + (panel * groups + group) * block;
  }
  void store(std::int64_t* result, std::size_t image_stride, bool accumulate) const {
    parallel_for(round_up(columns, kColumns) / kColumns * groups, 4,
                 [&](std::size_t begin, std::size_t end) {
                   std::int64_t values[block];
                   for (std::size_t i = begin; i < end; ++i) {
                     for (std::size_t k = 0; k < block; k += kPiece)
                       Remainder<OddModuli>::combine(bytes + i * block + k, plane_stride,
                                                     values + k);
                     for (std::size_t r = 0; r < kRows; ++r)
                       if (i % groups * kRows + r < tiles.count)
                         store_tile(values + r * kColumns, i % groups * kRows + r,
                                    i / groups * kColumns, result, image_stride, accumulate);
                   }
                 });
  }

 private:
  void store_tile(const std::int64_t* values, std::size_t tile, std::size_t column,
                  std::int64_t* result, std::size_t image_stride, bool accumulate) const {
    const auto at = tiles.place(tile);
    const std::size_t y0 = kTile * at.y, x0 = kTile * at.x, plane = size[1] * size[2];
    const std::size_t height = std::min(kTile, axes[1].count - y0);
    const std::size_t width = std::min(kTile, axes[2].count - x0);
    std::int64_t* corner = result + at.plane / tiles.depth * image_stride +
                           at.plane % tiles.depth * plane + y0 * size[2] + x0;
    for (std::size_t j = 0; j < std::min(kColumns, columns - column); ++j)
      for (std::size_t y = 0; y < height; ++y) {
        std::int64_t* to = corner + (column + j) * size[0] * plane + y * size[2];
        const std::int64_t* from = values + y * kTile * kLanes + j;
        if (width == kTile && !accumulate)
          for (std::size_t x = 0; x < kTile; ++x) to[x] = from[x * kLanes];
        else
          for (std::size_t x = 0; x < width; ++x)
            to[x] = static_cast<std::int64_t>(static_cast<std::uint64_t>(from[x * kLanes]) +
                                              (accumulate ? static_cast<std::uint64_t>(to[x]) : 0));
      }
  }
};

// ---- all of it ------------------------------------------------------------------------------

// Prefetches all bytes of the next point while one is multiplied.
struct Following {
  const std::int8_t *panel, *rows;
  void fetch(std::size_t at) const {
    for (std::size_t i = 0; i < kColumns * kDepthStep; i += 64)
      __builtin_prefetch(panel + at * kColumns + i);
    for (std::size_t i = 0; i < kRows * kDepthStep; i += 64)
      __builtin_prefetch(rows + at * kRows + i);
  }
};

// The sums of all points, of kRows tiles and a panel.
void multiply_group(const Multiplier& multiplier, const std::int8_t* rows, const std::int8_t* panel,
                    std::size_t depth, std::int32_t* sums) {
  for (std::size_t point = 0; point < kPoints; ++point) {
    const std::int8_t *next_rows = rows + rows_stride(depth),
                      *next_panel = panel + panel_stride(depth);
    multiplier.block(rows, RowLayout::packed(depth), kRows, panel, depth, sums + point * kLanes,
                     false, Following{next_panel, next_rows});
    rows = next_rows, panel = next_panel;
  }
}

void multiply_points(const Source& source, int plane, const std::int8_t* panels,
                     const Results& results) {
  const std::size_t depth = source.depth, groups = results.groups;
  const std::size_t num_panels = round_up(results.columns, kColumns) / kColumns;
  const Modulus modulus(OddModuli::moduli[plane]);
  const std::size_t parts =
      round_up((groups + kTileGroups - 1) / kTileGroups, static_cast<std::size_t>(num_threads()));
  const std::size_t part = (groups + parts - 1) / parts, stride = rows_stride(depth);
  parallel_for(groups, part, [&](std::size_t begin, std::size_t end) {
    const Scratch row_bytes(Use::rows, part * kPoints * stride);
    const Scratch sum_bytes(Use::sums, kPoints * kLanes * sizeof(std::int32_t));
    auto* sums = sum_bytes.data<std::int32_t>();
    const Multiplier multiplier;
    for (std::size_t g0 = begin; g0 < end; g0 += part) {
      const std::size_t g1 = std::min(end, g0 + part);
      const std::size_t first = g0 * kRows, last = std::min(source.tiles.count, g1 * kRows);
      for (std::size_t t = first, count; t < last; t += count) {
        count = std::min({kStrip, last - t, source.tiles.width - t % source.tiles.width});
        source.transform(plane, t, count, t - first, row_bytes.data());
      }
      for (std::size_t panel = 0; panel < num_panels; ++panel)
        for (std::size_t g = g0; g < g1; ++g) {
          const std::int8_t* rows = row_bytes.data() + (g - g0) * kPoints * stride;
          const std::int8_t* right = panels + panel * kPoints * panel_stride(depth);
          multiply_group(multiplier, rows, right, depth, sums);
          collapse_sums(sums, modulus, results.at(plane, panel, g));
        }
    }
  });
}

void winograd_part(const Shape& shape, const Axes& axes, const std::int64_t* source,
                   const std::int64_t* weight, WeightStrides strides, std::int64_t* result,
                   std::size_t channels, bool accumulate, Prepared& prepared) {
  const std::size_t depth = round_up(channels, kDepthStep);
  const std::size_t columns = round_up(shape.columns, kColumns);
  std::size_t offsets[kTaps];
  for (std::size_t tap = 0; tap < kTaps; ++tap)
    offsets[tap] =
        weight_index(shape, axes[0].taps[0], axes[1].taps[tap / 3], axes[2].taps[tap % 3]);
  const auto element = [&](std::size_t c, std::size_t j, std::size_t tap) {
    const bool inside = c < channels && j < shape.columns;
    return inside ? weight[c * strides.channel + j * strides.column + offsets[tap]] : 0;
  };
  const Scratch tap_bytes(
      Use::panels,
      prepared.filled ? 0 : OddModuli::planes * EncodedTaps::plane_size(depth, shape.columns));
  const EncodedTaps taps(element, depth, shape.columns, tap_bytes.data(), prepared.filled);
  const std::size_t panel_bytes = panels_size(depth, shape.columns);
  const Scratch panels(Use::kernel, prepared.spare(panel_bytes));
  std::int8_t* all = prepared.take(panels, OddModuli::planes * panel_bytes);
  const bool keeps = all != panels.data();
  for (int plane = 0; keeps && !prepared.filled && plane < OddModuli::planes; ++plane)
    transform_taps(taps, plane, depth, all + plane * panel_bytes);
  Axes whole = axes;  // of whole tiles
  for (int d = 1; d < 3; ++d) whole[d].count = round_up(axes[d].count, kTile);
  const Border border(shape, whole);
  const std::size_t source_stride = shape.groups * shape.channels * shape.source_size();
  const std::size_t result_stride = shape.groups * shape.columns * shape.result_size();
  const std::size_t image_size =
      std::max(border.size() * channels, shape.columns * shape.result_size()) * OddModuli::planes;
  const std::size_t chunk = std::max<std::size_t>(1, kImageBytes / image_size);
  for (std::size_t n = 0; n < shape.batch; n += chunk) {
    const std::size_t images = std::min(chunk, shape.batch - n);
    const Scratch image_bytes(Use::image, OddModuli::planes * EncodedImages<OddModuli>::plane_size(
                                                                  border, images, channels));
    const EncodedImages<OddModuli> encoded(border, shape, source + n * source_stride, images,
                                           source_stride, channels, image_bytes.data());
    const Tiles tiles(axes, images);
    const std::size_t groups = round_up(tiles.count, kRows) / kRows;
    const std::size_t plane_stride = groups * columns / kColumns * Results::block + kSpare;
    const Scratch residues(Use::residues, OddModuli::planes * plane_stride);
    const Results results{axes,          shape.result, tiles,          groups,
                          shape.columns, plane_stride, residues.data()};
    for (int plane = 0; plane < OddModuli::planes; ++plane) {
      if (!keeps) transform_taps(taps, plane, depth, all);
      multiply_points({encoded, axes, tiles, depth}, plane, keeps ? all + plane * panel_bytes : all,
                      results);
    }
    results.store(result + n * result_stride, result_stride, accumulate);
  }
}

}  // namespace

bool winograd_fits(const Axes& axes) {
  const auto fits = [](const Axis& axis, std::size_t taps) {
    if (axis.stride != 1 || axis.step != 1 || axis.taps.size() != taps) return false;
    for (std::size_t i = 1; i < taps; ++i)
      if (axis.taps[i].offset != axis.taps[0].offset + static_cast<std::ptrdiff_t>(i)) return false;
    return true;
  };
  return fits(axes[0], 1) && fits(axes[1], 3) && fits(axes[2], 3);
}

// Of one group, in ns on a Neoverse-N1: products, transforms of sums, source and weight, encoding.
double winograd_cost(const Shape& shape, const Axes& axes, bool prepared) {
  const auto product = [](auto... factors) { return (static_cast<double>(factors) * ...); };
  const std::size_t tiles = round_up(Tiles(axes, shape.batch).count, kRows);
  const std::size_t channels = round_up(shape.channels, kDepthStep);
  const std::size_t columns = round_up(shape.columns, kColumns);
  const std::size_t parts = (shape.channels + kMaxChannels - 1) / kMaxChannels;
  return product(tiles, columns, channels, kPoints * OddModuli::planes) * byte_product() +
         product(tiles, columns, parts) * 530 + product(tiles, channels) * 265 +
         product(channels, columns) * (prepared ? 0 : 335) +
         product(shape.batch, shape.source_size(), shape.channels) * Cost<std::int64_t>::encode;
}

// How many channels are summed at a time: equal parts of at most kMaxChannels.
static std::size_t part_size(const Shape& shape) {
  const std::size_t parts = (shape.channels + kMaxChannels - 1) / kMaxChannels;
  return round_up((shape.channels + parts - 1) / parts, kDepthStep);
}

std::size_t winograd_bytes(const Shape& shape) {
  const std::size_t part = part_size(shape);
  std::size_t bytes = 0;
  for (std::size_t c = 0; c < shape.channels; c += part)
    bytes += OddModuli::planes *
             panels_size(round_up(std::min(part, shape.channels - c), kDepthStep), shape.columns);
  return bytes;
}

void winograd(const Shape& shape, const Axes& axes, const std::int64_t* source,
              const std::int64_t* weight, WeightStrides strides, std::int64_t* result,
              Prepared& prepared) {
  const std::size_t part = part_size(shape);
  for (std::size_t c = 0; c < shape.channels; c += part)
    winograd_part(shape, axes, source + c * shape.source_size(), weight + c * strides.channel,
                  strides, result, std::min(part, shape.channels - c), c > 0, prepared);
}

}  // namespace tacit
