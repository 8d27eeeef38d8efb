// How ring elements are encoded as bytes, and how 32-bit sums of byte products are decoded.
//
// An encoding writes each element as `planes` bytes. Row plane p times panel plane q, for q in
// [first(p), last(p)), is added to sum tile(p, q); `accumulates` says whether several products
// share a tile. `combine` turns the tiles of a kRows x kColumns block into exact sums of products
// mod 2^k.
//   ResidueSystem, for 64 bits: the element modulo 18 coprime moduli; 18 byte products, then the
//     Chinese remainder.
//   Digits (digits.h), for 32 bits: four signed digits of base 256; 10 byte products, cheap
//     conversions. (For 64 bits it would be 36 products.)
#pragma once

#include <array>

#include "encoding.h"

#if defined(__AVX512VNNI__)
#include "residues_avx512.h"
#endif

namespace tacit {

// Residues modulo coprime `Moduli`, with product M. Those of a panel represent element / Divisor.
//
// A word is read as signed, |x| <= 2^63, so that a sum X of `depth` products of two words obeys
// |X| <= depth 2^126. The residues s_p of X are sums of byte products. By the Chinese remainder
//   X = sum_p t_p (M / m_p) - q M,  t_p = s_p (M / m_p)^-1 mod m_p,  q = round(sum_p t_p / m_p),
// as long as |X| < M / 2. The inverses are multiplied into the panel's residues beforehand.
template <int Divisor, int... Moduli>
struct ResidueSystem {
  using Word = std::int64_t;
  static constexpr int planes = sizeof...(Moduli);
  static constexpr int tiles = planes;
  static constexpr std::array<int, planes> moduli = {Moduli...};
  // 8192 2^126 = 2^139 = 0.37 M for `Residues`, which leaves 0.13 for the error of q. (Winograd's
  // convolution has its own bound.)
  static constexpr std::size_t max_depth = 8192;
  static constexpr int first(int p) { return p; }
  static constexpr int last(int p) { return p + 1; }
  static constexpr int tile(int p, int) { return p; }

  // The representative mod m in [-m/2, m/2).
  static constexpr int centred(int value, int m) {
    value = ((value % m) + m) % m;
    return value > m / 2 - (m % 2 == 0) ? value - m : value;
  }
  static constexpr bool accumulates = false;
  // (Divisor M / m_p)^-1 mod m_p.
  static constexpr int inverse(int p) {
    const int m = moduli[p];
    int rest = Divisor % m;
    for (int q = 0; q < planes; ++q)
      if (q != p) rest = rest * (moduli[q] % m) % m;
    for (int x = 1;; ++x)
      if (rest * x % m == 1) return x;
  }
  // M / m_p mod 2^64, or M mod 2^64 for p = -1.
  static constexpr std::uint64_t cofactor(int p) {
    std::uint64_t product = 1;
    for (int q = 0; q < planes; ++q)
      if (q != p) product *= moduli[q];
    return product;
  }

  // x mod m as a dot product of bytes. With signed bytes, x = sum_j s_j 256^j + 128 sum_{j<7}
  // 256^j, s_j being the bytes of x with the top bits of all but the last flipped. With unsigned
  // bytes, x = sum_j u_j 256^j - 2^63, u_j being the bytes of x + 2^63.
  struct Weights {
    std::int8_t byte[8];      // 256^j times the inverse if there is one, mod m, centred
    std::int32_t constant;    // the second summand, mod m
    std::int32_t reciprocal;  // 2^31 / m, rounded
    std::int8_t modulus;      // m mod 256
  };
  template <Side side>
  static constexpr std::array<Weights, planes> weights() {
    std::array<Weights, planes> table{};
    for (int p = 0; p < planes; ++p) {
      const int m = moduli[p];
      int power = side == Side::rows ? 1 : inverse(p);
      int constant = 0;
      for (int j = 0; j < 8; ++j, power = power * 256 % m) {
        table[p].byte[j] = static_cast<std::int8_t>(centred(power, m));
        if (!kUnsignedPanel && j < 7) constant += 128 * centred(power, m);
        if (kUnsignedPanel && j == 7) constant -= 128 * centred(power, m);
      }
      table[p].constant = centred(constant, m);
      table[p].reciprocal = static_cast<std::int32_t>(((1ll << 32) / m + 1) / 2);
      table[p].modulus = static_cast<std::int8_t>(m);
    }
    return table;
  }

#if defined(__AVX512VNNI__)
  template <Side side, class Emit>
  static void encode(const ElementBlock<Word>& block, Emit emit) {
    static constexpr auto table = [] {
      std::array<ResidueWeights, planes> made{};
      const auto from = weights<side>();
      for (int p = 0; p < planes; ++p) made[p] = {from[p].byte, from[p].constant, moduli[p]};
      return made;
    }();
    static_assert([] {
      bool exact = true;
      for (int p = 0; p < planes; ++p) exact = exact && table[p].exact(moduli[p]);
      return exact;
    }());
    encode_residues<side == Side::panel>(table, block, emit);
  }
#endif

  template <Side side, class Emit>
  static void encode(const std::int64_t* x, Emit emit) {
    [[maybe_unused]] static constexpr auto table = weights<side>();
#if defined(__ARM_FEATURE_DOTPROD)
    // `half[i]` has the low, `half[4 + i]` the high four signed bytes of four elements.
    const int8x16_t flip = vreinterpretq_s8_u64(vdupq_n_u64(0x0080808080808080ull));
    int8x16_t half[8];
    for (int i = 0; i < 4; ++i) {
      const auto a =
          vreinterpretq_s32_s8(veorq_s8(vreinterpretq_s8_s64(vld1q_s64(x + 4 * i)), flip));
      const auto b =
          vreinterpretq_s32_s8(veorq_s8(vreinterpretq_s8_s64(vld1q_s64(x + 4 * i + 2)), flip));
      half[i] = vreinterpretq_s8_s32(vuzp1q_s32(a, b));
      half[4 + i] = vreinterpretq_s8_s32(vuzp2q_s32(a, b));
    }
    const auto low_bytes = [](const int32x4_t v[4]) {
      const int16x8_t a = vuzp1q_s16(vreinterpretq_s16_s32(v[0]), vreinterpretq_s16_s32(v[1]));
      const int16x8_t b = vuzp1q_s16(vreinterpretq_s16_s32(v[2]), vreinterpretq_s16_s32(v[3]));
      return vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b));
    };
#pragma GCC unroll 2
    for (int p = 0; p < planes; ++p) {
      const int8x8_t weight = vld1_s8(table[p].byte);
      const int32x4_t constant = vld1q_dup_s32(&table[p].constant);
      const int32x4_t reciprocal = vld1q_dup_s32(&table[p].reciprocal);
      const int8x16_t modulus = vld1q_dup_s8(&table[p].modulus);
      int32x4_t v[4], quotient[4];
      for (int i = 0; i < 4; ++i) {
        v[i] = vdotq_lane_s32(vdotq_lane_s32(constant, half[i], weight, 0), half[4 + i], weight, 1);
        quotient[i] = vqrdmulhq_s32(v[i], reciprocal);
      }
      // |v| <= 2^17 + 2^7 and the reciprocal is off by at most 1/2, so that v reciprocal / 2^31 is
      // off by about 2^-15 and |v - quotient m| <= (1/2 + 2^-14) m < 128 for m <= 255: low bytes
      // are enough to compute it. For m = 256 any quotient is right: the low byte of v is the
      // residue.
      emit(p, (BlockBytes)vmlsq_s8(low_bytes(v), low_bytes(quotient), modulus));
    }
#elif defined(__AVX512VNNI__)
    encode<side>(ElementBlock<Word>::contiguous(x), emit);
#else
    for (int p = 0; p < planes; ++p) {
      const int m = moduli[p];
      BlockBytes out;
      for (std::size_t i = 0; i < kBlock; ++i) {
        const std::uint64_t u = static_cast<std::uint64_t>(x[i]) ^ 0x0080808080808080ull;
        int v = table[p].constant;
        for (int j = 0; j < 8; ++j) v += static_cast<std::int8_t>(u >> (8 * j)) * table[p].byte[j];
        out[i] = static_cast<std::int8_t>(centred(v, m));
      }
      emit(p, out);
    }
#endif
  }

  // X = sum_p s_p (M / m_p) - q M with q = round(sum_p s_p / m_p), mod 2^64, for sums s_p that need
  // not be reduced mod m_p: a multiple of m_p in s_p adds a multiple of M to both terms. Only q has
  // to be right as an integer. sum_p s_p / m_p = X / M + q; reciprocals have 38 fraction bits and
  // |s_p| < 2^28, so that the computed sum is off by less than 18 2^28 2^-39 < 0.01, and |X| / M <=
  // 0.37: together below 1/2. The sum is below 18 2^28 2^38 / 181 < 2^63. 64-bit constants are
  // split into a signed low and a high half, so that vectors of 32-bit multiplications do.
  static void combine(const std::int32_t* sums, std::size_t tile_stride, std::size_t count,
                      std::int64_t* out) {
    static constexpr auto factors = [] {
      std::array<std::uint64_t, planes + 1> table{};
      for (int p = 0; p < planes; ++p) table[p] = cofactor(p);
      table[planes] = -cofactor(-1);
      return table;
    }();
    constexpr int fraction = 38;
    constexpr std::size_t width = 8;
    for (std::size_t i = 0; i < count; i += width) {
      std::uint64_t low[width] = {};
      std::uint32_t high[width] = {};
      std::int64_t ratio[width] = {};
      const auto add = [&](const std::int32_t* s, std::uint64_t factor) {
        const auto small = static_cast<std::int32_t>(factor);
        const auto big =
            static_cast<std::uint32_t>((factor - static_cast<std::int64_t>(small)) >> 32);
        for (std::size_t j = 0; j < width; ++j) {
          low[j] += static_cast<std::uint64_t>(static_cast<std::int64_t>(s[j]) * small);
          high[j] += static_cast<std::uint32_t>(s[j]) * big;
        }
      };
#pragma GCC unroll 18
      for (int p = 0; p < planes; ++p) {
        const std::int32_t* s = sums + p * tile_stride + i;
        const auto reciprocal = static_cast<std::int32_t>(((2ll << fraction) / moduli[p] + 1) / 2);
        add(s, factors[p]);
        for (std::size_t j = 0; j < width; ++j)
          ratio[j] += static_cast<std::int64_t>(s[j]) * reciprocal;
      }
      std::int32_t quotient[width];
      for (std::size_t j = 0; j < width; ++j)
        quotient[j] = static_cast<std::int32_t>((ratio[j] + (1ll << (fraction - 1))) >> fraction);
      add(quotient, factors[planes]);
      for (std::size_t j = 0; j < width; ++j)
        out[i + j] =
            static_cast<std::int64_t>(low[j] + (static_cast<std::uint64_t>(high[j]) << 32));
    }
  }
};

// M = 2^140.45.
using Residues = ResidueSystem<1, 256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211,
                               199, 197, 193, 191, 181>;

}  // namespace tacit
