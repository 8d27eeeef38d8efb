// The instruction that all fast products use: dot products of four bytes, added to 32-bit sums
// (sdot on ARM, vpdpbusd of AVX-512 VNNI on x86-64, or tiles of AMX, see amx.h).
//
// A product block is kRows x kColumns sums. The left operand is `rows`: signed bytes, each row in
// runs of kDepthStep depths (places along the inner dimension), placed by a RowLayout. The right
// operand is a `panel`: for each four depths, kColumns groups of four bytes. On x86-64, where VNNI
// multiplies unsigned by signed bytes, the panel is unsigned, elsewhere signed. A sum of `depth`
// products is at most depth * 128 * 128 in magnitude (128 * 255 on x86-64): below 2^28 for the 8192
// depths of residues. On x86-64 without VNNI, 16-bit multiplies were tried: they are no faster than
// plain 64-bit products. byte_product() is the measured time of one byte product in ns on one core.
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

#if defined(__ARM_FEATURE_DOTPROD)

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
