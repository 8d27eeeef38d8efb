// AES-128 (FIPS 197) by the processor's instructions, for keys of streams and of hashes. No branch
// and no address depends on the key or the data. TACIT_HAS_AES is 0 on hosts without instructions.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "simd.h"

#if defined(__ARM_FEATURE_AES) || defined(__ARM_FEATURE_CRYPTO)
#include <arm_neon.h>
#define TACIT_HAS_AES 1
#elif defined(__AES__)
#include <immintrin.h>
#define TACIT_HAS_AES 1
#else
#define TACIT_HAS_AES 0
#endif

namespace tacit {

#if defined(__AVX2__)
// Whether the processor encrypts two blocks in one instruction (VAES): some do at every level with
// AVX2.
inline bool has_vaes() {
  static const bool found = (__builtin_cpu_init(), __builtin_cpu_supports("vaes") != 0);
  return found;
}
#else
inline bool has_vaes() { return false; }
#endif

#if TACIT_HAS_AES

#if defined(__AES__)
using Block = __m128i;

inline Block bits_of(std::uint64_t low, std::uint64_t high) {
  return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
}
inline Block exclusive_or(Block a, Block b) { return _mm_xor_si128(a, b); }
inline Block whiten(Block b, Block key) { return exclusive_or(b, key); }
inline Block round(Block b, Block, Block next) { return _mm_aesenc_si128(b, next); }
inline Block last_round(Block b, Block, Block next) { return _mm_aesenclast_si128(b, next); }
#else
using Block = uint8x16_t;

inline Block bits_of(std::uint64_t low, std::uint64_t high) {
  return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}
inline Block exclusive_or(Block a, Block b) { return veorq_u8(a, b); }
// ARM's instruction adds the round key before it substitutes, so that nothing is left to do at the
// start, and the last key is added at the end.
inline Block whiten(Block b, Block) { return b; }
inline Block round(Block b, Block key, Block) { return vaesmcq_u8(vaeseq_u8(b, key)); }
inline Block last_round(Block b, Block key, Block next) {
  return exclusive_or(vaeseq_u8(b, key), next);
}
#endif

// The S-box on each byte of a word, by the AES instruction and so in constant time. All four
// columns of the state are this word, so that ShiftRows, which the instruction also does, changes
// nothing.
inline std::uint32_t substitute(std::uint32_t word) {
  const std::uint64_t pair = word | static_cast<std::uint64_t>(word) << 32;
  const Block zero = bits_of(0, 0);
  const Block out = last_round(whiten(bits_of(pair, pair), zero), zero, zero);
  std::uint32_t result;
  std::memcpy(&result, &out, sizeof result);
  return result;
}

// The round keys of a key.
struct Aes128 {
  static constexpr std::size_t key_bytes = 16, block_bytes = 16;

  explicit Aes128(const void* key) {
    std::array<std::uint32_t, 44> words;  // the key schedule, FIPS 197, 5.2
    std::memcpy(words.data(), key, key_bytes);
    std::uint32_t constant = 1;
    for (int i = 4; i < 44; ++i) {
      std::uint32_t next = words[i - 1];
      if (i % 4 == 0) {
        next = substitute(std::rotr(next, 8)) ^ constant;
        constant = constant << 1 ^ (constant >> 7) * 0x11b;
      }
      words[i] = words[i - 4] ^ next;
    }
    std::memcpy(keys, words.data(), sizeof keys);
  }

  // Encrypts N blocks side by side, which hides the latency of the AES instruction.
  template <int N>
  inline __attribute__((always_inline)) void encrypt(Block (&b)[N]) const {
    unrolled<N>([&]<int I>() __attribute__((always_inline)) { b[I] = whiten(b[I], keys[0]); });
    unrolled<9>([&]<int R>() __attribute__((always_inline)) {
      unrolled<N>([&]<int I>()
                      __attribute__((always_inline)) { b[I] = round(b[I], keys[R], keys[R + 1]); });
    });
    unrolled<N>([&]<int I>()
                    __attribute__((always_inline)) { b[I] = last_round(b[I], keys[9], keys[10]); });
  }

  Block keys[11];
};

// Counter mode. Block `counter` is the encryption of the operation (8 bytes), then the counter (8
// bytes), both big-endian.
class Aes128Ctr {
 public:
  static constexpr std::size_t key_bytes = 16, block_bytes = 16, group_blocks = 8;
  static constexpr bool is_staged = false;

  Aes128Ctr(const void* key, std::uint64_t operation)
      : operation_(__builtin_bswap64(operation)), cipher_(key) {}

  void groups(std::uint64_t counter, std::size_t count, std::uint8_t* out) const {
#if defined(__AVX2__)
    if (has_vaes()) {
      wide_groups(counter, count / 2, out);
      counter += count / 2 * 2 * group_blocks, out += count / 2 * 2 * group_blocks * block_bytes;
      count %= 2;
    }
#endif
    constexpr int n = group_blocks;
    const Aes128 cipher = cipher_;  // in registers: `out` may not alias it
    for (; count != 0; --count, counter += n, out += n * block_bytes) {
      Block b[n];
      unrolled<n>([&]<int I>() __attribute__((always_inline)) {
        b[I] = bits_of(operation_, __builtin_bswap64(counter + I));
      });
      cipher.encrypt(b);
      unrolled<n>([&]<int I>()
                      __attribute__((always_inline)) { store(out + I * block_bytes, b[I]); });
    }
  }

 private:
#if defined(__AVX2__)
  // Two groups at a time, two blocks in a vector: eight instructions hide their latency.
  __attribute__((target("vaes"))) void wide_groups(std::uint64_t counter, std::size_t pairs,
                                                   std::uint8_t* out) const {
    constexpr int n = group_blocks;
    __m256i keys[11];
    for (int r = 0; r < 11; ++r) keys[r] = _mm256_broadcastsi128_si256(cipher_.keys[r]);
    // The operation's bytes are in their order; those of a counter are reversed.
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_set_epi8(8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 4, 3, 2, 1, 0));
    const auto operation = static_cast<long long>(operation_);
    const auto first = static_cast<long long>(counter);
    const __m256i two = _mm256_set_epi64x(2, 0, 2, 0);
    __m256i next = _mm256_add_epi64(_mm256_set_epi64x(first, operation, first, operation),
                                    _mm256_set_epi64x(1, 0, 0, 0));
    for (; pairs != 0; --pairs, out += 2 * n * block_bytes) {
      __m256i b[n];
#pragma GCC unroll 8
      for (int i = 0; i < n; ++i) {
        b[i] = _mm256_xor_si256(_mm256_shuffle_epi8(next, order), keys[0]);
        next = _mm256_add_epi64(next, two);
      }
      for (int r = 1; r < 10; ++r)
#pragma GCC unroll 8
        for (int i = 0; i < n; ++i) b[i] = _mm256_aesenc_epi128(b[i], keys[r]);
#pragma GCC unroll 8
      for (int i = 0; i < n; ++i)
        store(out + 2 * i * block_bytes, _mm256_aesenclast_epi128(b[i], keys[10]));
    }
  }
#endif

  std::uint64_t operation_;
  Aes128 cipher_;
};

#endif

}  // namespace tacit
