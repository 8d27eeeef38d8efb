// Words to residues and back with AVX-512 VNNI (see csrc/residues.h).
#pragma once

#include <array>
#include <bit>

#include "encoding.h"

namespace tacit {

// How the bytes u_j of x + 2^63 become a residue of one modulus. v = sum_j u_j w_j + constant, with
// |v| < 2^18, is added to the bits of a float B, a multiple of 256 m a little above 2^23, whose
// unit is 1: the bits are then those of B + v. A float multiplication adds the quotient q of v and
// m, rounded by the addition itself, to the bits of 3 2^22, and v - q m in the low byte is left.
struct ResidueWeights {
  std::int32_t low, high;    // w_j: four signed bytes each
  std::int32_t start;        // the bits of B, and the constant
  std::int32_t modulus;      // -m in the low 16 bits
  float reciprocal, origin;  // 1 / m, 3 2^22 - B / m

  static constexpr int kLimit = 1 << 18;  // of |v|
  static constexpr int kUnit = 1 << 23;   // floats from here to twice this are integers

  constexpr ResidueWeights() = default;
  constexpr ResidueWeights(const std::int8_t byte[8], int constant, int m)
      : low(word(byte)),
        high(word(byte + 4)),
        start(std::bit_cast<std::int32_t>(static_cast<float>(base(m))) + constant),
        modulus(static_cast<std::uint16_t>(-m)),
        reciprocal(1.0f / static_cast<float>(m)),
        origin(static_cast<float>(3 * kUnit / 2 - base(m) / m)) {}

  // m times the error of (B + v) / m, which is almost the same for all v: within these bounds a
  // quotient rounded to nearest leaves -128 to 127, and one rounded down 0 to 255.
  constexpr bool exact(int m) const {
    const auto fits = [m](double error) {
      return error > m / 2.0 - 128 && error < 129 - m / 2.0 && error > -1 && error < 1;
    };
    const double relative = static_cast<double>(reciprocal) * m - 1;
    return m == 256 || (fits(relative * (base(m) - kLimit)) && fits(relative * (base(m) + kLimit)));
  }

 private:
  static constexpr std::int32_t word(const std::int8_t byte[4]) {
    return std::bit_cast<std::int32_t>(std::array{byte[0], byte[1], byte[2], byte[3]});
  }
  static constexpr int base(int m) { return ((kUnit + kLimit) / (256 * m) + 1) * (256 * m); }
};

// Calls emit(plane, kBlock bytes): signed ones, or if Floor unsigned ones.
template <bool Floor, std::size_t Planes, class Emit>
inline void encode_residues(const std::array<ResidueWeights, Planes>& table,
                            const ElementBlock<std::int64_t>& elements, Emit emit) {
  const __m512i flip = _mm512_set1_epi32(static_cast<int>(1u << 31));
  Lanes top;
  for (int t = 0; t < 4; ++t) top.vector[t] = _mm512_xor_si512(elements.high.vector[t], flip);
  for (std::size_t p = 0; p < Planes; ++p) {
    const ResidueWeights& w = table[p];
    const __m512 reciprocal = _mm512_set1_ps(w.reciprocal), origin = _mm512_set1_ps(w.origin);
    Lanes out;
    for (int t = 0; t < 4; ++t) {
      __m512i v = _mm512_dpbusd_epi32(_mm512_set1_epi32(w.start), elements.low.vector[t],
                                      _mm512_set1_epi32(w.low));
      v = _mm512_dpbusd_epi32(v, top.vector[t], _mm512_set1_epi32(w.high));
      const __m512 value = _mm512_castsi512_ps(v);
      const __m512 quotient = Floor
                                  ? _mm512_fmadd_round_ps(value, reciprocal, origin,
                                                          _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
                                  : _mm512_fmadd_ps(value, reciprocal, origin);
      out.vector[t] =
          _mm512_dpwssd_epi32(v, _mm512_castps_si512(quotient), _mm512_set1_epi32(w.modulus));
    }
    emit(static_cast<int>(p), (BlockBytes)low_bytes(out));
  }
}

// The Chinese remainder of sums |s_p| < 2^28. Each is reduced to |r_p| < 160: as a float it is off
// by at most 8, and its quotient by m by at most 24 / m. Then X = sum_p r_p (M / m_p) - q M with
// q = round(sum_p r_p / m_p), all of it dot products of 16-bit pairs: factors are four signed
// digits of base 2^16, each its own sum below 18 160 2^15 < 2^27, and reciprocals have 22 fraction
// bits, so that the argument of round is off by less than 18 160 2^-23 < 0.001.
template <class S>
struct CombineTable {
  static constexpr int pairs = S::planes / 2, digits = 4, fraction = 22;
  static_assert(S::planes % 2 == 0);
  std::int16_t ratio[pairs][2];              // 2^22 / m_p
  std::int16_t digit[digits][pairs + 1][2];  // of M / m_p, and last of -M

  constexpr CombineTable() : ratio{}, digit{} {
    for (int p = 0; p < S::planes; ++p) {
      ratio[p / 2][p % 2] = static_cast<std::int16_t>(((2 << fraction) / S::moduli[p] + 1) / 2);
      put(p, S::cofactor(p));
    }
    put(S::planes, -S::cofactor(-1));
  }
  constexpr void put(int p, std::uint64_t factor) {
    constexpr std::uint64_t flip = 0x8000800080008000ull;  // signed digits, as in Digits::encode
    for (int d = 0; d < digits; ++d)
      digit[d][p / 2][p % 2] = static_cast<std::int16_t>(((factor + flip) ^ flip) >> (16 * d));
  }
};

inline __m512i pair_of(const std::int16_t pair[2]) {
  std::int32_t word;
  std::memcpy(&word, pair, sizeof word);
  return _mm512_set1_epi32(word);
}

// sum_d digit_d 2^(16 d) mod 2^64 of sixteen lanes.
inline void store_digits(const __m512i digit[4], std::int64_t* out) {
  const __m512i high = _mm512_add_epi32(digit[2], _mm512_slli_epi32(digit[3], 16));
  const __m512i one = _mm512_set1_epi64(1), base = _mm512_set1_epi64(1 << 16);
  const auto low = [&](__m512i a, __m512i b) {  // of even lanes
    return _mm512_add_epi64(_mm512_mul_epi32(a, one), _mm512_mul_epi32(b, base));
  };
  const __m512i even = _mm512_add_epi64(low(digit[0], digit[1]), _mm512_slli_epi64(high, 32));
  const __m512i odd =
      _mm512_add_epi64(low(_mm512_srli_epi64(digit[0], 32), _mm512_srli_epi64(digit[1], 32)),
                       _mm512_maskz_mov_epi32(0xaaaa, high));
  const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0);
  const __m512i second = _mm512_add_epi64(first, _mm512_set1_epi64(4));
  _mm512_storeu_si512(out, _mm512_permutex2var_epi64(even, first, odd));
  _mm512_storeu_si512(out + 8, _mm512_permutex2var_epi64(even, second, odd));
}

// The low halves of the lanes of b as the high halves of a, and the high halves of a as the low
// halves of b.
inline __m512i low_halves(__m512i a, __m512i b) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
}
inline __m512i high_halves(__m512i a, __m512i b) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(a, 16), b);
}

// Reduces the sums of one plane, kColumns = 32 in a row, to 16 bits. Columns c and c + 16 become
// neighbours.
template <class S>
inline void reduce_residues(int plane, const std::int32_t* sums, std::size_t count,
                            std::int16_t* out) {
  const float m = static_cast<float>(S::moduli[plane]);
  const __m512 reciprocal = _mm512_set1_ps(1 / m), origin = _mm512_set1_ps(3 << 22);
  const __m512i modulus = _mm512_set1_epi32(static_cast<std::uint16_t>(-S::moduli[plane]));
  const auto reduced = [&](const std::int32_t* from) {  // in the low half of each lane
    const __m512i s = _mm512_loadu_si512(from);
    const __m512 quotient = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s), reciprocal, origin);
    return _mm512_dpwssd_epi32(s, _mm512_castps_si512(quotient), modulus);
  };
  for (std::size_t i = 0; i < count; i += kColumns)
    _mm512_storeu_si512(out + i, low_halves(reduced(sums + i), reduced(sums + i + 16)));
}

// `residues` are those of `reduce_residues`; planes are `stride` apart.
template <class S>
inline void combine_residues(const std::int16_t* residues, std::size_t stride, std::size_t count,
                             std::int64_t* out) {
  using Table = CombineTable<S>;
  static constexpr Table constants;
  const Table* table = &constants;
  asm("" : "+r"(table));  // constants are read: made from immediates they would take a port each
  for (std::size_t i = 0; i < count; i += kColumns) {
    __m512i ratio[2], digit[2][Table::digits] = {};
    for (__m512i& one : ratio) one = _mm512_set1_epi32(1 << (Table::fraction - 1));
#pragma GCC unroll 9
    for (int g = 0; g < Table::pairs; ++g) {
      const __m512i a = _mm512_loadu_si512(residues + 2 * g * stride + i);
      const __m512i b = _mm512_loadu_si512(residues + (2 * g + 1) * stride + i);
      const __m512i pair[2] = {low_halves(a, b), high_halves(a, b)};
      for (int h = 0; h < 2; ++h) {
        ratio[h] = _mm512_dpwssd_epi32(ratio[h], pair[h], pair_of(table->ratio[g]));
        for (int d = 0; d < Table::digits; ++d)
          digit[h][d] = _mm512_dpwssd_epi32(digit[h][d], pair[h], pair_of(table->digit[d][g]));
      }
    }
    for (int h = 0; h < 2; ++h) {
      const __m512i quotient = _mm512_srai_epi32(ratio[h], Table::fraction);
      for (int d = 0; d < Table::digits; ++d)
        digit[h][d] =
            _mm512_dpwssd_epi32(digit[h][d], quotient, pair_of(table->digit[d][Table::pairs]));
      store_digits(digit[h], out + i + 16 * h);
    }
  }
}

}  // namespace tacit
