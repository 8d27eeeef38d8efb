// The encoding of 32-bit elements (see csrc/residues.h).
#pragma once

#include "encoding.h"

namespace tacit {

struct Digits {
  using Word = std::int32_t;
  static constexpr int planes = 4;
  static constexpr int tiles = 4;
  // No bound is needed for exactness: a tile that wraps mod 2^32 is still right mod 2^32. The depth
  // bounds the memory of encoded operands.
  static constexpr std::size_t max_depth = 32768;
  static constexpr bool accumulates = true;
  static constexpr int first(int) { return 0; }
  static constexpr int last(int p) { return planes - p; }    // 256^(p+q) is 0 mod 2^32 from 4 on
  static constexpr int tile(int p, int q) { return p + q; }  // the weight of the sum: 256^(p+q)

  // Signed digits: u + flip carries 1 into the next digit where a digit is 128 or more, and ^ flip
  // turns what is left, digit + 128, into the bits of the signed digit.
  static constexpr std::uint32_t flip = 0x80808080u;

#if defined(__AVX512VNNI__)
  template <Side side, class Emit>
  static void encode(ElementBlock<Word> block, Emit emit) {
    const __m512i flips = _mm512_set1_epi32(static_cast<int>(flip));
    if constexpr (side == Side::rows)
      for (__m512i& v : block.low.vector) v = _mm512_xor_si512(_mm512_add_epi32(v, flips), flips);
    for (int p = 0; p < planes; ++p) {
      emit(p, (BlockBytes)low_bytes(block.low));
      for (__m512i& v : block.low.vector) v = _mm512_srli_epi32(v, 8);
    }
  }
  template <Side side, class Emit>
  static void encode(const std::int32_t* x, Emit emit) {
    encode<side>(ElementBlock<Word>::contiguous(x), emit);
  }
#else
  template <Side side, class Emit>
  static void encode(const std::int32_t* x, Emit emit) {
    std::uint32_t digits[kBlock];
    for (std::size_t i = 0; i < kBlock; ++i) {
      const auto u = static_cast<std::uint32_t>(x[i]);
      digits[i] = (u + flip) ^ flip;
    }
    for (int p = 0; p < planes; ++p) {
      BlockBytes out;
      for (std::size_t i = 0; i < kBlock; ++i)
        out[i] = static_cast<std::int8_t>(digits[i] >> (8 * p));
      emit(p, out);
    }
  }
#endif

  // sum_d tile_d * 256^d, wrapping.
  static void combine(const std::int32_t* sums, std::size_t tile_stride, std::size_t count,
                      std::int32_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t value = 0;
      for (int d = 0; d < tiles; ++d)
        value += static_cast<std::uint32_t>(sums[d * tile_stride + i]) << (8 * d);
      out[i] = static_cast<std::int32_t>(value);
    }
  }
};

}  // namespace tacit
