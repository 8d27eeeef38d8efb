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

#include "aes.h"
#include "native.h"
#include "simd.h"

namespace tacit {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored little-endian");

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
