// BLAKE2b without a key, as in RFC 7693.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace tacit {

class Blake2b {
 public:
  // Writes the hash of `length` bytes of data to `out`, `size` bytes long: 1 to 64.
  static void hash(const char* data, std::size_t length, char* out, std::size_t size) {
    Words h = kStart;
    h[0] ^= 0x01010000 ^ size;
    std::size_t done = 0;
    for (; length - done > kBlock; done += kBlock) compress(h, data + done, done + kBlock, false);
    char last[kBlock] = {};
    if (length != 0) std::memcpy(last, data + done, length - done);
    compress(h, last, length, true);
    std::memcpy(out, h.data(), size);
  }

 private:
  using Word = std::uint64_t;
  using Words = std::array<Word, 8>;
  static constexpr std::size_t kBlock = 128;

  static constexpr Words kStart = {0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B,
                                   0xA54FF53A5F1D36F1, 0x510E527FADE682D1, 0x9B05688C2B3E6C1F,
                                   0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179};
  // The words of a block in the order of each round; rounds 10 and 11 are like 0 and 1.
  static constexpr std::uint8_t kOrder[10][16] = {
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
      {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
      {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
      {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
      {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
      {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
      {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
      {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
      {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
      {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
  };

  // `total`: the bytes of the data up to and including this block.
  static void compress(Words& h, const char* block, Word total, bool is_last) {
    Word m[16], v[16];
    std::memcpy(m, block, kBlock);
    std::copy(h.begin(), h.end(), v);
    std::copy(kStart.begin(), kStart.end(), v + 8);
    v[12] ^= total;
    if (is_last) v[14] = ~v[14];
#pragma GCC unroll 1  // the code of 12 rounds would rarely be in the cache
    for (int round = 0; round < 12; ++round) {
      const std::uint8_t* order = kOrder[round % 10];
      const auto mix = [&](int a, int b, int c, int d, int i) __attribute__((always_inline)) {
        v[a] += v[b] + m[order[i]];
        v[d] = std::rotr(v[d] ^ v[a], 32);
        v[c] += v[d];
        v[b] = std::rotr(v[b] ^ v[c], 24);
        v[a] += v[b] + m[order[i + 1]];
        v[d] = std::rotr(v[d] ^ v[a], 16);
        v[c] += v[d];
        v[b] = std::rotr(v[b] ^ v[c], 63);
      };
      mix(0, 4, 8, 12, 0);
      mix(1, 5, 9, 13, 2);
      mix(2, 6, 10, 14, 4);
      mix(3, 7, 11, 15, 6);
      mix(0, 5, 10, 15, 8);
      mix(1, 6, 11, 12, 10);
      mix(2, 7, 8, 13, 12);
      mix(3, 4, 9, 14, 14);
    }
    for (int i = 0; i < 8; ++i) h[i] ^= v[i] ^ v[i + 8];
  }
};

}  // namespace tacit
