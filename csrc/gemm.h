// Blocked products of encoded operands, for matrix products and convolutions.
//
// `Depth` is the inner dimension. It is padded to a multiple of kDepthStep; panels have zeros
// there, so that rows may have anything.
#pragma once

#include <algorithm>

#include "native.h"
#include "sums.h"

namespace tacit {

// A block of sums: those of all 18 planes stay in the second-level cache until they are combined.
// On x86-64 so do the panels of a block, because tiles are multiplied faster than memory is read:
// the rows, which are read again for each block of columns, are then what is left to read.
#if defined(__AVX512VNNI__)
constexpr std::size_t kRowBlock = 32, kColumnBlock = 128, kPanelBytes = 1200 << 10;
#else
constexpr std::size_t kRowBlock = 64, kColumnBlock = 64, kPanelBytes = ~std::size_t{0};
#endif

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// How deep a product of this encoding may be: for exactness, and for panels of so many columns to
// stay in the cache. Deeper ones are sums of several.
template <class S>
constexpr std::size_t part_depth(std::size_t columns) {
  return std::min(S::max_depth, kPanelBytes / (S::planes * columns) / kDepthStep * kDepthStep);
}

template <class T>
using EncodingOf = std::conditional_t<sizeof(T) == 8, Residues, Digits>;

// Estimated ns on one core; only proportions matter. They decide from which size on encoding pays.
// As measured on a Neoverse-N1, and on a Xeon of 2.6 GHz with AVX-512.
template <class T>
struct Cost {
  static constexpr bool wide = sizeof(T) == 8;
  static double product() { return (wide ? 18 : 10) * byte_product(); }  // a depth of a sum
#if defined(__AVX512VNNI__)
  static constexpr double overhead = 5000;               // a call
  static constexpr double combine = wide ? 2.5 : 0.4;    // a sum
  static constexpr double encode = wide ? 2 : 0.4;       // an element of an operand
  static constexpr double fetch = 0.12, refetch = 0.02;  // a byte from memory, from a cache
  static constexpr double plain = wide ? 0.1 : 0.06;     // a depth of a sum, of matrices
  static constexpr double place = wide ? 150 : 40;       // a row of a convolution
  static constexpr double gather = wide ? 0.3 : 0.06;    // a depth of such a row
  static constexpr double line = wide ? 0.15 : 0.08;     // a depth of a sum, of lines
#else
  static constexpr double overhead = 2000;
  static constexpr double combine = wide ? 15 : 0.6;
  static constexpr double encode = wide ? 10 : 4;
  static constexpr double fetch = 0, refetch = 0;
  static constexpr double plain = wide ? 1.3 : 0.21;
  static constexpr double place = 0;
  static constexpr double gather = wide ? 2.5 : 0.6;
  static constexpr double line = plain;
#endif
#if defined(__ARM_NEON)
  static constexpr double word = wide ? 0.67 : plain;  // a depth of a sum, in blocks of words
#elif defined(__AVX2__)
  static constexpr double word = wide ? 0.18 : 0.06;
#else
  static constexpr double word = wide ? 0.36 : 0.12;
#endif
  // An element of an operand that has so many, of so many bytes each.
  static constexpr double read(double elements, double bytes) {
    constexpr double cached = 1 << 20;
    return bytes * (elements * bytes > cached ? fetch : refetch);
  }
};

// How a product is computed: plain loops for small ones, encoded operands for the others,
// Winograd's transforms for some convolutions. The numbers are those of METHODS in
// src/tacit/kernels.
enum class Method { choose, plain, encoded, winograd };

// A view of a matrix of ring elements.
template <class T>
struct Matrix {
  T* data;
  std::ptrdiff_t row_stride, column_stride;
  T& operator()(std::size_t i, std::size_t j) const {
    return data[static_cast<std::ptrdiff_t>(i) * row_stride +
                static_cast<std::ptrdiff_t>(j) * column_stride];
  }
};

// Encodes kBlock elements from `x` on, `stride` elements apart; beyond `count` they are zeros.
// Calls emit(plane, bytes).
template <class S, Side side, class Emit>
void encode_block(const typename S::Word* x, std::ptrdiff_t stride, std::size_t count, Emit emit) {
  if (stride == 1 && count >= kBlock) return S::template encode<side>(x, emit);
  typename S::Word gathered[kBlock] = {};
  for (std::size_t i = 0; i < std::min(kBlock, count); ++i)
    gathered[i] = x[static_cast<std::ptrdiff_t>(i) * stride];
  S::template encode<side>(gathered, emit);
}

// BlockBytes from a plane to the next.
constexpr std::size_t plane_bytes(std::size_t width, std::size_t depth) {
  return round_up(width * round_up(depth, kDepthStep), 64) + kSpare;
}

// The left operand: byte planes of packed rows, [plane][group of rows][run of depths][row][16].
template <class S>
struct EncodedRows {
  std::size_t plane_stride;
  RowLayout layout;
  std::int8_t* bytes;

  static std::size_t size(std::size_t num_rows, std::size_t depth) {
    return S::planes * plane_bytes(round_up(num_rows, kRows), depth);
  }
  EncodedRows(Matrix<const typename S::Word> a, std::size_t num_rows, std::size_t depth,
              std::int8_t* buffer)
      : plane_stride(size(num_rows, depth) / S::planes),
        layout(RowLayout::packed(round_up(depth, kDepthStep))),
        bytes(buffer) {
    const std::size_t groups = round_up(num_rows, kRows) / kRows;
    parallel_for(
        groups, std::max<std::size_t>(1, 1024 / depth), [&](std::size_t begin, std::size_t end) {
          for (std::size_t g = begin; g < end; ++g)
            for (std::size_t k = 0; k < depth; k += kBlock)
              for (std::size_t i = g * kRows; i < std::min(num_rows, (g + 1) * kRows); ++i) {
                std::int8_t* out =
                    bytes + g * layout.group + i % kRows * layout.row + k / kBlock * layout.step;
                encode_block<S, Side::rows>(&a(i, k), a.column_stride, depth - k,
                                            [&](int p, BlockBytes value) {
                                              std::memcpy(out + p * plane_stride, &value, kBlock);
                                            });
              }
        });
  }
  const std::int8_t* block(int plane, std::size_t first, std::size_t) const {
    return bytes + plane * plane_stride + first / kRows * layout.group;
  }
  const std::int8_t* upcoming(const std::int8_t* block) const { return block + plane_stride; }
  std::size_t used(std::size_t, std::size_t count) const { return count; }
};

// Memory of the caller for an encoded right operand that outlives the call; `bytes` is null if
// there is none, and the operand is then encoded to scratch memory. Every call with the operand
// takes the same pieces in the same order; `filled` says that an earlier call has written them.
struct Prepared {
  std::int8_t* bytes = nullptr;
  bool filled = false;

  // How much scratch memory a piece of `size` bytes needs.
  std::size_t spare(std::size_t size) const { return bytes ? 0 : size; }
  // Where the next piece is.
  std::int8_t* take(const Scratch& scratch, std::size_t size) {
    if (!bytes) return scratch.data();
    bytes += size;
    return bytes - size;
  }
};

// The right operand: byte planes of panels, [plane][panel][run of depths][column][kPanelRun].
template <class S>
struct EncodedPanels {
  std::size_t used, depth, columns, panel_stride, plane_stride;  // depth: with padding
  std::int8_t* bytes;

  static std::size_t size(std::size_t depth, std::size_t columns) {
    return S::planes * plane_bytes(round_up(columns, kColumns), depth);
  }
  // `b(k, j)` is the element at depth k of column j.
  template <class Elements>
  EncodedPanels(const Elements& b, std::size_t depth_, std::size_t columns_, std::int8_t* buffer,
                bool filled)
      : used(depth_),
        depth(round_up(depth_, kDepthStep)),
        columns(columns_),
        panel_stride(depth * kColumns),
        plane_stride(size(depth_, columns_) / S::planes),
        bytes(buffer) {
    if (filled) return;
    const std::size_t panels = round_up(columns, kColumns) / kColumns;
    parallel_for(panels, std::max<std::size_t>(1, 8192 / panel_stride),
                 [&](std::size_t begin, std::size_t end) {
                   for (std::size_t panel = begin; panel < end; ++panel) encode(b, depth_, panel);
                 });
  }
  // How many columns are multiplied at a time: equal parts.
  std::size_t block_columns() const {
    const std::size_t fit = kPanelBytes / (S::planes * depth) / kColumns * kColumns;
    const std::size_t most = std::clamp(fit, kColumns, kColumnBlock);
    const std::size_t blocks = (columns + most - 1) / most;
    return round_up((columns + blocks - 1) / blocks, kColumns);
  }
  const std::int8_t* panel(int plane, std::size_t index) const {
    return bytes + plane * plane_stride + index * panel_stride;
  }

 private:
  // Encodes kWide columns by a run of depths at a time: their bytes are neighbours in the panel.
  static constexpr std::size_t kRun = kPanelRun, kWide = kBlock / kRun;

  template <class Elements>
  void encode(const Elements& b, std::size_t depth_, std::size_t panel) {
    const std::size_t n = std::min(kColumns, columns - panel * kColumns);
    for (std::size_t k = 0; k < depth; k += kRun)
      for (std::size_t j = 0; j < kColumns; j += kWide) {
        std::int8_t* out = bytes + panel * panel_stride + k * kColumns + kRun * j;
        const auto emit = [&](int p, BlockBytes value) {
          std::memcpy(out + p * plane_stride, &value, kBlock);
        };
        const std::size_t column = panel * kColumns + j;
        if (k + kRun <= depth_ && j + kWide <= n)
          encode_whole(b, k, column, emit);
        else if (k < depth_ && j < n)
          encode_part(b, k, column, depth_, emit);
        else
          for (int p = 0; p < S::planes; ++p) emit(p, BlockBytes{});
      }
  }
  template <class Elements, class Emit>
  void encode_part(const Elements& b, std::size_t k, std::size_t column, std::size_t depth_,
                   Emit emit) const {
    typename S::Word block[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i)
      block[i] = k + i % kRun < depth_ && column + i / kRun < columns
                     ? b(k + i % kRun, column + i / kRun)
                     : 0;
    S::template encode<Side::panel>(block, emit);
  }
  template <class Elements, class Emit>
  static void encode_whole(const Elements& b, std::size_t k, std::size_t column, Emit emit) {
    typename S::Word block[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = b(k + i % kRun, column + i / kRun);
    S::template encode<Side::panel>(block, emit);
  }
#if defined(__AVX512VNNI__)
  // The lines, or the columns, of a matrix are read as they are.
  template <class Emit>
  static void encode_whole(const Matrix<const typename S::Word>& b, std::size_t k,
                           std::size_t column, Emit emit) {
    using Word = typename S::Word;
    constexpr std::size_t kAhead = 16;  // lines are apart: nothing else fetches them early
    if (b.column_stride == 1) {
      for (std::size_t t = 0; t < 4; ++t)
        for (std::size_t i = 0; i < kWide; i += 64 / sizeof(Word))
          __builtin_prefetch(&b(k + kAhead + t, column + i));
      return S::template encode<Side::panel>(ElementBlock<Word>::lines(&b(k, column), b.row_stride),
                                             emit);
    }
    Word block[kBlock];
    if (b.row_stride == 1)
      for (std::size_t i = 0; i < kWide; ++i)
        std::memcpy(block + 4 * i, &b(k, column + i), 4 * sizeof(Word));
    else
      for (std::size_t i = 0; i < kBlock; ++i) block[i] = b(k + i % 4, column + i / 4);
    S::template encode<Side::panel>(block, emit);
  }
#endif
};

// A finished block of products: values[kRows][kColumns], of which num_rows x num_columns count.
template <class T>
struct Block {
  std::size_t first_row, first_column, num_rows, num_columns;
  const T* values;
};

// Calls store(Block) for every block of rows x panels. make_rows() returns what has
// `block(plane, first, count)`, the byte plane of some rows (valid until its next call),
// `upcoming(block)`, what is read after it, and `used(first, count)`, how many of these rows count:
// those after them are not multiplied.
template <class S, class MakeRows, class Store>
void multiply(std::size_t num_rows, const MakeRows& make_rows, const EncodedPanels<S>& panels,
              const Store& store) {
  using T = typename S::Word;
  const std::size_t row_blocks = (num_rows + kRowBlock - 1) / kRowBlock;
  const std::size_t width = panels.block_columns();
  const std::size_t column_blocks = (panels.columns + width - 1) / width;
  parallel_for(row_blocks * column_blocks, 1, [&](std::size_t begin, std::size_t end) {
    auto rows = make_rows();
    const Multiplier multiplier;
    for (std::size_t index = begin; index < end; ++index) {
      const std::size_t i0 = index % row_blocks * kRowBlock;
      const std::size_t j0 = index / row_blocks * width;
      const std::size_t m = rows.used(i0, std::min(kRowBlock, num_rows - i0));
      const std::size_t n = std::min(width, panels.columns - j0);
      const std::size_t groups = round_up(m, kRows) / kRows;
      const std::size_t num_panels = round_up(n, kColumns) / kColumns;
      const std::size_t calls = (groups + kGroups - 1) / kGroups;
      const std::size_t wide = kUnsignedPanel ? groups * kRows / (num_panels * calls) : 1;
      const std::size_t share =
          round_up(kGroups * kRows * kColumns / (panels.depth / kDepthStep), kColumns);
      Sums<S> sums(groups * num_panels * kRows * kColumns);
      for (int p = 0; p < S::planes; ++p) {
        const std::int8_t* left = rows.block(p, i0, m);
        for (int q = S::first(p); q < S::last(p); ++q)
          for (std::size_t j = 0; j < num_panels; ++j)
            for (std::size_t i = 0; i < groups; i += kGroups) {
              const std::int8_t* right = panels.panel(q, j0 / kColumns + j);
              const std::int8_t* next_panel =
                  j + 1 < num_panels ? right + panels.panel_stride
                                     : panels.panel((q + 1) % S::planes, j0 / kColumns);
              const std::int8_t* next_rows = rows.upcoming(left);
              const Ahead ahead{next_panel + i * panels.depth,
                                next_rows + (j * calls + i / kGroups) * wide * panels.depth, wide};
              const std::size_t num_rows = std::min(kGroups * kRows, m - i * kRows);
              std::int32_t* to = sums.next(S::tile(p, q), (j * groups + i) * kRows * kColumns,
                                           num_rows * kColumns);
              multiplier.block(left + i * rows.layout.group, rows.layout, num_rows, right,
                               panels.used, to, S::accumulates && p > 0,
                               Meanwhile<S>{ahead, sums, share});
            }
      }
      sums.finish();
      for (std::size_t j = 0; j < n; j += kColumns)
        for (std::size_t i = 0; i < m; i += kRows) {
          const std::size_t num_rows = std::min(kRows, m - i);
          T values[kRows * kColumns];
          sums.combine((j / kColumns * groups + i / kRows) * kRows * kColumns, num_rows * kColumns,
                       values);
          store(Block<T>{i0 + i, j0 + j, num_rows, std::min(kColumns, n - j), values});
        }
    }
  });
}

}  // namespace tacit
