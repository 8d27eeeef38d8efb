// ElementBlock as AVX-512 takes them to encode: kBlock of them, in four vectors of 32-bit lanes.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tacit {

// Lane i of vector t belongs to element 4 i + t, so that the low bytes of a lane of all four
// vectors are neighbours when they are merged.
struct Lanes {
  __m512i vector[4];
};

// Vector t from lanes 4 t to 4 t + 3 of each of four vectors.
inline Lanes transposed(const Lanes& x) {
  const __m512i a = _mm512_shuffle_i32x4(x.vector[0], x.vector[1], 0x44);
  const __m512i b = _mm512_shuffle_i32x4(x.vector[0], x.vector[1], 0xee);
  const __m512i c = _mm512_shuffle_i32x4(x.vector[2], x.vector[3], 0x44);
  const __m512i d = _mm512_shuffle_i32x4(x.vector[2], x.vector[3], 0xee);
  return {{_mm512_shuffle_i32x4(a, c, 0x88), _mm512_shuffle_i32x4(a, c, 0xdd),
           _mm512_shuffle_i32x4(b, d, 0x88), _mm512_shuffle_i32x4(b, d, 0xdd)}};
}

// One byte of each lane, in the order of the elements: the lowest.
inline __m512i low_bytes(const Lanes& x) {
  const __m512i first =
      _mm512_broadcast_i32x4(_mm_set_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
  const __m512i a = _mm512_mask_shuffle_epi8(x.vector[0], 0x2222222222222222, x.vector[1], first);
  const __m512i b = _mm512_mask_shuffle_epi8(a, 0x4444444444444444, x.vector[2], first);
  return _mm512_mask_shuffle_epi8(b, 0x8888888888888888, x.vector[3], first);
}

// Lanes 4 t + w of the result are elements 4 w + t of sixteen.
inline __m512i by_fours() {
  return _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
}

// Lane i of vector j changes places with lane j of vector i.
inline void transpose(__m512i (&v)[8]) {
  __m512i pairs[8], quads[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm512_unpacklo_epi64(v[i], v[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; ++j) {
      quads[i + j] = _mm512_shuffle_i64x2(pairs[i + j], pairs[i + j + 2], 0x88);
      quads[i + j + 2] = _mm512_shuffle_i64x2(pairs[i + j], pairs[i + j + 2], 0xdd);
    }
  for (int j = 0; j < 4; ++j) {
    v[j] = _mm512_shuffle_i64x2(quads[j], quads[j + 4], 0x88);
    v[j + 4] = _mm512_shuffle_i64x2(quads[j], quads[j + 4], 0xdd);
  }
}

template <class Word>
struct ElementBlock;

template <>
struct ElementBlock<std::int32_t> {
  Lanes low;

  // Neighbours in memory.
  static ElementBlock contiguous(const std::int32_t* x) {
    Lanes read;
    for (int t = 0; t < 4; ++t)
      read.vector[t] = _mm512_permutexvar_epi32(by_fours(), _mm512_loadu_si512(x + 16 * t));
    return {transposed(read)};
  }
  // Element 4 i + t is in column i of line t.
  static ElementBlock lines(const std::int32_t* x, std::ptrdiff_t stride) {
    ElementBlock read;
    for (int t = 0; t < 4; ++t) read.low.vector[t] = _mm512_loadu_si512(x + t * stride);
    return read;
  }
};

template <>
struct ElementBlock<std::int64_t> {
  Lanes low, high;  // halves of the elements

  static ElementBlock contiguous(const std::int64_t* x) {
    const ElementBlock read = halves(x, 16, _mm512_slli_epi32(by_fours(), 1));
    return {transposed(read.low), transposed(read.high)};
  }
  static ElementBlock lines(const std::int64_t* x, std::ptrdiff_t stride) {
    return halves(x, stride,
                  _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0));
  }

 private:
  static ElementBlock halves(const std::int64_t* x, std::ptrdiff_t stride, __m512i even) {
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    ElementBlock read;
    for (int t = 0; t < 4; ++t, x += stride) {
      const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + 8);
      read.low.vector[t] = _mm512_permutex2var_epi32(a, even, b);
      read.high.vector[t] = _mm512_permutex2var_epi32(a, odd, b);
    }
    return read;
  }
};

}  // namespace tacit
