// Vectors of the host's width (16 or 32 bytes), and the permutations that the kernels need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace tacit {

#if defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

typedef std::uint8_t Bytes __attribute__((vector_size(kVectorBytes)));
typedef std::uint64_t Words64 __attribute__((vector_size(kVectorBytes)));

template <class V>
inline V load(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class V>
inline void store(void* to, V value) {
  std::memcpy(to, &value, sizeof value);
}

// Calls body.operator()<0>(), <1>(), ... in order: a loop whose index is a constant, so that arrays
// of vectors stay in registers.
template <int N, class Body>
inline __attribute__((always_inline)) void unrolled(Body&& body) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (body.template operator()<I>(), ...);
  }(std::make_integer_sequence<int, N>{});
}

// Exchanges the odd pieces of a, of 2^K bytes each, with the even pieces of b. With a and b as rows
// this transposes 2x2 matrices of pieces: bit K of the byte number changes places with the row
// number.
template <int K, class V>
inline __attribute__((always_inline)) void exchange(V& a, V& b) {
  static_assert(sizeof a[0] == 1);
  constexpr int piece = 1 << K, n = sizeof(V);
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    const V even = __builtin_shufflevector(a, b, (I & piece ? n + I - piece : I)...);
    const V odd = __builtin_shufflevector(a, b, (I & piece ? n + I : I + piece)...);
    a = even, b = odd;
  }(std::make_integer_sequence<int, n>{});
}

// Swaps bit log2 J of the bit number with the choice between a and b.
template <int J>
inline __attribute__((always_inline)) void exchange_bits(Words64& a, Words64& b) {
  constexpr std::uint64_t low = ~0ull / ((1u << J) + 1);  // 0x0f0f.. 0x3333.. 0x5555..
  const Words64 up = b << J, down = a >> J;
  a = ((a ^ up) & low) ^ up;
  b = ((down ^ b) & low) ^ b;
}

// Swaps row number and bit number: an 8x8 transpose of bits in every byte, and its own inverse.
inline __attribute__((always_inline)) void swap_bits(Words64 (&v)[8]) {
  unrolled<3>([&]<int Bit>() __attribute__((always_inline)) {
    constexpr int j = 4 >> Bit;
    unrolled<8>([&]<int I>() __attribute__((always_inline)) {
      if constexpr (!(I & j)) exchange_bits<j>(v[I], v[I | j]);
    });
  });
}

}  // namespace tacit
