// Bits into the ring and exact truncation, in one pass over memory that expands packed bits. The
// equations are in src/tacit/kernels/injection.py.
//
// A bit b is spread to m = -b, all ones or 0: (1 - 2 b) z = (z ^ m) - m, b z = z & m, b = -m. Of
// the truncation, (c mod 2^(k-1)) >> t plus c_top 2^(k-1-t) is the logical shift of c, and the
// quotient low - top 2^(k-1-t) of w the arithmetic shift of w. All sums wrap: they are those of the
// ring.
#include <nanobind/stl/array.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kGrain = 512;  // words of bits, 64 elements each

template <std::size_t N>
using Addresses = std::array<Address, N>;

template <class T>
constexpr int kBits = 8 * sizeof(T);

template <class T>
constexpr auto kPlaces = [] {  // 1, 2, 4, ...: the places of bits in a part
  std::array<T, kBits<T>> places{};
  for (int i = 0; i < kBits<T>; ++i) places[i] = T{1} << i;
  return places;
}();

// Calls body(part, i, n) for every kBits elements: they begin at i, are n, and their bits are part
// number `part` of the packed words.
template <class T, class Body>
void for_parts(std::size_t count, const Body& body) {
  parallel_for((count + kBits<T> - 1) / kBits<T>, kGrain * 64 / kBits<T>,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t part = begin; part < end; ++part)
                   body(part, part * kBits<T>,
                        std::min<std::size_t>(kBits<T>, count - part * kBits<T>));
               });
}

// The bits of part number `part`: half a word for elements of 32 bits, on a little-endian host.
template <class T>
T part_of(Address bits, std::size_t part) {
  return at<const T>(bits)[part];
}

// -1 (all ones) if bit j is set, else 0.
template <class T>
inline __attribute__((always_inline)) T spread(T bits, int j) {
  return static_cast<T>(-static_cast<T>((bits & kPlaces<T>[j]) != 0));
}

// Calls body(j) for 0 <= j < n. n is nearly always kBits, and then the loop has a constant length.
// A body reads and writes element j only, so that the calls are independent even if tensors share
// memory: `ivdep` tells the compiler.
template <class T, class Body>
inline __attribute__((always_inline)) void each(std::size_t n, const Body& body) {
  if (n == kBits<T>) {
#pragma GCC ivdep
    for (int j = 0; j < kBits<T>; ++j) body(j);
  } else {
    for (int j = 0; j < static_cast<int>(n); ++j) body(j);
  }
}

// a: bits b, out, opened, and shares flip of y, product of y mask, own of mask. Adds
// (1 - 2 b) (opened flip + product) + b own, and b opened if First.
// Products are made in a loop of their own, because not every host has vectors of 64-bit products;
// the other loop is vectorised everywhere.
template <class T, bool First>
void inject_share(const Addresses<6>& a, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T b = part_of<T>(a[0], part);
    T* out = at<T>(a[1]) + i;
    const T *opened = at<const T>(a[2]) + i, *flip = at<const T>(a[3]) + i,
            *product = at<const T>(a[4]) + i, *own = at<const T>(a[5]) + i;
    T products[kBits<T>];
    each<T>(n, [=, &products](int j)
                   __attribute__((always_inline)) { products[j] = opened[j] * flip[j]; });
    each<T>(n, [=, &products](int j) __attribute__((always_inline)) {
      const T m = spread(b, j), z = products[j] + product[j];
      const T kept = First ? own[j] + opened[j] : own[j];
      out[j] += (z ^ m) - m + (kept & m);
    });
  });
}

// a: bits b, out, a share flip of y. Adds (1 - 2 b) flip, and b = -m if First.
template <class T, bool First>
void flip_share(const Addresses<3>& a, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T b = part_of<T>(a[0], part);
    T* out = at<T>(a[1]) + i;
    const T* flip = at<const T>(a[2]) + i;
    each<T>(n, [=](int j) __attribute__((always_inline)) {
      const T m = spread(b, j);
      const T flipped = (flip[j] ^ m) - m;
      out[j] += First ? flipped - m : flipped;
    });
  });
}

// a: bits y, pad. pad = y - pad.
template <class T>
void deal_flip(const Addresses<2>& a, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T y = part_of<T>(a[0], part);
    T* pad = at<T>(a[1]) + i;
    each<T>(n, [=](int j) __attribute__((always_inline)) { pad[j] = -spread(y, j) - pad[j]; });
  });
}

// a: bits y, pad_flip, pad_product, mask. The pads become y - pad_flip and y mask - pad_product.
template <class T>
void deal_injection(const Addresses<4>& a, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T y = part_of<T>(a[0], part);
    T *pad_flip = at<T>(a[1]) + i, *pad_product = at<T>(a[2]) + i;
    const T* mask = at<const T>(a[3]) + i;
    each<T>(n, [=](int j) __attribute__((always_inline)) {
      const T m = spread(y, j);
      pad_flip[j] = -m - pad_flip[j];
      pad_product[j] = (mask[j] & m) - pad_product[j];
    });
  });
}

// The public part of a truncation by t: c = opened + 2^(k-2), a = A = (c >> t) - 2^(k-2-t), top =
// -1 if the top bit of c is set, else 0. times_b(x) is B x = (1 - 2 c_top) 2^(k-1-t) x.
template <class T>
struct PublicPart {
  T a, top;
  inline __attribute__((always_inline)) PublicPart(T opened, int t) {
    const T c = opened + (T{1} << (kBits<T> - 2));
    a = static_cast<T>(c >> t) - (T{1} << (kBits<T> - 2 - t));
    top = static_cast<T>(static_cast<std::make_signed_t<T>>(c) >> (kBits<T> - 1));
  }
  inline __attribute__((always_inline)) T times_b(T x, int t) const {
    return ((x << (kBits<T> - 1 - t)) ^ top) - top;
  }
};

// a: out, opened, shares of the quotient low - top 2^(k-1-t) and of top. Adds -quotient - c_top top
// 2^(k-t), and A if First: a share of A - low + B top.
template <class T, bool First>
void exact_share(const Addresses<4>& a, int t, std::size_t count) {
  for_parts<T>(count, [&](std::size_t, std::size_t i, std::size_t n) {
    T* out = at<T>(a[0]) + i;
    const T *opened = at<const T>(a[1]) + i, *quotient = at<const T>(a[2]) + i,
            *top = at<const T>(a[3]) + i;
    each<T>(n, [=](int j) __attribute__((always_inline)) {
      const PublicPart<T> known(opened[j], t);
      const T wrapped = (top[j] & known.top) << (kBits<T> - t);
      out[j] += (First ? known.a : T{0}) - quotient[j] - wrapped;
    });
  });
}

template <class T>
inline __attribute__((always_inline)) T shift_signed(T x, int t) {
  return static_cast<T>(static_cast<std::make_signed_t<T>>(x) >> t);
}

template <class T>
constexpr T kWithoutTop = static_cast<T>(-1) >> 1;

// a: mask, quotient, packed top bits, the last two written; w = -mask.
template <class T>
void deal_exact(const Addresses<3>& a, int t, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T* mask = at<const T>(a[0]) + i;
    T* quotient = at<T>(a[1]) + i;
    T tops = 0;
    each<T>(n, [=, &tops](int j) __attribute__((always_inline)) {
      const T w = -mask[j];
      quotient[j] = shift_signed(w, t);
      tops |= shift_signed(w, kBits<T> - 1) & kPlaces<T>[j];
    });
    at<T>(a[2])[part] = tops;
  });
}

// a: bits b, out, opened, and shares flip of y, flip_low of y low, low, top, flip_top of y top.
// Adds (1 - 2 b) (A flip - flip_low + B flip_top) + b (B top - low), and b A if First.
template <class T, bool First>
void inject_exact_share(const Addresses<8>& a, int t, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T b = part_of<T>(a[0], part);
    T* out = at<T>(a[1]) + i;
    const T *opened = at<const T>(a[2]) + i, *flip = at<const T>(a[3]) + i,
            *flip_low = at<const T>(a[4]) + i, *low = at<const T>(a[5]) + i,
            *top = at<const T>(a[6]) + i, *flip_top = at<const T>(a[7]) + i;
    T products[kBits<T>];
    each<T>(n, [=, &products](int j) __attribute__((always_inline)) {
      products[j] = PublicPart<T>(opened[j], t).a * flip[j];
    });
    each<T>(n, [=, &products](int j) __attribute__((always_inline)) {
      const PublicPart<T> known(opened[j], t);
      const T m = spread(b, j);
      const T z = products[j] - flip_low[j] + known.times_b(flip_top[j], t);
      const T kept = known.times_b(top[j], t) - low[j] + (First ? known.a : T{0});
      out[j] += (z ^ m) - m + (kept & m);
    });
  });
}

// a: bits y, mask, and written: low, y low, packed top bits, y AND them; w = -mask.
template <class T>
void deal_inject_exact(const Addresses<6>& a, int t, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T y = part_of<T>(a[0], part);
    const T* mask = at<const T>(a[1]) + i;
    T *low = at<T>(a[2]) + i, *flip_low = at<T>(a[3]) + i;
    T tops = 0;
    each<T>(n, [=, &tops](int j) __attribute__((always_inline)) {
      const T w = -mask[j], value = static_cast<T>((w & kWithoutTop<T>) >> t);
      low[j] = value;
      flip_low[j] = value & spread(y, j);
      tops |= shift_signed(w, kBits<T> - 1) & kPlaces<T>[j];
    });
    at<T>(a[4])[part] = tops;
    at<T>(a[5])[part] = tops & y;
  });
}

// a: bits y, mask, and the pads of y, y low, low, top and y top, from each of which its value minus
// the pad is made; w = -mask.
template <class T>
void correct_inject_exact(const Addresses<7>& a, int t, std::size_t count) {
  for_parts<T>(count, [&](std::size_t part, std::size_t i, std::size_t n) {
    const T y = part_of<T>(a[0], part);
    const T* mask = at<const T>(a[1]) + i;
    T *flip = at<T>(a[2]) + i, *flip_low = at<T>(a[3]) + i, *low = at<T>(a[4]) + i,
      *top = at<T>(a[5]) + i, *flip_top = at<T>(a[6]) + i;
    each<T>(n, [=](int j) __attribute__((always_inline)) {
      const T m = spread(y, j), w = -mask[j];
      const T value = static_cast<T>((w & kWithoutTop<T>) >> t), one = w >> (kBits<T> - 1);
      flip[j] = -m - flip[j];
      flip_low[j] = (value & m) - flip_low[j];
      low[j] = value - low[j];
      top[j] = one - top[j];
      flip_top[j] = (one & m) - flip_top[j];
    });
  });
}

// With 32-bit elements and an odd number of parts, the second half of the last word has no part: it
// is cleared.
template <class T, std::size_t N>
void clear_rest(const Addresses<N>& outputs, std::size_t count) {
  const std::size_t parts = (count + kBits<T> - 1) / kBits<T>;
  if constexpr (sizeof(T) == 4)
    if (parts % 2 != 0)
      for (Address words : outputs) at<T>(words)[parts] = 0;
}

template <class T>
void bind_ring(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  const auto name = [](const char* function) {
    return std::string(function) + std::to_string(kBits<T>);
  };
  module.def(
      name("inject_share").c_str(),
      [](const Addresses<6>& a, bool first, std::size_t count) {
        (first ? inject_share<T, true> : inject_share<T, false>)(a, count);
      },
      release());
  module.def(
      name("flip_share").c_str(),
      [](const Addresses<3>& a, bool first, std::size_t count) {
        (first ? flip_share<T, true> : flip_share<T, false>)(a, count);
      },
      release());
  module.def(name("deal_flip").c_str(), &deal_flip<T>, release());
  module.def(name("deal_injection").c_str(), &deal_injection<T>, release());
  module.def(
      name("exact_share").c_str(),
      [](const Addresses<4>& a, int t, bool first, std::size_t count) {
        (first ? exact_share<T, true> : exact_share<T, false>)(a, t, count);
      },
      release());
  module.def(
      name("deal_exact").c_str(),
      [](const Addresses<3>& a, int t, std::size_t count) {
        deal_exact<T>(a, t, count);
        clear_rest<T, 1>({a[2]}, count);
      },
      release());
  module.def(
      name("inject_exact_share").c_str(),
      [](const Addresses<8>& a, int t, bool first, std::size_t count) {
        (first ? inject_exact_share<T, true> : inject_exact_share<T, false>)(a, t, count);
      },
      release());
  module.def(name("correct_inject_exact").c_str(), &correct_inject_exact<T>, release());
  module.def(
      name("deal_inject_exact").c_str(),
      [](const Addresses<6>& a, int t, std::size_t count) {
        deal_inject_exact<T>(a, t, count);
        clear_rest<T, 2>({a[4], a[5]}, count);
      },
      release());
}

}  // namespace

void bind_injection(nb::module_& module) {
  bind_ring<std::uint32_t>(module);
  bind_ring<std::uint64_t>(module);
}

}  // namespace tacit
