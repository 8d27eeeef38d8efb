// ChaCha20 in vectors of the host, for streams. No branch and no address depends on the key.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "simd.h"

namespace tacit {

// ChaCha20 in its original layout (Bernstein 2008): words 0-3 are constants, 4-11 the key, 12-13
// the block counter, 14-15 the operation as nonce. A lane of a vector is one block. If vectors are
// narrow (16 bytes), two more blocks go through the scalar units, one after the other, in the time
// that the vectors need for theirs.
class ChaCha20 {
#if defined(__AVX512BW__)
  static constexpr int kWidth = 64;
#else
  static constexpr int kWidth = kVectorBytes;
#endif
  static constexpr int kLanes = kWidth / 4, kScalars = kWidth == 16 ? 2 : 0;
  typedef std::uint32_t Lanes __attribute__((vector_size(kWidth)));
  typedef std::uint8_t Pieces __attribute__((vector_size(kWidth)));

 public:
  static constexpr std::size_t key_bytes = 32, block_bytes = 64, group_blocks = kLanes + kScalars;
  static constexpr bool is_staged = true;  // bursts of 16 stores are slow outside the cache

  ChaCha20(const char* key, std::uint64_t operation) {
    std::memcpy(start_, "expand 32-byte k", 16);
    std::memcpy(start_ + 4, key, key_bytes);
    std::memcpy(start_ + 14, &operation, sizeof operation);
  }

  void groups(std::uint64_t counter, std::size_t count, std::uint8_t* out) const {
    for (; count != 0; --count, counter += group_blocks, out += group_blocks * block_bytes) {
      Lanes low, high;
      for (int i = 0; i < kLanes; ++i) {
        low[i] = static_cast<std::uint32_t>(counter + i);
        high[i] = static_cast<std::uint32_t>((counter + i) >> 32);
      }
      const auto start = [&]<int I>() __attribute__((always_inline)) {
        return I == 12 ? low : I == 13 ? high : Lanes{} + start_[I];
      };
      Lanes x[16];
      unrolled<16>([&]<int I>()
                       __attribute__((always_inline)) { x[I] = start.template operator()<I>(); });
      if constexpr (kScalars == 0)
        for (int i = 0; i < 10; ++i) double_round(x);
      else
        for (int half = 0; half < 2; ++half)
          half_with_scalar(x, counter + kLanes + half, out + (kLanes + half) * block_bytes);
      unrolled<16>([&]<int I>()
                       __attribute__((always_inline)) { x[I] += start.template operator()<I>(); });
      write(x, out);
    }
  }

 private:
  // Five double rounds of the vectors and all ten of one more block.
  void half_with_scalar(Lanes (&x)[16], std::uint64_t counter, std::uint8_t* out) const {
    const auto start = [&]<int I>() __attribute__((always_inline)) {
      return I == 12   ? static_cast<std::uint32_t>(counter)
             : I == 13 ? static_cast<std::uint32_t>(counter >> 32)
                       : start_[I];
    };
    std::uint32_t y[16];
    unrolled<16>([&]<int I>()
                     __attribute__((always_inline)) { y[I] = start.template operator()<I>(); });
    for (int i = 0; i < 5; ++i)
      unrolled<8>([&]<int S>() __attribute__((always_inline)) {
        step<S>(x);
        step<S * 2 % 8>(y);
        step<S * 2 % 8 + 1>(y);
      });
    unrolled<16>([&]<int I>()
                     __attribute__((always_inline)) { y[I] += start.template operator()<I>(); });
    std::memcpy(out, y, sizeof y);
  }

  template <class Word>
  static inline __attribute__((always_inline)) void double_round(Word (&x)[16]) {
    unrolled<8>([&]<int S>() __attribute__((always_inline)) { step<S>(x); });
  }

  // One of the eight steps of a double round: a += b, d = (d ^ a) <<< bits, in the four quarter
  // rounds side by side, those of the columns (steps 0..3), then of the diagonals.
  template <int Step, class Word>
  static inline __attribute__((always_inline)) void step(Word (&x)[16]) {
    constexpr bool even = Step % 2 == 0;
    constexpr int bits[] = {16, 12, 8, 7}, turn = Step / 4;
    unrolled<4>([&]<int I>() __attribute__((always_inline)) {
      constexpr int a = place(even ? 0 : 2, I, turn), b = place(even ? 1 : 3, I, turn);
      x[a] += x[b];
    });
    unrolled<4>([&]<int I>() __attribute__((always_inline)) {
      constexpr int a = place(even ? 0 : 2, I, turn), d = place(even ? 3 : 1, I, turn);
      x[d] = rotate<bits[Step % 4]>(x[d] ^ x[a]);
    });
  }
  static constexpr int place(int row, int i, int turn) { return 4 * row + (i + row * turn) % 4; }

  template <int Bits>
  static inline __attribute__((always_inline)) std::uint32_t rotate(std::uint32_t x) {
    return std::rotl(x, Bits);
  }
  template <int Bits>
  static inline __attribute__((always_inline)) Lanes rotate(Lanes x) {
#if !defined(__AVX512BW__)  // which rotates in one instruction
    if constexpr (Bits % 8 == 0)
      return [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
        const Pieces p = reinterpret_cast<Pieces>(x);
        return reinterpret_cast<Lanes>(
            __builtin_shufflevector(p, p, ((I & ~3) | ((I - Bits / 8) & 3))...));
      }(std::make_integer_sequence<int, kWidth>{});
#endif
    return x << Bits | x >> (32 - Bits);
  }

  // Transposes from one block a lane to blocks of consecutive words, and writes them.
  static void write(Lanes (&x)[16], std::uint8_t* out) {
    constexpr int stages = std::countr_zero(static_cast<unsigned>(kLanes));
    unrolled<stages>([&]<int K>() __attribute__((always_inline)) {
      unrolled<16>([&]<int I>() __attribute__((always_inline)) {
        if constexpr (!(I >> K & 1)) {
          auto a = reinterpret_cast<Pieces>(x[I]), b = reinterpret_cast<Pieces>(x[I | 1 << K]);
          exchange<K + 2>(a, b);
          x[I] = reinterpret_cast<Lanes>(a), x[I | 1 << K] = reinterpret_cast<Lanes>(b);
        }
      });
    });
    // In the order of addresses: whole cache lines are written, which need not be read first.
    constexpr int parts = 16 / kLanes;
    unrolled<16>([&]<int I>() __attribute__((always_inline)) {
      store(out + I * kWidth, x[I % parts * kLanes + I / parts]);
    });
  }

  std::uint32_t start_[16] = {};
};

}  // namespace tacit
