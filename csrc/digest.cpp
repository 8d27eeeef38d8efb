// A 128-bit digest of memory, at the speed of memory. It finds accidental differences; it is no
// cryptographic hash.
//
// The memory is read as little-endian words of 64 bits, in blocks of 128 words; the last block is
// filled with zeros. With fixed keys k, a block w has the hash
//   h = sum over i of (w[2i] + k[2i] mod 2^64) (w[2i+1] + k[2i+1] mod 2^64)  mod 2^128,
// and the digest is the value of the polynomial with coefficients h_0, h_1, ... at an odd number:
//   d = (...((h_0 P) + h_1) P + ...) + h_last  mod 2^128.
// P is odd, hence invertible: a difference in one block's hash always changes d.
#include <array>
#include <bit>
#include <cstring>

#include "native.h"

namespace tacit {
namespace {

using Word = std::uint64_t;
__extension__ typedef unsigned __int128 Wide;

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::size_t kWords = 128;
constexpr std::size_t kBlock = kWords * sizeof(Word);

// Consecutive outputs of a counter through a bijective mixing of its bits.
constexpr std::array<Word, kWords + 2> constants() {
  std::array<Word, kWords + 2> made{};
  Word counter = 0;
  for (Word& one : made) {
    counter += 0x9E3779B97F4A7C15;  // 2^64 over the golden ratio
    Word x = counter;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93;
    one = x ^ (x >> 32);
  }
  return made;
}

constexpr auto kKeys = constants();
constexpr Wide kPoint = (Wide{kKeys[kWords]} << 64 | kKeys[kWords + 1]) | 1;

Wide hash(const char* block) {
  Word w[kWords];
  std::memcpy(w, block, kBlock);  // the memory may lie at any address
  Wide sum = 0;
  for (std::size_t i = 0; i < kWords; i += 2)
    sum += Wide{w[i] + kKeys[i]} * (w[i + 1] + kKeys[i + 1]);
  return sum;
}

// Writes the digest of `size` bytes to out: 16 bytes, little-endian.
void digest(Address memory, std::size_t size, Address out) {
  const char* data = at<const char>(memory);
  Wide state = 0;
  std::size_t done = 0;
  for (; done + kBlock <= size; done += kBlock) state = state * kPoint + hash(data + done);
  if (done < size) {
    char last[kBlock] = {};
    std::memcpy(last, data + done, size - done);
    state = state * kPoint + hash(last);
  }
  std::memcpy(at<char>(out), &state, sizeof state);
}

}  // namespace

void bind_digest(nb::module_& module) {
  module.def("digest", &digest, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace tacit
