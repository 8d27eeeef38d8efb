// Dot products of bytes on x86-64: AVX-512 VNNI, or AMX where it is there (see csrc/dot.h).
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "amx.h"
#include "row_layout.h"

namespace tacit {

inline double byte_product() { return amx_used() ? 0.0007 : 0.0033; }

// So many rows are multiplied for `num_rows`: a tile's, or those of strips.
inline std::size_t multiplied_rows(std::size_t num_rows) {
  const std::size_t step = num_rows <= 2 ? num_rows : amx_used() ? kRows : num_rows <= 4 ? 4 : 8;
  return (num_rows + step - 1) / step * step;
}

// How far ahead a panel is fetched: the processor alone reads a large weight at half of the speed.
constexpr std::size_t kPanelAhead = 2048;

// Depths of a panel that stay in the first-level cache while all rows of a block are multiplied.
constexpr std::size_t kCachedDepth = 512;

// Some of the rows of a block; `next` are those that are multiplied after them. Of 32 registers, 16
// hold the sums of eight rows. The compiler keeps them there in a function of its own, whose loops
// over them it is told to unroll.
template <std::size_t Rows>
[[gnu::noinline, gnu::noclone]] void multiply_strip(const std::int8_t* rows,
                                                    const std::int8_t* next, RowLayout layout,
                                                    const std::int8_t* panel, std::size_t from,
                                                    std::size_t to, std::int32_t* sums,
                                                    bool accumulate) {
  __m512i s[Rows][2];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (std::size_t j = 0; j < 2; ++j)
      s[i][j] =
          accumulate ? _mm512_loadu_si512(sums + i * kColumns + 16 * j) : _mm512_setzero_si512();
  for (std::size_t k = from; k < to; k += kDepthStep) {
    const std::size_t at = layout.run(k);
    const std::int8_t* run = rows + at;
    for (std::size_t i = 0; i < Rows; ++i) _mm_prefetch(next + at + i * layout.row, _MM_HINT_T0);
    // Steps of eight depths: beyond the last the panel has zeros.
    for (std::size_t l = 0; l < std::min(kDepthStep, to - k); l += 8) {
#pragma GCC unroll 2
      for (std::size_t half = 0; half < 8; half += 4, panel += 4 * kColumns) {
        const __m512i b0 = _mm512_loadu_si512(panel);
        const __m512i b1 = _mm512_loadu_si512(panel + 64);
        _mm_prefetch(panel + kPanelAhead, _MM_HINT_T0);
        _mm_prefetch(panel + kPanelAhead + 64, _MM_HINT_T0);
#pragma GCC unroll 8
        for (std::size_t i = 0; i < Rows; ++i) {
          std::int32_t word;
          std::memcpy(&word, run + i * layout.row + l + half, 4);
          const __m512i a = _mm512_set1_epi32(word);
          s[i][0] = _mm512_dpbusd_epi32(s[i][0], b0, a);
          s[i][1] = _mm512_dpbusd_epi32(s[i][1], b1, a);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Rows; ++i)
#pragma GCC unroll 2
    for (std::size_t j = 0; j < 2; ++j) _mm512_storeu_si512(sums + i * kColumns + 16 * j, s[i][j]);
}

// What a thread needs to multiply: the configuration of the tiles, if they are used.
class Multiplier {
 public:
  Multiplier() {
#if defined(TACIT_AMX)
    if (tiles_) configure_tiles();
#endif
  }
  ~Multiplier() {
#if defined(TACIT_AMX)
    if (tiles_) _tile_release();
#endif
  }
  Multiplier(const Multiplier&) = delete;
  Multiplier& operator=(const Multiplier&) = delete;

  // sums[i][j] = (or +=, if `accumulate`) the sum over depths of row i times column j of the panel,
  // for `num_rows` rows, at most kGroups * kRows.
  template <class Fetch>
  void block(const std::int8_t* rows, RowLayout layout, std::size_t num_rows,
             const std::int8_t* panel, std::size_t depth, std::int32_t* sums, bool accumulate,
             [[maybe_unused]] Fetch ahead) const {
#if defined(TACIT_AMX)
    if (tiles_ && num_rows > kRows)
      return multiply_tiles<true>(rows, layout, panel, depth, sums, accumulate, ahead);
    if (tiles_ && num_rows > 2)
      return multiply_tiles<false>(rows, layout, panel, depth, sums, accumulate, ahead);
#endif
    for (std::size_t k = 0; k < depth; k += kCachedDepth) {
      const std::size_t to = std::min(depth, k + kCachedDepth);
      std::size_t row = 0;
      const auto at = [&] { return rows + row / kRows * layout.group + row % kRows * layout.row; };
      const auto strip = [&]<std::size_t Rows>() {
        const std::int8_t* from = at();
        std::int32_t* out = sums + row * kColumns;
        row += Rows;
        multiply_strip<Rows>(from, row < num_rows ? at() : rows, layout, panel + k * kColumns, k,
                             to, out, accumulate || k > 0);
      };
      while (row + 4 < num_rows) strip.template operator()<8>();
      if (row + 2 < num_rows)
        strip.template operator()<4>();
      else if (row + 1 < num_rows)
        strip.template operator()<2>();
      else if (row < num_rows)
        strip.template operator()<1>();
    }
  }

 private:
  const bool tiles_ = amx_used();
};

}  // namespace tacit
