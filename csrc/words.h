// Blocked products of words in vector registers, for processors without dot products of bytes:
// SSE4, AVX2 and AVX-512 without VNNI on x86-64, plain NEON on ARM.
//
// With halves of 32 bits, x = x_l + 2^32 x_h, a product mod 2^64 is
//   x y = x_l y_l + 2^32 (x_l y_h + x_h y_l),
// one multiplication to 64 bits and two mod 2^32, which are added to sums of their own. AVX-512
// multiplies mod 2^64 (vpmullq, three operations). These processors multiply bytes as 16-bit pairs
// at best (vpmaddwd): 18 residues (csrc/residues.h) would take 1.7 times as many operations as
// these words, and 2.3 times with AVX-512.
#pragma once

#include <algorithm>

#include "native.h"
#include "scratch.h"
#include "simd.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

namespace tacit {

#if defined(__AVX512DQ__)
constexpr int kWordBytes = 64;  // of a vector
#else
constexpr int kWordBytes = kVectorBytes;
#endif
typedef std::uint32_t Words32 __attribute__((vector_size(kWordBytes)));

// A block of sums has so many rows, and as many columns as a vector has halves of words. Of 16
// registers nine hold the sums of words, of 32 24.
constexpr std::size_t kWordColumns = kWordBytes / 4;
#if defined(__AVX512DQ__)
constexpr std::size_t kWordRows = 12;
#elif defined(__ARM_NEON)
constexpr std::size_t kWordRows = 8;
#else
constexpr std::size_t kWordRows = 3;
#endif

// The sums of one row of a block.
template <class T>
struct WordSums;

template <>
struct WordSums<std::int32_t> {
  static constexpr std::size_t kParts = 1;  // vectors of a panel's line
  Words32 sum = {};

  void add(const std::int32_t* x, const Words32 y[kParts]) {
    sum += y[0] * static_cast<std::uint32_t>(*x);
  }
  void store(std::int32_t* to) const { std::memcpy(to, &sum, sizeof sum); }
};

#if defined(__AVX512DQ__)

template <>
struct WordSums<std::int64_t> {
  static constexpr std::size_t kParts = 2;  // the first half of the columns and the second
  typedef std::uint64_t Words __attribute__((vector_size(kWordBytes)));
  Words sums[kParts] = {};

  void add(const std::int64_t* x, const Words32 y[kParts]) {
    for (std::size_t part = 0; part < kParts; ++part)
      sums[part] += (Words)y[part] * static_cast<std::uint64_t>(*x);
  }
  void store(std::int64_t* to) const { std::memcpy(to, sums, sizeof sums); }
};

#else

template <>
struct WordSums<std::int64_t> {
  static constexpr std::size_t kParts = 2;  // the low halves of all columns, then the high ones
  static constexpr std::size_t kHalf = kWordColumns / 2;
  Words64 low[2] = {};
  Words32 cross = {};

#if defined(__ARM_NEON)
  // `low` are the first half of the columns and the second.
  void add(const std::int64_t* x, const Words32 y[kParts]) {
    const uint32x2_t halves = vld1_u32(reinterpret_cast<const std::uint32_t*>(x));
    const auto small = (uint32x4_t)y[0], big = (uint32x4_t)y[1];
    low[0] = (Words64)vmlal_lane_u32((uint64x2_t)low[0], vget_low_u32(small), halves, 0);
    low[1] = (Words64)vmlal_high_lane_u32((uint64x2_t)low[1], small, halves, 0);
    cross = (Words32)vmlaq_lane_u32((uint32x4_t)cross, big, halves, 0);
    cross = (Words32)vmlaq_lane_u32((uint32x4_t)cross, small, halves, 1);
  }
  static std::size_t place(std::size_t column) { return column; }
#else
  // `low` are the even columns and the odd ones.
  void add(const std::int64_t* x, const Words32 y[kParts]) {
    std::uint32_t halves[2];  // each is read to all lanes
    std::memcpy(halves, x, 4);
    std::memcpy(halves + 1, reinterpret_cast<const char*>(x) + 4, 4);
    const Words32 small = Words32{} + halves[0];
    low[0] += product(small, y[0]);
    low[1] += product(small, (Words32)((Words64)y[0] >> 32));
    cross += small * y[1] + y[0] * halves[1];
  }
  static std::size_t place(std::size_t column) { return column % 2 * kHalf + column / 2; }
  // Of the even lanes, to 64 bits.
  static Words64 product(Words32 a, Words32 b) {
#if defined(__AVX2__)
    return (Words64)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (Words64)_mm_mul_epu32((__m128i)a, (__m128i)b);
#endif
  }
#endif

  void store(std::int64_t* to) const {
    std::uint64_t lows[kWordColumns];
    std::memcpy(lows, low, sizeof lows);
    for (std::size_t j = 0; j < kWordColumns; ++j)
      to[j] = static_cast<std::int64_t>(lows[place(j)] + (std::uint64_t{cross[j]} << 32));
  }
};

#endif

// Rows and columns whose parts of kWordDepth depths are multiplied at a time: they stay in the
// second-level cache, a panel of kWordColumns columns in the first.
constexpr std::size_t kWordDepth = 256, kWordRowBlock = 96, kWordColumnBlock = 128;

// A part of the left operand, [group of rows][depth][row], from `left(i, l)`.
template <class T, class Left>
void pack_rows(const Left& left, std::size_t i0, std::size_t m, std::size_t l0, std::size_t depth,
               T* out) {
  for (std::size_t i = 0; i < m; i += kWordRows)
    for (std::size_t l = 0; l < depth; ++l)
      for (std::size_t r = 0; r < kWordRows; ++r) *out++ = i + r < m ? left(i0 + i + r, l0 + l) : 0;
}

// A line of a panel: `count` columns at one depth.
template <class T>
void pack_line(const T* line, std::size_t count, std::uint32_t* out) {
  constexpr std::size_t parts = WordSums<T>::kParts;
#if defined(__AVX512DQ__)
  std::memcpy(out, line, count * sizeof(T));
  std::memset(out + count * parts, 0, (kWordColumns - count) * sizeof(T));
#else
  for (std::size_t j = 0; j < kWordColumns; ++j)
    for (std::size_t part = 0; part < parts; ++part) {
      const auto word = static_cast<std::uint64_t>(j < count ? line[j] : 0);
      out[part * kWordColumns + j] = static_cast<std::uint32_t>(word >> (32 * part));
    }
#endif
}

// values[r][j] = the sum over depths of row r of a group times column j of a panel.
template <class T>
void multiply_words(const T* rows, const std::uint32_t* panel, std::size_t depth, T* values) {
  constexpr std::size_t parts = WordSums<T>::kParts;
  WordSums<T> sums[kWordRows];
  for (std::size_t l = 0; l < depth; ++l, rows += kWordRows, panel += parts * kWordColumns) {
    Words32 line[parts];
    for (std::size_t part = 0; part < parts; ++part)
      line[part] = load<Words32>(panel + part * kWordColumns);
    unrolled<static_cast<int>(kWordRows)>(
        [&]<int R>() __attribute__((always_inline)) { sums[R].add(rows + R, line); });
  }
  unrolled<static_cast<int>(kWordRows)>(
      [&]<int R>() __attribute__((always_inline)) { sums[R].store(values + R * kWordColumns); });
}

// Whether a product of matrices is faster so than in plain loops: fewer rows or columns leave most
// of a block unused. NEON multiplies words of 32 bits as fast in plain loops, and AVX-512 all
// words, as long as the right operand is in the second-level cache.
template <class T>
bool words_pay(std::size_t m, std::size_t n, std::size_t k) {
#if defined(__AVX512VNNI__)
  constexpr bool faster = false;  // large products are encoded
#elif defined(__AVX512DQ__)
  const bool faster = m >= kWordRows && n * k * sizeof(T) > 256 << 10;
#elif defined(__ARM_NEON)
  constexpr bool faster = sizeof(T) == 8;
#else
  constexpr bool faster = true;
#endif
  return faster && m > kWordRows / 2 && n > kWordColumns / 2 && k >= 8;
}

// The product of m rows, `left(i, l)`, and n columns of k depths. `right(l, j, count, line)`
// returns where the elements at depth l of `count` columns from j on are: in `line`, where it may
// write them, or anywhere. Calls store(i, j, count, values, accumulate) for `count` sums of a row.
template <class T, class Left, class Right, class Store>
void word_product(std::size_t m, std::size_t n, std::size_t k, const Left& left, const Right& right,
                  const Store& store) {
  constexpr std::size_t parts = WordSums<T>::kParts;
  const std::size_t row_blocks = (m + kWordRowBlock - 1) / kWordRowBlock;
  const std::size_t column_blocks = (n + kWordColumnBlock - 1) / kWordColumnBlock;
  parallel_for(row_blocks * column_blocks, 1, [&](std::size_t begin, std::size_t end) {
    const Scratch rows(Use::rows, (kWordRowBlock + kWordRows) * kWordDepth * sizeof(T));
    const Scratch panel(Use::panels, kWordColumns * kWordDepth * sizeof(T));
    for (std::size_t index = begin; index < end; ++index) {
      const std::size_t i0 = index % row_blocks * kWordRowBlock;
      const std::size_t j0 = index / row_blocks * kWordColumnBlock;
      const std::size_t mn = std::min(kWordRowBlock, m - i0),
                        nn = std::min(kWordColumnBlock, n - j0);
      for (std::size_t l0 = 0; l0 < k; l0 += kWordDepth) {
        const std::size_t depth = std::min(kWordDepth, k - l0);
        pack_rows(left, i0, mn, l0, depth, rows.data<T>());
        for (std::size_t j = 0; j < nn; j += kWordColumns) {
          const std::size_t count = std::min(kWordColumns, nn - j);
          auto* out = panel.data<std::uint32_t>();
          for (std::size_t l = 0; l < depth; ++l, out += parts * kWordColumns) {
            T line[kWordColumns];
            pack_line(right(l0 + l, j0 + j, count, line), count, out);
          }
          for (std::size_t i = 0; i < mn; i += kWordRows) {
            T values[kWordRows * kWordColumns];
            multiply_words(rows.data<T>() + i * depth, panel.data<std::uint32_t>(), depth, values);
            for (std::size_t r = 0; r < std::min(kWordRows, mn - i); ++r)
              store(i0 + i + r, j0 + j, count, values + r * kWordColumns, l0 > 0);
          }
        }
      }
    }
  });
}

}  // namespace tacit
