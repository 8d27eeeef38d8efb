// Weighted sums of small integers along an axis, exact in 64 bits: the passes over memory of a
// check of products (src/tacit/enclave/trusted/freivalds.py).
//
//   out[l, o, i] = sum over n of limb[l, n] x[o, n, i]
//
// A limb is below 2^15, and x has 8 or 32 bits, so that 2^16 rows n stay below 2^62. Sums of 8-bit
// numbers are kept in 32 bits for 2^8 rows at a time: 2^15 2^7 2^8 = 2^30.
#include <algorithm>

#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kLimbs = 3;
constexpr std::size_t kBlock = 512;  // positions i whose sums stay in the first cache

template <class T>
struct Sums;
template <>
struct Sums<std::int8_t> {
  using Factor = std::int16_t;  // so that products are 16 by 16 bits
  using Sum = std::int32_t;
  static constexpr std::size_t rows = 1 << 8;
};
template <>
struct Sums<std::int32_t> {
  using Factor = std::int32_t;
  using Sum = std::int64_t;
  static constexpr std::size_t rows = 1 << 16;
};

// Adds the products of four rows at a time, which saves three of four passes over the sums.
template <class T>
void add_rows(const T* x, std::size_t stride, const std::int32_t* limb, std::size_t rows,
              std::size_t count, typename Sums<T>::Sum* sums) {
  using Factor = typename Sums<T>::Factor;
  using Sum = typename Sums<T>::Sum;
  std::size_t n = 0;
  for (; n + 4 <= rows; n += 4) {
    const T *a = x + n * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    const Factor p = limb[n], q = limb[n + 1], r = limb[n + 2], s = limb[n + 3];
    for (std::size_t i = 0; i < count; ++i)
      sums[i] += Sum{p} * Factor{a[i]} + Sum{q} * Factor{b[i]} + Sum{r} * Factor{c[i]} +
                 Sum{s} * Factor{d[i]};
  }
  for (; n < rows; ++n)
    for (std::size_t i = 0; i < count; ++i)
      sums[i] += Sum{static_cast<Factor>(limb[n])} * Factor{x[n * stride + i]};
}

// One block of positions: all rows, all limbs.
template <class T>
void contract_block(const T* x, std::size_t inner, const std::int32_t* limbs, std::size_t rows,
                    std::size_t count, std::int64_t* out, std::size_t out_stride) {
  constexpr std::size_t most = Sums<T>::rows;
  typename Sums<T>::Sum sums[kLimbs][kBlock];
  for (std::size_t n = 0; n < rows; n += most) {
    const std::size_t some = std::min(most, rows - n);
    for (std::size_t l = 0; l < kLimbs; ++l) {
      std::fill_n(sums[l], count, 0);
      add_rows<T>(x + n * inner, inner, limbs + l * rows + n, some, count, sums[l]);
      for (std::size_t i = 0; i < count; ++i)
        out[l * out_stride + i] = (n == 0 ? 0 : out[l * out_stride + i]) + sums[l][i];
    }
  }
}

// Rows of one element, one after the other: a scalar product for each limb.
template <class T>
void contract_line(const T* x, const std::int32_t* limbs, std::size_t rows, std::int64_t* out,
                   std::size_t out_stride) {
  using Factor = typename Sums<T>::Factor;
  using Sum = typename Sums<T>::Sum;
  constexpr std::size_t most = Sums<T>::rows;
  for (std::size_t l = 0; l < kLimbs; ++l) {
    std::int64_t total = 0;
    for (std::size_t n = 0; n < rows; n += most) {
      const std::size_t end = std::min(rows, n + most);
      Sum sum = 0;
      for (std::size_t i = n; i < end; ++i)
        sum += Sum{static_cast<Factor>(limbs[l * rows + i])} * Factor{x[i]};
      total += sum;
    }
    out[l * out_stride] = total;
  }
}

template <class T>
void contract(Address x, Address limbs, std::size_t outer, std::size_t rows, std::size_t inner,
              Address out) {
  const T* from = at<const T>(x);
  const std::int32_t* factors = at<const std::int32_t>(limbs);
  std::int64_t* to = at<std::int64_t>(out);
  const std::size_t blocks = (inner + kBlock - 1) / kBlock, out_stride = outer * inner;
  const std::size_t work = rows * std::min(inner, kBlock);  // of one block
  const std::size_t grain = std::max<std::size_t>(1, (1 << 16) / work);
  parallel_for(outer * blocks, grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k) {
      const std::size_t o = k / blocks, i = k % blocks * kBlock;
      const T* start = from + o * rows * inner + i;
      if (inner == 1)
        contract_line<T>(start, factors, rows, to + o, out_stride);
      else
        contract_block<T>(start, inner, factors, rows, std::min(kBlock, inner - i),
                          to + o * inner + i, out_stride);
    }
  });
}

constexpr unsigned kPrimeBits = 61;
constexpr std::int64_t kPrime = (std::int64_t{1} << kPrimeBits) - 1;

// x mod 2^61 - 1, in [0, 2^61 - 1), for any x: 2^61 is 1, and x >> 61 is between -4 and 3.
inline std::int64_t reduced(std::int64_t x) {
  x = (x & kPrime) + (x >> kPrimeBits);
  x += x < 0 ? kPrime : 0;
  return x - (x >= kPrime ? kPrime : 0);
}

// out[i] = sum over l of 2^(bits l) limb[l, i], mod 2^61 - 1. A product with a power of two is a
// rotation of 61 bits; the sum of three is below 2^63.
void join_limbs(Address limbs, unsigned bits, std::size_t count, Address out) {
  const std::int64_t* from = at<const std::int64_t>(limbs);
  std::int64_t* to = at<std::int64_t>(out);
  parallel_for(count, 1 << 14, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::int64_t total = 0;
      for (unsigned l = 0; l < kLimbs; ++l) {
        const auto x = static_cast<std::uint64_t>(reduced(from[l * count + i]));
        const unsigned shift = bits * l;
        total += static_cast<std::int64_t>((x << shift & kPrime) + (x >> (kPrimeBits - shift)));
      }
      to[i] = reduced(total);
    }
  });
}

}  // namespace

void bind_contraction(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("contract8", &contract<std::int8_t>, release());
  module.def("contract32", &contract<std::int32_t>, release());
  module.def("join_limbs", &join_limbs, release());
}

}  // namespace tacit
