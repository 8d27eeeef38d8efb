// Keyed pseudo-random bytes, addressed by (key, operation, offset): AES-128 in counter mode (FIPS
// 197) and ChaCha20 in its original layout. Both make whole groups of blocks, each from its own
// counter, so that any part of a stream can be made by itself and threads share the work. No branch
// and no address depends on the key.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <stdexcept>
#include <string>

#include "native.h"
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
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored little-endian");

#if TACIT_HAS_AES

#if defined(__AES__)
using Block = __m128i;

inline Block bits_of(std::uint64_t low, std::uint64_t high) {
  return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
}
inline Block whiten(Block b, Block key) { return _mm_xor_si128(b, key); }
inline Block round(Block b, Block, Block next) { return _mm_aesenc_si128(b, next); }
inline Block last_round(Block b, Block, Block next) { return _mm_aesenclast_si128(b, next); }
#else
using Block = uint8x16_t;

inline Block bits_of(std::uint64_t low, std::uint64_t high) {
  return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}
// ARM's instruction adds the round key before it substitutes, so that nothing is left to do at the
// start, and the last key is added at the end.
inline Block whiten(Block b, Block) { return b; }
inline Block round(Block b, Block key, Block) { return vaesmcq_u8(vaeseq_u8(b, key)); }
inline Block last_round(Block b, Block key, Block next) {
  return veorq_u8(vaeseq_u8(b, key), next);
}
#endif

// The S-box on each byte of a word, by the AES instruction and so in constant time. All four
// columns of the state are this word, so that ShiftRows, which the instruction also does, changes
// nothing.
std::uint32_t substitute(std::uint32_t word) {
  const std::uint64_t pair = word | static_cast<std::uint64_t>(word) << 32;
  const Block zero = bits_of(0, 0);
  const Block out = last_round(whiten(bits_of(pair, pair), zero), zero, zero);
  std::uint32_t result;
  std::memcpy(&result, &out, sizeof result);
  return result;
}

// Block `counter` is the encryption of the operation (8 bytes), then the counter (8 bytes), both
// big-endian. Eight blocks at a time hide the latency of the AES instruction.
class Aes128Ctr {
 public:
  static constexpr std::size_t key_bytes = 16, block_bytes = 16, group_blocks = 8;
  static constexpr bool is_staged = false;

  Aes128Ctr(const char* key, std::uint64_t operation) : operation_(__builtin_bswap64(operation)) {
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
    std::memcpy(keys_, words.data(), sizeof keys_);
  }

  void groups(std::uint64_t counter, std::size_t count, std::uint8_t* out) const {
    constexpr int n = group_blocks;
    Block key[11];
    for (int i = 0; i < 11; ++i) key[i] = keys_[i];
    for (; count != 0; --count, counter += n, out += n * block_bytes) {
      Block b[n];
      unrolled<n>([&]<int I>() __attribute__((always_inline)) {
        b[I] = whiten(bits_of(operation_, __builtin_bswap64(counter + I)), key[0]);
      });
      unrolled<9>([&]<int R>() __attribute__((always_inline)) {
        unrolled<n>([&]<int I>()
                        __attribute__((always_inline)) { b[I] = round(b[I], key[R], key[R + 1]); });
      });
      unrolled<n>([&]<int I>() __attribute__((always_inline)) {
        store(out + I * block_bytes, last_round(b[I], key[9], key[10]));
      });
    }
  }

 private:
  std::uint64_t operation_;
  Block keys_[11];
};

#endif

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

// What is done with the stream: it is written to memory, or combined with what is there, word by
// word. Only a stream that is written can be made in place.
struct Written {
  static constexpr bool is_straight = true;
  void operator()(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
};
template <class Word, template <class> class Operation>
struct Combined {
  static constexpr bool is_straight = false;
  void operator()(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) const {
    auto* words = reinterpret_cast<Word*>(to);
    const auto* stream = reinterpret_cast<const Word*>(from);
    for (std::size_t i = 0; i < bytes / sizeof(Word); ++i)
      words[i] = Operation<Word>{}(words[i], stream[i]);
  }
};

// Puts bytes [skip, skip + bytes) of the stream that begins at `block` to `out`. Ranges of threads
// begin at multiples of a group. What does not fit a whole group, or is combined, goes through a
// small buffer.
template <class Put, class Cipher>
void fill(const Cipher& cipher, std::uint64_t block, std::size_t skip, std::uint8_t* out,
          std::size_t bytes) {
  constexpr std::size_t group = Cipher::group_blocks * Cipher::block_bytes;
  constexpr std::size_t grain = 2048 * group;
  constexpr bool is_straight = Put::is_straight && !Cipher::is_staged;
  parallel_for(skip + bytes, grain, [&](std::size_t begin, std::size_t end) {
    constexpr std::size_t staged = (is_straight ? 1 : 8) * group;
    alignas(64) std::uint8_t stage[staged];
    while (begin < end) {
      const std::uint64_t counter = block + begin / Cipher::block_bytes;
      if (is_straight && begin >= skip && end - begin >= group) {
        const std::size_t whole = (end - begin) / group;
        cipher.groups(counter, whole, out + (begin - skip));
        begin += whole * group;
      } else {
        const std::size_t from = std::max(begin, skip), stop = std::min(end, begin + staged);
        cipher.groups(counter, (stop - begin + group - 1) / group, stage);
        Put{}(out + (from - skip), stage + (from - begin), stop - from);
        begin = stop;
      }
    }
  });
}

template <class Cipher, class Put>
void stream(nb::bytes key, std::uint64_t operation, std::uint64_t block, std::size_t skip,
            Address out, std::size_t bytes) {
  if (key.size() != Cipher::key_bytes) throw std::invalid_argument("wrong key length");
  if (bytes == 0) return;
  const Cipher cipher(key.c_str(), operation);
  nb::gil_scoped_release release;  // not earlier: the key is a Python object
  fill<Put>(cipher, block, skip, at<std::uint8_t>(out), bytes);
}

template <class Cipher>
void bind(nb::module_& module, const std::string& name) {
  using Narrow = std::uint32_t;
  using Wide = std::uint64_t;
  const auto def = [&]<class Put>(const char* what, Put) {
    module.def((what + name).c_str(), &stream<Cipher, Put>);
  };
  def("stream_", Written{});
  def("add4_", Combined<Narrow, std::plus>{});
  def("add8_", Combined<Wide, std::plus>{});
  def("sub4_", Combined<Narrow, std::minus>{});
  def("sub8_", Combined<Wide, std::minus>{});
  def("xor4_", Combined<Narrow, std::bit_xor>{});
  def("xor8_", Combined<Wide, std::bit_xor>{});
}

}  // namespace

void bind_stream(nb::module_& module) {
  module.attr("has_aes") = static_cast<bool>(TACIT_HAS_AES);
#if TACIT_HAS_AES
  bind<Aes128Ctr>(module, "aes128_ctr");
#endif
  bind<ChaCha20>(module, "chacha20");
}

}  // namespace tacit
