// Reduces sums of residues to bytes again, and turns bytes into ring elements. Winograd's
// convolution needs both, because it adds and subtracts residues before and after its
// multiplications.
//
// A reduced residue is a byte of magnitude <= 127. Quotients are rounded twice, to 1/128 and to 1,
// so that |sum - quotient m| <= (1/2 + 1/256 + 1/256) m < 128 for m <= 251.
#pragma once

#include "residues.h"

namespace tacit {

// Residues are reduced kPiece at a time.
constexpr std::size_t kPiece = 16;
using Piece = std::int8_t __attribute__((vector_size(kPiece)));
using Shorts = std::int16_t __attribute__((vector_size(16)));
using Ints = std::int32_t __attribute__((vector_size(16)));
using Bytes8 = std::int8_t __attribute__((vector_size(8)));
using Bytes4 = std::int8_t __attribute__((vector_size(4)));

// Eight bytes as 16-bit values.
inline Shorts widened(const std::int8_t* from) {
#if defined(__ARM_FEATURE_DOTPROD)
  return (Shorts)vmovl_s8(vld1_s8(from));
#else
  Bytes8 bytes;
  std::memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, Shorts);
#endif
}

// Centred reduction mod m of 16-bit sums (|sum| < 2^15) and of 32-bit sums (|sum| < 2^31).
// Quotients and moduli count mod 256 only, because the result is a byte.
struct Modulus {
  std::int8_t value;              // m mod 256
  std::int16_t short_reciprocal;  // 2^22 / m, rounded
  std::int32_t reciprocal;        // 2^38 / m, rounded
  constexpr explicit Modulus(int m)
      : value(static_cast<std::int8_t>(m)),
        short_reciprocal(static_cast<std::int16_t>(((1 << 23) / m + 1) / 2)),
        reciprocal(static_cast<std::int32_t>(((1ll << 39) / m + 1) / 2)) {}

  Piece reduce(Shorts a, Shorts b) const {
#if defined(__ARM_FEATURE_DOTPROD)
    const auto quotient = [&](Shorts v) {
      return vqrdmulhq_s16((int16x8_t)v, vdupq_n_s16(short_reciprocal));
    };
    const int8x16_t quotients = vrshrn_high_n_s16(vrshrn_n_s16(quotient(a), 7), quotient(b), 7);
    const int8x16_t sums = vuzp1q_s8((int8x16_t)a, (int8x16_t)b);
    return (Piece)vmlsq_s8(sums, quotients, vdupq_n_s8(value));
#else
    using Wide = std::int32_t __attribute__((vector_size(32)));
    const auto quotient = [&](Wide v) {
      return (((v * short_reciprocal + (1 << 14)) >> 15) + 64) >> 7;
    };
    Piece out;
    for (int h = 0; h < 2; ++h) {
      const Wide v = __builtin_convertvector(h ? b : a, Wide);
      const auto rest = __builtin_convertvector(v - quotient(v) * value, Bytes8);
      std::memcpy(reinterpret_cast<char*>(&out) + h * sizeof rest, &rest, sizeof rest);
    }
    return out;
#endif
  }

  Piece reduce(const Ints v[4]) const {
#if defined(__ARM_FEATURE_DOTPROD)
    const auto quotient = [&](int i) {
      return vqrdmulhq_s32((int32x4_t)v[i], vdupq_n_s32(reciprocal));
    };
    const auto narrow = [&](int i) {
      return (int8x16_t)vrshrn_high_n_s32(vrshrn_n_s32(quotient(i), 7), quotient(i + 1), 7);
    };
    const auto shorts = [&](int i) {
      return (int8x16_t)vuzp1q_s16((int16x8_t)v[i], (int16x8_t)v[i + 1]);
    };
    const int8x16_t sums = vuzp1q_s8(shorts(0), shorts(2));
    return (Piece)vmlsq_s8(sums, vuzp1q_s8(narrow(0), narrow(2)), vdupq_n_s8(value));
#else
    using Wide = std::int64_t __attribute__((vector_size(32)));
    Piece out;
    for (int i = 0; i < 4; ++i) {
      const Wide sum = __builtin_convertvector(v[i], Wide);
      const Wide quotient = (((sum * reciprocal + (1ll << 30)) >> 31) + 64) >> 7;
      const auto rest = __builtin_convertvector(sum - quotient * value, Bytes4);
      std::memcpy(reinterpret_cast<char*>(&out) + i * sizeof rest, &rest, sizeof rest);
    }
    return out;
#endif
  }
};

// X = sum_p r_p (M / m_p) - q M with q = round(sum_p r_p / m_p), mod 2^64, for reduced bytes r_p
// (see csrc/residues.h). All of it is dot products of bytes: the constants are eight signed digits
// of base 256, each its own sum, and the reciprocals have 14 fraction bits, so that the argument of
// round is off by less than 18 * 127 * 2^-15 < 0.07. |q| <= 13 (18 * 127 / 179, rounded) is a byte,
// too.
template <class S>
struct Remainder {
  static constexpr int groups = (S::planes + 3) / 4;
  static constexpr int digits = 8;
  struct Table {  // byte[digits] are reciprocals instead of a digit; byte[][groups] is -M, for q
    alignas(4) std::int8_t byte[digits + 1][groups + 1][4];
  };
  static constexpr Table table = [] {
    Table t{};
    constexpr std::uint64_t flip = 0x8080808080808080ull;
    const auto put = [&](int p, std::uint64_t factor) {
      for (int d = 0; d < digits; ++d)
        t.byte[d][p / 4][p % 4] = static_cast<std::int8_t>(((factor + flip) ^ flip) >> (8 * d));
    };
    for (int p = 0; p < S::planes; ++p) {
      put(p, S::cofactor(p));
      t.byte[digits][p / 4][p % 4] = static_cast<std::int8_t>(((1 << 15) / S::moduli[p] + 1) / 2);
    }
    put(4 * groups, -S::cofactor(-1));
    return t;
  }();
  static_assert(S::planes <= 18);

  // kPiece elements; planes are plane_stride bytes apart. A sum is below 19 2^14 in magnitude, and
  // pairs of digits below 2^28: 32 bits hold them.
  static void combine(const std::int8_t* residues, std::size_t plane_stride, std::int64_t* out) {
    std::int32_t sums[digits][kPiece];
    dot(residues, plane_stride, sums);
    for (std::size_t i = 0; i < kPiece; ++i) {
      const auto pair = [&](int d) { return sums[d][i] + sums[d + 1][i] * 256; };
      const auto high =
          static_cast<std::uint32_t>(pair(4)) + (static_cast<std::uint32_t>(pair(6)) << 16);
      const std::int64_t low = pair(0) + std::int64_t{pair(2)} * 65536;
      out[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) +
                                         (static_cast<std::uint64_t>(high) << 32));
    }
  }

 private:
  static constexpr std::int32_t rounded(std::int32_t ratio) { return (ratio + (1 << 13)) >> 14; }

#if defined(__ARM_FEATURE_DOTPROD)
  static void dot(const std::int8_t* residues, std::size_t plane_stride,
                  std::int32_t sums[digits][kPiece]) {
    int8x16_t data[groups + 1][4];  // four planes of four elements
    for (int g = 0; g < groups; ++g) {
      const auto plane = [&](int p) {
        const std::int8_t* from = residues + (4 * g + p) * plane_stride;
        __builtin_prefetch(from + 128);  // so many streams need help
        return 4 * g + p < S::planes ? vld1q_s8(from) : vdupq_n_s8(0);
      };
      const int8x16_t a = plane(0), b = plane(1), c = plane(2), d = plane(3);
      const auto low = [](int8x16_t x, int8x16_t y) { return (int16x8_t)vzip1q_s8(x, y); };
      const auto high = [](int8x16_t x, int8x16_t y) { return (int16x8_t)vzip2q_s8(x, y); };
      data[g][0] = (int8x16_t)vzip1q_s16(low(a, b), low(c, d));
      data[g][1] = (int8x16_t)vzip2q_s16(low(a, b), low(c, d));
      data[g][2] = (int8x16_t)vzip1q_s16(high(a, b), high(c, d));
      data[g][3] = (int8x16_t)vzip2q_s16(high(a, b), high(c, d));
    }
    const auto factor = [](int d, int g) {
      return (int8x16_t)vld1q_dup_s32(reinterpret_cast<const std::int32_t*>(table.byte[d][g]));
    };
    for (int i = 0; i < 4; ++i) {
      int32x4_t ratio = vdupq_n_s32(0);
      for (int g = 0; g < groups; ++g) ratio = vdotq_s32(ratio, data[g][i], factor(digits, g));
      data[groups][i] = (int8x16_t)vrshrq_n_s32(ratio, 14);  // its low byte meets -M, others zeros
    }
#pragma GCC unroll 8
    for (int d = 0; d < digits; ++d)
      for (int i = 0; i < 4; ++i) {
        int32x4_t sum = vdupq_n_s32(0);
        for (int g = 0; g <= groups; ++g) sum = vdotq_s32(sum, data[g][i], factor(d, g));
        vst1q_s32(sums[d] + 4 * i, sum);
      }
  }
#else
  static void dot(const std::int8_t* residues, std::size_t plane_stride,
                  std::int32_t sums[digits][kPiece]) {
    const auto weighted = [&](int d, std::int32_t to[kPiece]) {
      for (std::size_t i = 0; i < kPiece; ++i) to[i] = 0;
      for (int p = 0; p < S::planes; ++p)
        for (std::size_t i = 0; i < kPiece; ++i)
          to[i] += residues[p * plane_stride + i] * table.byte[d][p / 4][p % 4];
    };
    std::int32_t ratio[kPiece];
    weighted(digits, ratio);
    for (int d = 0; d < digits; ++d) {
      weighted(d, sums[d]);
      for (std::size_t i = 0; i < kPiece; ++i)
        sums[d][i] += rounded(ratio[i]) * table.byte[d][groups][0];
    }
  }
#endif
};

}  // namespace tacit
