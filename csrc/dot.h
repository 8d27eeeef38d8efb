// The instruction that all fast products use: dot products of four bytes, added to 32-bit sums
// (sdot on ARM, vpdpbusd of AVX-512 VNNI on x86-64).
//
// A product block is kRows x kColumns sums. The left operand is `rows`: signed bytes, each row in
// runs of kDepthStep depths (places along the inner dimension), placed by a RowLayout. The right
// operand is a `panel`: for each four depths, kColumns groups of four bytes. With VNNI, which
// multiplies unsigned by signed bytes, the panel is unsigned, elsewhere signed. A sum of `depth`
// products is at most depth * 128 * 128 in magnitude (128 * 255 with VNNI): below 2^28 for the 8192
// depths of residues. On x86-64 without VNNI, 16-bit multiplies were tried: they are no faster than
// plain 64-bit products. kByteProduct is the measured time of one byte product in ns on one core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tacit {

constexpr std::size_t kRows = 8;
constexpr std::size_t kDepthStep = 16;  // depths are padded with zeros to a multiple of this

// Distances in bytes: from a row to the next, from a run of kDepthStep depths to the next, and from
// a group of kRows rows to the next. Packed rows are interleaved by runs, as they are read; plain
// rows are contiguous, as convolutions gather them.
struct RowLayout {
  std::size_t row, step, group;
  static constexpr RowLayout packed(std::size_t depth) {
    return {kDepthStep, kRows * kDepthStep, kRows * depth};
  }
  static constexpr RowLayout plain(std::size_t depth) { return {depth, kDepthStep, kRows * depth}; }
};

// Memory of later blocks that is prefetched while a block is multiplied, `depth` bytes of panel and
// rows each: multiplying is faster than memory. (multiply_block takes any struct with `fetch`.)
struct Ahead {
  const std::int8_t *panel, *rows;
  void fetch(std::size_t at) const {
    __builtin_prefetch(panel + at);
    __builtin_prefetch(rows + at);
  }
};

#if defined(__ARM_FEATURE_DOTPROD)

constexpr std::size_t kColumns = 8;
constexpr bool kUnsignedPanel = false;
constexpr double kByteProduct = 0.0135;

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

#elif defined(__AVX512VNNI__)

constexpr std::size_t kColumns = 32;
constexpr bool kUnsignedPanel = true;
constexpr double kByteProduct = 0.0035;

template <class Fetch>
inline void multiply_block(const std::int8_t* rows, RowLayout layout, const std::int8_t* panel,
                           std::size_t depth, std::int32_t* sums, bool accumulate, Fetch ahead) {
  __m512i s[kRows][2];
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      s[i][j] =
          accumulate ? _mm512_loadu_si512(sums + i * kColumns + 16 * j) : _mm512_setzero_si512();
  for (std::size_t k = 0; k < depth; k += kDepthStep, rows += layout.step) {
    ahead.fetch(k);
    for (std::size_t l = 0; l < kDepthStep; l += 4, panel += 4 * kColumns) {
      const __m512i b0 = _mm512_loadu_si512(panel);
      const __m512i b1 = _mm512_loadu_si512(panel + 64);
      for (std::size_t i = 0; i < kRows; ++i) {
        std::int32_t word;
        std::memcpy(&word, rows + i * layout.row + l, 4);
        const __m512i a = _mm512_set1_epi32(word);
        s[i][0] = _mm512_dpbusd_epi32(s[i][0], b0, a);
        s[i][1] = _mm512_dpbusd_epi32(s[i][1], b1, a);
      }
    }
  }
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < 2; ++j) _mm512_storeu_si512(sums + i * kColumns + 16 * j, s[i][j]);
}

#else  // no dot products: the same layout in plain loops, correct but never chosen

constexpr std::size_t kColumns = 8;
constexpr bool kUnsignedPanel = false;
constexpr double kByteProduct = 0.4;

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

}  // namespace tacit
