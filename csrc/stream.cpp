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
#include "chacha.h"
#include "native.h"
#include "simd.h"

namespace tacit {
namespace {

static_assert(std::endian::native == std::endian::little, "words are stored little-endian");

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
