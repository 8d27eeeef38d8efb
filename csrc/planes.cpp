// Bit planes: bit j of word b of plane i is bit i of element 64 b + j.
//
// A tile of 8 V elements of S bytes each, with V bytes to a vector, is 8 S vectors. Every bit of
// the tile has an address: which vector, which byte of it, which bit of the byte. Read as elements,
// the vector number is the high bits of the element number, and the byte number is the low bits of
// the element number and the number of the byte in its element. Read as planes, the vector number
// is the number of the plane, and byte and bit numbers are the element number. So the conversion
// permutes address bits. It swaps pairs of them: first bits of the vector number with bits of the
// byte number (a shuffle of two vectors), then bits of the vector number with bits of the bit
// number (shift and select), through a buffer that stays in the first-level cache. The way back
// does the same swaps in reverse order.
#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "native.h"
#include "simd.h"

namespace tacit {
namespace {

constexpr int kLaneBits = std::countr_zero(static_cast<unsigned>(kVectorBytes));
constexpr std::size_t kTile = 8 * kVectorBytes;  // elements
constexpr std::size_t kChunk = 2048;             // elements: the buffers stay in L1
constexpr std::size_t kTiles = kChunk / kTile;
constexpr std::size_t kGrain = 16;  // chunks that a thread takes at once

// Which address bits are swapped for elements of 2^s bytes. The constructor finds it by doing the
// swaps on names of bits: i for bit i of the element number, 16 + i for bit i of the number of the
// byte in its element.
struct Route {
  struct Swap {
    int lane, vector;
  };
  std::array<Swap, kLaneBits> swaps{};
  unsigned swapped = 0;          // the bits of the vector number that change
  unsigned fixed = 0;            // ... and that do not
  std::array<int, 3> row_at{};   // where bits 0..2 of the element number are after the swaps
  std::array<int, 3> byte_at{};  // where the bits of the byte number are

  constexpr explicit Route(int s) {
    std::array<int, 8> lane{}, vector{};
    for (int i = 0; i < kLaneBits; ++i) lane[i] = i < s ? 16 + i : i - s;
    for (int i = 0; i < 3 + s; ++i) vector[i] = kLaneBits - s + i;
    for (int k = kLaneBits - 1; k >= 0; --k) {
      int v = 0;
      while (vector[v] != k + 3) ++v;
      std::swap(lane[k], vector[v]);
      swaps[kLaneBits - 1 - k] = {k, v};
      swapped |= 1u << v;
    }
    fixed = ((8u << s) - 1) & ~swapped;
    for (int i = 0; i < 3 + s; ++i)
      (vector[i] < 16 ? row_at[vector[i]] : byte_at[vector[i] - 16]) = i;
  }
};

// Puts the bits of `value` at the places of the ones of `mask`, or at the given places.
constexpr int spread(int value, unsigned mask) {
  int result = 0;
  for (int place = 0; mask >> place; ++place)
    if (mask >> place & 1) result |= (value & 1) << place, value >>= 1;
  return result;
}

constexpr int spread(int value, const std::array<int, 3>& places) {
  return (value & 1) << places[0] | (value >> 1 & 1) << places[1] | (value >> 2 & 1) << places[2];
}

template <int S>
struct Tile {
  static constexpr Route route{std::countr_zero(static_cast<unsigned>(S))};
  static constexpr int vectors = 8 * S;
  static constexpr int group = 1 << std::popcount(route.swapped);
  static constexpr std::size_t bytes = vectors * kVectorBytes;

  // Swaps bits of the vector number with bits of the byte number: Forward from elements to the
  // order of the buffer, else back.
  template <bool Forward>
  static void swap_bytes(const std::uint8_t* from, std::uint8_t* to) {
    for (int outer = 0; outer < vectors / group; ++outer) {
      const std::size_t base = spread(outer, route.fixed) * kVectorBytes;
      Bytes v[group];
      unrolled<group>([&]<int I>() __attribute__((always_inline)) {
        v[I] = load<Bytes>(from + base + spread(I, route.swapped) * kVectorBytes);
      });
      unrolled<kLaneBits>([&]<int Step>() __attribute__((always_inline)) {
        constexpr auto swap = route.swaps[Forward ? Step : kLaneBits - 1 - Step];
        unrolled<group>([&]<int I>() __attribute__((always_inline)) {
          constexpr int bit = std::popcount(route.swapped & ((1u << swap.vector) - 1));
          if constexpr (!(I >> bit & 1)) exchange<swap.lane>(v[I], v[I | 1 << bit]);
        });
      });
      unrolled<group>([&]<int I>() __attribute__((always_inline)) {
        store(to + base + spread(I, route.swapped) * kVectorBytes, v[I]);
      });
    }
  }

  // Where byte `byte` of the elements is in the buffer: eight rows, one for each element mod 8.
  static std::size_t start(int byte) { return spread(byte, route.byte_at) * kVectorBytes; }
  template <int Row>
  static constexpr std::size_t row = spread(Row, route.row_at) * kVectorBytes;
};

struct Window {
  int low, width;  // bits [low, low + width) of the element
};

// Prefetches cache lines that will be written soon. Always inlined, because gcc drops calls of a
// function that does nothing but prefetch.
template <int Lines>
inline __attribute__((always_inline)) void expect_writes(const std::uint8_t* first) {
  unrolled<Lines>([&]<int I>()
                      __attribute__((always_inline)) { __builtin_prefetch(first + I * 64, 1, 3); });
}

// Prefetches eight planes of a chunk that will be written soon. The hardware does not predict the
// jumps from plane to plane, and if planes are a power of two bytes apart, few of their lines fit
// in the cache together. So they are requested one group of planes ahead, a few lines with each
// tile.
struct Ahead {
  const std::uint8_t* planes = nullptr;
  std::size_t stride = 0;

  inline __attribute__((always_inline)) void ask(std::size_t tile) const {
    if (planes == nullptr) return;
    constexpr int lines = 8 * kChunk / 8 / 64 / kTiles;  // of all eight planes, for one tile
    unrolled<lines>([&]<int I>() __attribute__((always_inline)) {
      const std::size_t line = tile + I * kTiles;
      __builtin_prefetch(planes + line % 8 * stride + line / 8 * 64, 1, 2);
    });
  }
};

// Tiles of elements of S bytes to the planes of a window, `stride` bytes apart. `more`: another
// whole chunk follows in memory.
template <int S>
void to_planes(const std::uint8_t* elements, std::size_t tiles, Window window, std::uint8_t* planes,
               std::size_t stride, bool more) {
  alignas(64) std::uint8_t buffer[kTiles * Tile<S>::bytes];
  for (std::size_t t = 0; t < tiles; ++t)
    Tile<S>::template swap_bytes<true>(elements + t * Tile<S>::bytes, buffer + t * Tile<S>::bytes);
  const int end = window.low + window.width;
  for (int byte = window.low / 8; byte * 8 < end; ++byte) {
    const int first = std::max(window.low - byte * 8, 0), last = std::min(end - byte * 8, 8);
    std::uint8_t* plane = planes + (byte * 8 + first - window.low) * stride;  // of bit `first`
    Ahead ahead;
    if ((byte + 2) * 8 <= end)
      ahead = {plane + (8 - first) * stride, stride};
    else if (more && window.width >= 8)
      ahead = {planes + kChunk / 8, stride};
    for (std::size_t t = 0; t < tiles; ++t, plane += kVectorBytes) {
      ahead.ask(t);
      const std::uint8_t* rows = buffer + t * Tile<S>::bytes + Tile<S>::start(byte);
      Words64 v[8];
      unrolled<8>([&]<int I>() __attribute__((always_inline)) {
        v[I] = load<Words64>(rows + Tile<S>::template row<I>);
      });
      swap_bits(v);
      if (last - first == 8)
        unrolled<8>([&]<int I>()
                        __attribute__((always_inline)) { store(plane + I * stride, v[I]); });
      else
        unrolled<8>([&]<int I>() __attribute__((always_inline)) {
          if (I >= first && I < last) store(plane + (I - first) * stride, v[I]);
        });
    }
  }
}

// Planes to tiles of elements of S bytes; above `width` bits are zeros, or with `sign` the last
// plane.
template <int S>
void to_elements(const std::uint8_t* planes, std::size_t stride, std::size_t tiles, int width,
                 bool sign, std::uint8_t* elements) {
  alignas(64) std::uint8_t buffer[kTiles * Tile<S>::bytes];
  for (int byte = 0; byte < S; ++byte) {
    const int present = std::clamp(width - byte * 8, 0, 8);
    for (std::size_t t = 0; t < tiles; ++t) {
      expect_writes<kVectorBytes / 8>(elements + (byte * tiles + t) * kTile);
      const std::uint8_t* plane = planes + t * kVectorBytes;
      const Words64 fill = sign ? load<Words64>(plane + (width - 1) * stride) : Words64{};
      Words64 v[8];
      unrolled<8>([&]<int I>() __attribute__((always_inline)) {
        v[I] = I < present ? load<Words64>(plane + (byte * 8 + I) * stride) : fill;
      });
      swap_bits(v);
      std::uint8_t* rows = buffer + t * Tile<S>::bytes + Tile<S>::start(byte);
      unrolled<8>([&]<int I>() __attribute__((always_inline)) {
        store(rows + Tile<S>::template row<I>, v[I]);
      });
    }
  }
  for (std::size_t t = 0; t < tiles; ++t)
    Tile<S>::template swap_bytes<false>(buffer + t * Tile<S>::bytes, elements + t * Tile<S>::bytes);
}

// One chunk of up to kChunk elements of type E. If the window is narrower than E, the elements are
// first shifted and narrowed to words of type U. An incomplete tile at the end is padded with
// zeros.
template <class E, class U>
void chunk_to_planes(const E* elements, std::size_t count, Window window, std::uint8_t* planes,
                     std::size_t stride, bool more) {
  constexpr int S = sizeof(U);
  alignas(64) U words[kChunk];
  const std::size_t tiles = count / kTile, rest = count % kTile, whole = tiles * kTile;
  if constexpr (sizeof(E) > sizeof(U)) {
    for (std::size_t i = 0; i < count; ++i) words[i] = static_cast<U>(elements[i] >> window.low);
    window.low = 0;
    if (tiles != 0)
      to_planes<S>(reinterpret_cast<const std::uint8_t*>(words), tiles, window, planes, stride,
                   more);
  } else {
    to_planes<S>(reinterpret_cast<const std::uint8_t*>(elements), tiles, window, planes, stride,
                 more);
    std::copy_n(elements + whole, rest, words + whole);
  }
  if (rest == 0) return;
  std::fill_n(words + whole + rest, kTile - rest, U{0});
  alignas(64) std::uint8_t last[8 * S][kVectorBytes];
  to_planes<S>(reinterpret_cast<const std::uint8_t*>(words + whole), 1, window, last[0],
               kVectorBytes, false);
  for (int i = 0; i < window.width; ++i)
    std::memcpy(planes + i * stride + tiles * kVectorBytes, last[i], (rest + 63) / 64 * 8);
}

template <class E, class U>
void chunk_to_elements(const std::uint8_t* planes, std::size_t stride, int width, bool sign,
                       E* elements, std::size_t count) {
  constexpr int S = sizeof(U);
  alignas(64) U words[kChunk];
  const std::size_t tiles = count / kTile, rest = count % kTile, whole = tiles * kTile;
  constexpr bool direct = sizeof(E) == sizeof(U);
  auto* to =
      direct ? reinterpret_cast<std::uint8_t*>(elements) : reinterpret_cast<std::uint8_t*>(words);
  to_elements<S>(planes, stride, tiles, width, sign, to);
  if (rest != 0) {
    alignas(64) std::uint8_t last[8 * S][kVectorBytes] = {};
    for (int i = 0; i < width; ++i)
      std::memcpy(last[i], planes + i * stride + tiles * kVectorBytes, (rest + 63) / 64 * 8);
    to_elements<S>(last[0], kVectorBytes, 1, width, sign,
                   reinterpret_cast<std::uint8_t*>(words + whole));
  }
  if constexpr (direct) {
    std::copy_n(words + whole, rest, elements + whole);
  } else if (sign) {
    for (std::size_t i = 0; i < count; ++i)
      elements[i] = static_cast<E>(static_cast<std::make_signed_t<U>>(words[i]));
  } else {
    for (std::size_t i = 0; i < count; ++i) elements[i] = words[i];
  }
}

// Calls body with a value of the unsigned type of `size` bytes.
template <class Body>
void with_word(int size, const Body& body) {
  switch (size) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint64_t{});
  }
}

// The smallest word that holds `width` bits.
int word_size(int width) { return width <= 8 ? 1 : width <= 16 ? 2 : width <= 32 ? 4 : 8; }

template <class Body>
void for_chunks(std::size_t count, const Body& body) {
  parallel_for((count + kChunk - 1) / kChunk, kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t chunk = begin; chunk < end; ++chunk)
      body(chunk * kChunk, std::min(kChunk, count - chunk * kChunk), (chunk + 2) * kChunk <= count);
  });
}

// `planes` has `width` rows of ceil(count / 64) words.
void bit_planes(Address elements, int size, std::size_t count, int low, int width, Address planes) {
  const std::size_t stride = (count + 63) / 64 * 8;
  with_word(size, [&]<class E>(E) {
    with_word(std::min(size, word_size(width)), [&]<class U>(U) {
      if constexpr (sizeof(U) <= sizeof(E))
        for_chunks(count, [&](std::size_t begin, std::size_t length, bool more) {
          chunk_to_planes<E, U>(at<const E>(elements) + begin, length, {low, width},
                                at<std::uint8_t>(planes) + begin / 8, stride, more);
        });
    });
  });
}

void from_bit_planes(Address planes, int width, bool sign, Address elements, int size,
                     std::size_t count) {
  const std::size_t stride = (count + 63) / 64 * 8;
  with_word(size, [&]<class E>(E) {
    with_word(word_size(width), [&]<class U>(U) {
      if constexpr (sizeof(U) <= sizeof(E))
        for_chunks(count, [&](std::size_t begin, std::size_t length, bool) {
          chunk_to_elements<E, U>(at<const std::uint8_t>(planes) + begin / 8, stride, width, sign,
                                  at<E>(elements) + begin, length);
        });
    });
  });
}

constexpr std::size_t kWordGrain = 1 << 15;

// Counts bits in fields of 2, 4, 8, ... bits, without an instruction that some host lacks, so that
// it vectorises everywhere.
void popcount(Address words, Address counts, std::size_t count) {
  parallel_for(count, kWordGrain, [=](std::size_t begin, std::size_t end) {
    const auto* from = at<const std::uint64_t>(words);
    auto* to = at<std::uint64_t>(counts);
    for (std::size_t i = begin; i < end; ++i) {
      std::uint64_t x = from[i];
      x -= x >> 1 & 0x5555555555555555;
      x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
      x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
      x += x >> 8, x += x >> 16, x += x >> 32;
      to[i] = x & 0x7f;
    }
  });
}

void parity(Address words, Address parities, std::size_t count) {
  parallel_for(count, kWordGrain, [=](std::size_t begin, std::size_t end) {
    const auto* from = at<const std::uint64_t>(words);
    auto* to = at<std::uint64_t>(parities);
    for (std::size_t i = begin; i < end; ++i) {
      std::uint64_t x = from[i];
      x ^= x >> 32, x ^= x >> 16, x ^= x >> 8, x ^= x >> 4, x ^= x >> 2, x ^= x >> 1;
      to[i] = x & 1;
    }
  });
}

}  // namespace

void bind_planes(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("bit_planes", &bit_planes, release());
  module.def("from_bit_planes", &from_bit_planes, release());
  module.def("popcount", &popcount, release());
  module.def("parity", &parity, release());
}

}  // namespace tacit
