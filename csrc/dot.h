// The instruction that all fast products use: dot products of four bytes, added to 32-bit sums
// (sdot on ARM, vpdpbusd of AVX-512 VNNI on x86-64), or products of small matrices of bytes (smmla
// on ARM with I8MM, tiles of AMX, see amx.h).
//
// A product block is kRows x kColumns sums. The left operand is `rows`: signed bytes, each row in
// runs of kDepthStep depths (places along the inner dimension), placed by a RowLayout. The right
// operand is a `panel`: for each kPanelRun depths, kColumns groups of so many bytes. On x86-64,
// where VNNI multiplies unsigned by signed bytes, the panel is unsigned, elsewhere signed. A sum of
// `depth` products is at most depth * 128 * 128 in magnitude (128 * 255 on x86-64): below 2^28 for
// the 8192 depths of residues. Processors without such instructions multiply words instead
// (csrc/words.h). byte_product() is the time of one byte product in ns on one core.
#pragma once

#if defined(__AVX512VNNI__)
#include "dot_avx512.h"
#else

#include <cstring>

#include "row_layout.h"

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

namespace tacit {

#if defined(__ARM_FEATURE_MATMUL_INT8)

// Half of what sdot takes, not measured: smmla makes twice as many products, in as many cycles on
// Neoverse V1, N2 and V2.
inline double byte_product() { return 0.007; }

// sums[i][j] = (or +=, if `accumulate`) the sum over depths of row i times column j of the panel.
// A vector of rows has eight depths of two of them, one of the panel of two columns, and one of
// sums the four that belong to them. Of 32 registers 16 hold sums.
template <class Fetch>
inline void multiply_block(const std::int8_t* rows, RowLayout layout, const std::int8_t* panel,
                           std::size_t depth, std::int32_t* sums, bool accumulate, Fetch ahead) {
  const auto first = [](auto a, auto b) { return vzip1q_s64((int64x2_t)a, (int64x2_t)b); };
  const auto second = [](auto a, auto b) { return vzip2q_s64((int64x2_t)a, (int64x2_t)b); };
  constexpr std::size_t pairs = kRows / 2;
  static_assert(kRows == kColumns && kDepthStep == 2 * kPanelRun);
  int32x4_t s[pairs][pairs];
  for (std::size_t i = 0; i < pairs; ++i)
    for (std::size_t j = 0; j < pairs; j += 2) {
      const std::int32_t* from = sums + 2 * i * kColumns + 2 * j;
      const int32x4_t a = accumulate ? vld1q_s32(from) : vdupq_n_s32(0);
      const int32x4_t b = accumulate ? vld1q_s32(from + kColumns) : vdupq_n_s32(0);
      s[i][j] = (int32x4_t)first(a, b), s[i][j + 1] = (int32x4_t)second(a, b);
    }
  for (std::size_t k = 0; k < depth; k += kDepthStep, panel += kDepthStep * kColumns) {
    int8x16_t a[2][pairs];
    for (std::size_t i = 0; i < pairs; ++i) {
      const int8x16_t even = vld1q_s8(rows + 2 * i * layout.row);
      const int8x16_t odd = vld1q_s8(rows + (2 * i + 1) * layout.row);
      a[0][i] = (int8x16_t)first(even, odd), a[1][i] = (int8x16_t)second(even, odd);
    }
    rows += layout.step;
    ahead.fetch(k);
    for (std::size_t half = 0; half < 2; ++half)
      for (std::size_t j = 0; j < pairs; ++j) {
        const int8x16_t b = vld1q_s8(panel + half * kPanelRun * kColumns + 16 * j);
        for (std::size_t i = 0; i < pairs; ++i) s[i][j] = vmmlaq_s32(s[i][j], a[half][i], b);
      }
  }
  for (std::size_t i = 0; i < pairs; ++i)
    for (std::size_t j = 0; j < pairs; j += 2) {
      std::int32_t* to = sums + 2 * i * kColumns + 2 * j;
      vst1q_s32(to, (int32x4_t)first(s[i][j], s[i][j + 1]));
      vst1q_s32(to + kColumns, (int32x4_t)second(s[i][j], s[i][j + 1]));
    }
}

#elif defined(__ARM_FEATURE_DOTPROD)

inline double byte_product() { return 0.0135; }

// sums[i][j] = (or +=, if `accumulate`) the sum over depths of row i times column j of the panel.
// Of 32 registers, 16 hold sums, eight hold rows and two hold the panel.
template <class Fetch>
inline void multiply_block(const std::int8_t* rows, RowLayout layout, const std::int8_t* panel,
                           std::size_t depth, std::int32_t* sums, bool accumulate, Fetch ahead) {
  int32x4_t s[kRows][2];
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      s[i][j] = accumulate ? vld1q_s32(sums + i * kColumns + 4 * j) : vdupq_n_s32(0);
  for (std::size_t k = 0; k < depth; k += kDepthStep) {
    int8x16_t a[kRows];
    for (std::size_t i = 0; i < kRows; ++i) a[i] = vld1q_s8(rows + i * layout.row);
    rows += layout.step;
    ahead.fetch(k);
#define TACIT_STEP(lane)                                     \
  {                                                          \
    const int8x16_t b0 = vld1q_s8(panel + 32 * (lane));      \
    const int8x16_t b1 = vld1q_s8(panel + 32 * (lane) + 16); \
    for (std::size_t i = 0; i < kRows; ++i) {                \
      s[i][0] = vdotq_laneq_s32(s[i][0], b0, a[i], lane);    \
      s[i][1] = vdotq_laneq_s32(s[i][1], b1, a[i], lane);    \
    }                                                        \
  }
    TACIT_STEP(0)
    TACIT_STEP(1)
    TACIT_STEP(2)
    TACIT_STEP(3)
#undef TACIT_STEP
    panel += kDepthStep * kColumns;
  }
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < 2; ++j) vst1q_s32(sums + i * kColumns + 4 * j, s[i][j]);
}

#else  // no dot products: the same layout in plain loops, correct but never chosen

inline double byte_product() { return 0.4; }

template <class Fetch>
inline void multiply_block(const std::int8_t* rows, RowLayout layout, const std::int8_t* panel,
                           std::size_t depth, std::int32_t* sums, bool accumulate, Fetch) {
  if (!accumulate) std::memset(sums, 0, kRows * kColumns * sizeof *sums);
  for (std::size_t k = 0; k < depth; k += 4, panel += 4 * kColumns)
    for (std::size_t i = 0; i < kRows; ++i) {
      const std::int8_t* a = rows + i * layout.row + k / kDepthStep * layout.step + k % kDepthStep;
      for (std::size_t j = 0; j < kColumns; ++j) {
        const std::int8_t* b = panel + 4 * j;
        sums[i * kColumns + j] += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
      }
    }
}

#endif

// So many rows are multiplied for `num_rows`.
inline std::size_t multiplied_rows(std::size_t num_rows) {
  return (num_rows + kRows - 1) / kRows * kRows;
}

// What a thread needs to multiply: nothing here.
struct Multiplier {
  // The block of `num_rows` rows, at most kGroups * kRows.
  template <class Fetch>
  void block(const std::int8_t* rows, RowLayout layout, std::size_t, const std::int8_t* panel,
             std::size_t depth, std::int32_t* sums, bool accumulate, Fetch ahead) const {
    multiply_block(rows, layout, panel, depth, sums, accumulate, ahead);
  }
};

}  // namespace tacit

#endif
