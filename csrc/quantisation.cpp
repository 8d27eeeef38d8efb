// Floats as 8-bit integers and back, and masks on them: the passes over memory that an enclave does
// for a product. Each reads and writes every element once, and random words stay in the cache.
#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "aes.h"
#include "chacha.h"
#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kBlock = 1024;  // elements whose random words are made at a time
constexpr std::size_t kGrain = 64 * kBlock;
constexpr std::uint32_t kFactor = 0x9E3779B1;         // odd, about 2^32 over the golden ratio
constexpr std::uint64_t kPoint = 0x9E3779B97F4A7C15;  // odd, 2^64 over the golden ratio

// The largest absolute value as the bits of a float (those of NaN and of infinities are the
// largest; without their sign, floats are ordered as their bits are), and a hash that notices
// changes.
struct Summary {
  std::uint32_t most = 0;
  std::uint64_t hash = 0;
};

// Each of 32 lanes mixes its words one after the other: the state after a word determines the word,
// so that a change of one word always changes it. The hash is a polynomial of the lanes at an odd
// point, mod 2^64. The last words of a block fill the first lanes.
Summary summarised(const std::uint32_t* bits, std::size_t count) {
  constexpr std::size_t lanes = 32;
  std::uint32_t most[lanes] = {}, value[lanes] = {};
  const auto add = [&](std::size_t j, std::uint32_t word) __attribute__((always_inline)) {
    most[j] = std::max(most[j], word & 0x7fffffff);
    value[j] = std::rotl((value[j] ^ word) * kFactor, 15);
  };
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (std::size_t j = 0; j < lanes; ++j) add(j, bits[i + j]);
  for (std::size_t j = 0; i < count; ++i, ++j) add(j, bits[i]);
  Summary found;
  for (std::size_t j = 0; j < lanes; ++j) {
    found.most = std::max(found.most, most[j]);
    found.hash = found.hash * kPoint + value[j];
  }
  return found;
}

// Writes the bits of max|x|, then the hash, to out: two words of 64 bits.
void summary32(Address x, std::size_t count, Address out) {
  std::vector<Summary> blocks((count + kGrain - 1) / kGrain);
  parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    for (; begin < end; begin += kGrain)
      blocks[begin / kGrain] =
          summarised(at<const std::uint32_t>(x) + begin, std::min(kGrain, end - begin));
  });
  Summary total;
  for (const Summary& block : blocks) {
    total.most = std::max(total.most, block.most);
    total.hash = total.hash * kPoint + block.hash;
  }
  at<std::uint64_t>(out)[0] = total.most;
  at<std::uint64_t>(out)[1] = total.hash;
}

// The random words of a block of elements, of which each takes `Word`.
template <class Cipher, class Word>
class Words {
  static constexpr std::size_t group = Cipher::group_blocks * Cipher::block_bytes;
  static constexpr std::size_t bytes = kBlock * sizeof(Word);
  static_assert(bytes % Cipher::block_bytes == 0);

 public:
  // Returns the words of the elements from `first` on, a multiple of kBlock.
  const Word* of(const Cipher& cipher, std::size_t first) {
    const std::uint64_t counter = first / kBlock * (bytes / Cipher::block_bytes);
    cipher.groups(counter, (bytes + group - 1) / group, stage_);
    return reinterpret_cast<const Word*>(stage_);
  }

 private:
  alignas(64) std::uint8_t stage_[(bytes + group - 1) / group * group];
};

template <class Cipher>
Cipher keyed(const nb::bytes& key, std::uint64_t operation) {
  if (key.size() != Cipher::key_bytes) throw std::invalid_argument("wrong key length");
  return Cipher(key.c_str(), operation);
}

// q = floor(y) + ((r + 1/2) 2^-16 < y - floor(y)), at most 127, for y = x scale in (-128, 128) and
// 16 random bits r. The scale is a power of two, so that y is exact. The numbers are a part of a
// tensor from element `first` on, a multiple of kBlock: their random bits are those of that part.
template <class Cipher>
void quantise8_from(Address x, float scale, nb::bytes key, std::uint64_t operation, Address out,
                    std::size_t count, std::size_t first) {
  if (first % kBlock) throw std::invalid_argument("a part begins within a block");
  const Cipher cipher = keyed<Cipher>(key, operation);
  nb::gil_scoped_release release;  // not earlier: the key is a Python object
  parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    Words<Cipher, std::uint16_t> words;
    for (; begin < end; begin += kBlock) {
      const float* from = at<const float>(x) + begin;
      std::int8_t* to = at<std::int8_t>(out) + begin;
      const std::uint16_t* random = words.of(cipher, first + begin);
      const std::size_t some = std::min(kBlock, end - begin);
      std::int32_t rounded[kBlock];  // in two loops, each of which the compiler vectorises
      for (std::size_t i = 0; i < some; ++i) {
        const float y = from[i] * scale, low = std::floor(y);
        const float fraction = (static_cast<std::int32_t>(random[i]) + 0.5f) * 0x1p-16f;
        rounded[i] = static_cast<std::int32_t>(low) + (fraction < y - low ? 1 : 0);
      }
      for (std::size_t i = 0; i < some; ++i)
        to[i] = static_cast<std::int8_t>(std::min(rounded[i], 127));
    }
  });
}

// out = x - (words of one key) - (words of the other), mod 2^32.
template <class Cipher>
void masked8(Address x, nb::bytes first, nb::bytes second, std::uint64_t operation, Address out,
             std::size_t count) {
  const Cipher one = keyed<Cipher>(first, operation), other = keyed<Cipher>(second, operation);
  nb::gil_scoped_release release;
  parallel_for(count, kGrain, [&](std::size_t begin, std::size_t end) {
    Words<Cipher, std::uint32_t> ones, others;
    for (; begin < end; begin += kBlock) {
      const std::int8_t* from = at<const std::int8_t>(x) + begin;
      std::uint32_t* to = at<std::uint32_t>(out) + begin;
      const std::uint32_t *u = ones.of(one, begin), *v = others.of(other, begin);
      const std::size_t some = std::min(kBlock, end - begin);
      for (std::size_t i = 0; i < some; ++i)
        to[i] = static_cast<std::uint32_t>(from[i]) - u[i] - v[i];
    }
  });
}

// out = a + b + c, mod 2^32.
void add_three32(Address a, Address b, Address c, Address out, std::size_t count) {
  parallel_for(count, kGrain, [=](std::size_t begin, std::size_t end) {
    using Word = std::uint32_t;
    const Word *x = at<const Word>(a), *y = at<const Word>(b), *z = at<const Word>(c);
    Word* to = at<Word>(out);
    for (std::size_t i = begin; i < end; ++i) to[i] = x[i] + y[i] + z[i];
  });
}

// out = x scale, rounded to a float once: the scale is a power of two.
void dequantise32(Address x, float scale, Address out, std::size_t count) {
  parallel_for(count, kGrain, [=](std::size_t begin, std::size_t end) {
    const std::int32_t* from = at<const std::int32_t>(x);
    float* to = at<float>(out);
    for (std::size_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]) * scale;
  });
}

}  // namespace

void bind_quantisation(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("summary32", &summary32, release());
  module.def("add_three32", &add_three32, release());
  module.def("dequantise32", &dequantise32, release());
#if TACIT_HAS_AES
  module.def("quantise8_from_aes128_ctr", &quantise8_from<Aes128Ctr>);
  module.def("masked8_aes128_ctr", &masked8<Aes128Ctr>);
#endif
  module.def("masked8_chacha20", &masked8<ChaCha20>);
}

}  // namespace tacit
