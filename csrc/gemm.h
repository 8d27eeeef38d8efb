// Blocked products of encoded operands, for matrix products and convolutions.
//
// `Depth` is the inner dimension. It is padded to a multiple of kDepthStep; panels have zeros
// there, so that rows may have anything.
#pragma once

#include <algorithm>

#include "native.h"
#include "residues.h"
#include "scratch.h"

namespace tacit {

constexpr std::size_t kRowBlock = 64;
constexpr std::size_t kColumnBlock = 64;

constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

template <class T>
using EncodingOf = std::conditional_t<sizeof(T) == 8, Residues, Digits>;

// Estimated ns on one core; only proportions matter. They decide from which size on encoding pays.
template <class T>
struct Cost {
  static constexpr bool wide = sizeof(T) == 8;
  static constexpr double product = (wide ? 18 : 10) * kByteProduct;  // a depth of a sum
  static constexpr double combine = wide ? 15 : 0.6;                  // a sum
  static constexpr double encode = wide ? 10 : 4;                     // an element of an operand
  static constexpr double gather = wide ? 2.5 : 0.6;  // a depth of a row, of a convolution
  static constexpr double plain = wide ? 1.3 : 0.21;  // a depth of a sum, contiguous
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

// Three spare cache lines between planes, and between tiles, put them into different cache sets.
constexpr std::size_t kSpare = 192;

// Bytes from a plane to the next.
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
                                            [&](int p, Bytes value) {
                                              std::memcpy(out + p * plane_stride, &value, kBlock);
                                            });
              }
        });
  }
  const std::int8_t* block(int plane, std::size_t first, std::size_t) const {
    return bytes + plane * plane_stride + first / kRows * layout.group;
  }
  const std::int8_t* upcoming(const std::int8_t* block) const { return block + plane_stride; }
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

// The right operand: byte planes of panels, [plane][panel][depth / 4][column][4].
template <class S>
struct EncodedPanels {
  std::size_t depth, columns, panel_stride, plane_stride;
  std::int8_t* bytes;

  static std::size_t size(std::size_t depth, std::size_t columns) {
    return S::planes * plane_bytes(round_up(columns, kColumns), depth);
  }
  // `b(k, j)` is the element at depth k of column j.
  template <class Elements>
  EncodedPanels(const Elements& b, std::size_t depth_, std::size_t columns_, std::int8_t* buffer,
                bool filled)
      : depth(round_up(depth_, kDepthStep)),
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
  const std::int8_t* panel(int plane, std::size_t index) const {
    return bytes + plane * plane_stride + index * panel_stride;
  }

 private:
  // Encodes four columns by four depths at a time: their bytes are neighbours in the panel.
  template <class Elements>
  void encode(const Elements& b, std::size_t depth_, std::size_t panel) {
    const std::size_t n = std::min(kColumns, columns - panel * kColumns);
    for (std::size_t k = 0; k < depth; k += 4)
      for (std::size_t j = 0; j < kColumns; j += 4) {
        typename S::Word block[kBlock];
        const std::size_t column = panel * kColumns + j;
        if (k + 4 <= depth_ && j + 4 <= n)
          for (std::size_t i = 0; i < kBlock; ++i) block[i] = b(k + i % 4, column + i / 4);
        else
          for (std::size_t i = 0; i < kBlock; ++i)
            block[i] = k + i % 4 < depth_ && j + i / 4 < n ? b(k + i % 4, column + i / 4) : 0;
        std::int8_t* out = bytes + panel * panel_stride + k * kColumns + 4 * j;
        S::template encode<Side::panel>(block, [&](int p, Bytes value) {
          std::memcpy(out + p * plane_stride, &value, kBlock);
        });
      }
  }
};

// A finished block of products: values[kRows][kColumns], of which num_rows x num_columns count.
template <class T>
struct Block {
  std::size_t first_row, first_column, num_rows, num_columns;
  const T* values;
};

// Calls store(Block) for every block of rows x panels. make_rows() returns what has
// `block(plane, first, count)`, the byte plane of some rows (valid until its next call), and
// `upcoming(block)`, what is read after it. Blocks have 64 x 64 sums: those of
// all 18 planes take 300 KB and stay in the second-level cache until they are combined.
template <class S, class MakeRows, class Store>
void multiply(std::size_t num_rows, const MakeRows& make_rows, const EncodedPanels<S>& panels,
              const Store& store) {
  using T = typename S::Word;
  const std::size_t row_blocks = (num_rows + kRowBlock - 1) / kRowBlock;
  const std::size_t column_blocks = (panels.columns + kColumnBlock - 1) / kColumnBlock;
  parallel_for(row_blocks * column_blocks, 1, [&](std::size_t begin, std::size_t end) {
    auto rows = make_rows();
    for (std::size_t index = begin; index < end; ++index) {
      const std::size_t i0 = index % row_blocks * kRowBlock;
      const std::size_t j0 = index / row_blocks * kColumnBlock;
      const std::size_t m = std::min(kRowBlock, num_rows - i0);
      const std::size_t n = std::min(kColumnBlock, panels.columns - j0);
      const std::size_t groups = round_up(m, kRows) / kRows;
      const std::size_t num_panels = round_up(n, kColumns) / kColumns;
      const std::size_t tile =
          groups * num_panels * kRows * kColumns + kSpare / sizeof(std::int32_t);
      const Scratch scratch(Use::sums, tile * S::tiles * sizeof(std::int32_t));
      auto* sums = scratch.data<std::int32_t>();
      for (int p = 0; p < S::planes; ++p) {
        const std::int8_t* left = rows.block(p, i0, m);
        for (int q = S::first(p); q < S::last(p); ++q)
          for (std::size_t j = 0; j < num_panels; ++j)
            for (std::size_t i = 0; i < groups; ++i) {
              const std::int8_t* right = panels.panel(q, j0 / kColumns + j);
              const std::int8_t* next_panel =
                  j + 1 < num_panels ? right + panels.panel_stride
                                     : panels.panel((q + 1) % S::planes, j0 / kColumns);
              const std::int8_t* next_rows = rows.upcoming(left);
              const Ahead ahead{next_panel + i * panels.depth,
                                next_rows + (j * groups + i) * panels.depth};
              multiply_block(left + i * rows.layout.group, rows.layout, right, panels.depth,
                             sums + S::tile(p, q) * tile + (j * groups + i) * kRows * kColumns,
                             S::accumulates && p > 0, ahead);
            }
      }
      for (std::size_t j = 0; j < n; j += kColumns)
        for (std::size_t i = 0; i < m; i += kRows) {
          T values[kRows * kColumns];
          S::combine(sums + (j / kColumns * groups + i / kRows) * kRows * kColumns, tile, values);
          store(
              Block<T>{i0 + i, j0 + j, std::min(kRows, m - i), std::min(kColumns, n - j), values});
        }
    }
  });
}

}  // namespace tacit
