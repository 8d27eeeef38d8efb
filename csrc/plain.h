// Products without encoding: in blocks of words (csrc/words.h), or with few rows in plain loops,
// whose sums are in registers where AVX-512 multiplies words, and on ARM if columns are contiguous.
#pragma once

#include "gemm.h"
#include "words.h"

namespace tacit {

// Signed sums wrap as unsigned: overflow of signed integers is undefined in C++.
template <class T>
void plain_row(Matrix<const T> a, Matrix<const T> b, T* row, std::size_t n, std::size_t k) {
  using U = std::make_unsigned_t<T>;
  if (b.column_stride == 1 && n > 1) {
    std::fill(row, row + n, 0);
    for (std::size_t l = 0; l < k; ++l) {
      const U x = static_cast<U>(a(0, l));
      const T* y = &b(l, 0);
      for (std::size_t j = 0; j < n; ++j)
        row[j] = static_cast<T>(static_cast<U>(row[j]) + x * static_cast<U>(y[j]));
    }
  } else {
    for (std::size_t j = 0; j < n; ++j) {
      U sum = 0;
      for (std::size_t l = 0; l < k; ++l) sum += static_cast<U>(a(0, l)) * static_cast<U>(b(l, j));
      row[j] = static_cast<T>(sum);
    }
  }
}

#if defined(__AVX512DQ__)

// The first `Rows` rows of c = a b.
template <class T, std::size_t Rows>
struct PlainRows {
  using U = std::make_unsigned_t<T>;
  typedef U Vector __attribute__((vector_size(64)));
  static constexpr std::size_t kLanes = 64 / sizeof(T);
  static constexpr std::size_t kVectors = Rows == 4 ? 4 : 8;  // of columns: 16 registers of sums
  Matrix<const T> a, b;
  Matrix<T> c;
  std::size_t n, k;

  static Vector load(const T* from) {
    Vector value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  // Columns from j on, of lines of b.
  template <std::size_t Vectors>
  void lines(std::size_t j) const {
    Vector sums[Rows][Vectors] = {};
    for (std::size_t l = 0; l < k; ++l)
      for (std::size_t v = 0; v < Vectors; ++v) {
        const Vector y = load(&b(l, j + v * kLanes));
        for (std::size_t i = 0; i < Rows; ++i) sums[i][v] += static_cast<U>(a(i, l)) * y;
      }
    for (std::size_t i = 0; i < Rows; ++i) std::memcpy(&c(i, j), sums[i], sizeof sums[i]);
  }
  // Columns from j on, of b's contiguous columns and a's contiguous rows.
  template <std::size_t Columns>
  void dots(std::size_t j) const {
    Vector sums[Rows][Columns] = {};
    const std::size_t whole = k / kLanes * kLanes;
    for (std::size_t l = 0; l < whole; l += kLanes)
      for (std::size_t v = 0; v < Columns; ++v) {
        const Vector y = load(&b(l, j + v));
        for (std::size_t i = 0; i < Rows; ++i) sums[i][v] += load(&a(i, l)) * y;
      }
    for (std::size_t i = 0; i < Rows; ++i)
      for (std::size_t v = 0; v < Columns; ++v) {
        U sum = 0;
        for (std::size_t lane = 0; lane < kLanes; ++lane) sum += sums[i][v][lane];
        for (std::size_t l = whole; l < k; ++l)
          sum += static_cast<U>(a(i, l)) * static_cast<U>(b(l, j + v));
        c(i, j + v) = static_cast<T>(sum);
      }
  }
  void multiply() const {
    std::size_t j = 0;
    if (b.column_stride == 1 && n >= kLanes) {
      for (; j + kVectors * kLanes <= n; j += kVectors * kLanes) lines<kVectors>(j);
      for (; j < n; j += kLanes) lines<1>(std::min(j, n - kLanes));  // the last ones overlap
    } else if (b.row_stride == 1 && a.column_stride == 1 && k >= 8 * kLanes) {
      for (; j + 4 <= n; j += 4) dots<4>(j);
      for (; j < n; ++j) dots<1>(j);
    } else {
      for (std::size_t i = 0; i < Rows; ++i)
        plain_row<T>({&a(i, 0), a.row_stride, a.column_stride}, b, &c(i, 0), n, k);
    }
  }
};

template <class T>
void plain_rows(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, std::size_t m, std::size_t n,
                std::size_t k) {
  const auto rows = [&]<std::size_t Rows>() {
    PlainRows<T, Rows>{a, b, c, n, k}.multiply();
    a.data += Rows * a.row_stride, c.data += Rows * c.row_stride, m -= Rows;
  };
  while (m >= 4) rows.template operator()<4>();
  if (m >= 2) rows.template operator()<2>();
  if (m >= 1) rows.template operator()<1>();
}

#else

#if defined(__ARM_NEON)

// row[v] = the sum over depths of x times column v of b, which is contiguous, by halves of 32 bits
// (csrc/words.h). A multiplication of 64 bits takes three cycles of a Neoverse N1, this one half.
template <std::size_t Columns>
void dot_words(const std::int64_t* x, Matrix<const std::int64_t> b, std::int64_t* row,
               std::size_t k) {
  const auto load = [](const std::int64_t* from) { return vreinterpretq_u32_s64(vld1q_s64(from)); };
  uint64x2_t low[Columns] = {};
  uint32x4_t cross[Columns] = {};
  const std::size_t whole = k / 4 * 4;
  for (std::size_t l = 0; l < whole; l += 4) {
    const uint32x4_t x0 = load(x + l), x1 = load(x + l + 2), small = vuzp1q_u32(x0, x1);
    const uint32x4_t swapped0 = vrev64q_u32(x0), swapped1 = vrev64q_u32(x1);
    for (std::size_t v = 0; v < Columns; ++v) {
      const uint32x4_t y0 = load(&b(l, v)), y1 = load(&b(l + 2, v)), y = vuzp1q_u32(y0, y1);
      low[v] = vmlal_u32(low[v], vget_low_u32(small), vget_low_u32(y));
      low[v] = vmlal_high_u32(low[v], small, y);
      cross[v] = vmlaq_u32(cross[v], swapped0, y0);
      cross[v] = vmlaq_u32(cross[v], swapped1, y1);
    }
  }
  for (std::size_t v = 0; v < Columns; ++v) {
    std::uint64_t sum = vaddvq_u64(low[v]) + (std::uint64_t{vaddvq_u32(cross[v])} << 32);
    for (std::size_t l = whole; l < k; ++l)
      sum += static_cast<std::uint64_t>(x[l]) * static_cast<std::uint64_t>(b(l, v));
    row[v] = static_cast<std::int64_t>(sum);
  }
}

#endif

template <class T>
void plain_rows(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, std::size_t m, std::size_t n,
                std::size_t k) {
  for (std::size_t i = 0; i < m; ++i) {
    std::size_t j = 0;
#if defined(__ARM_NEON)
    if constexpr (sizeof(T) == 8) {
      const bool are_contiguous = b.row_stride == 1 && a.column_stride == 1;
      for (; are_contiguous && j + 4 <= n; j += 4)
        dot_words<4>(&a(i, 0), {&b(0, j), b.row_stride, b.column_stride}, &c(i, j), k);
    }
#endif
    if (j < n)
      plain_row<T>({&a(i, 0), a.row_stride, a.column_stride},
                   {&b(0, j), b.row_stride, b.column_stride}, &c(i, j), n - j, k);
  }
}

#endif

template <class T>
void word_product(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, std::size_t m, std::size_t n,
                  std::size_t k) {
  using U = std::make_unsigned_t<T>;
  word_product<T>(
      m, n, k, [&](std::size_t i, std::size_t l) { return a(i, l); },
      [&](std::size_t l, std::size_t j, std::size_t count, T* line) -> const T* {
        if (b.column_stride == 1) return &b(l, j);
        for (std::size_t i = 0; i < count; ++i) line[i] = b(l, j + i);
        return line;
      },
      [&](std::size_t i, std::size_t j, std::size_t count, const T* values, bool accumulate) {
        T* to = &c(i, j);
        for (std::size_t x = 0; x < count; ++x)
          to[x] =
              static_cast<T>((accumulate ? static_cast<U>(to[x]) : 0) + static_cast<U>(values[x]));
      });
}

template <class T>
void multiply_plain(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, std::size_t m, std::size_t n,
                    std::size_t k) {
#if defined(__AVX512DQ__)
  const bool in_lines = b.column_stride == 1;  // else dot products of columns are as fast
#else
  constexpr bool in_lines = true;
#endif
  if (in_lines && words_pay<T>(m, n, k)) return word_product(a, b, c, m, n, k);
  const std::size_t grain = round_up(std::max<std::size_t>(1, 65536 / (n * k + 1)), 4);
  parallel_for(m, grain, [&](std::size_t begin, std::size_t end) {
    plain_rows<T>({&a(begin, 0), a.row_stride, a.column_stride}, b,
                  {&c(begin, 0), c.row_stride, c.column_stride}, end - begin, n, k);
  });
}

}  // namespace tacit
