// Exact matrix products mod 2^32 and 2^64: in plain loops, or by byte products of encoded operands
// (csrc/residues.h), whichever the estimated times favour.
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>

#include <cmath>

#include "plain.h"

namespace tacit {

// Defined here because products use it most: the compiler sees its address and omits a call.
thread_local Scratch::Slot Scratch::slots_[static_cast<int>(Use::count)];

namespace {

// Signed sums wrap as unsigned: overflow of signed integers is undefined in C++.
template <class T>
void write(const Block<T>& block, Matrix<T> c, bool accumulate) {
  using U = std::make_unsigned_t<T>;
  for (std::size_t i = 0; i < block.num_rows; ++i) {
    const T* from = block.values + i * kColumns;
    T* to = &c(block.first_row + i, block.first_column);
    for (std::size_t j = 0; j < block.num_columns; ++j)
      to[j] =
          accumulate ? static_cast<T>(static_cast<U>(to[j]) + static_cast<U>(from[j])) : from[j];
  }
}

// Outer blocks bound the encoded copies: planes x (1024 x 2048 + 2048 x 2048) bytes. Parts of the
// inner dimension are added mod 2^k.
constexpr std::size_t kOuterRows = 1024, kOuterColumns = 2048, kOuterDepth = 2048;

template <class S>
void multiply_encoded(Matrix<const typename S::Word> a, Matrix<const typename S::Word> b,
                      Matrix<typename S::Word> c, std::size_t m, std::size_t n, std::size_t k,
                      Prepared prepared) {
  const std::size_t chunk = std::min({k, part_depth<S>(kColumnBlock), kOuterDepth});
  for (std::size_t k0 = 0; k0 < k; k0 += chunk) {
    const std::size_t kn = std::min(chunk, k - k0);
    for (std::size_t j0 = 0; j0 < n; j0 += kOuterColumns) {
      const std::size_t nn = std::min(kOuterColumns, n - j0);
      const std::size_t size = EncodedPanels<S>::size(kn, nn);
      const Scratch panel_bytes(Use::panels, prepared.spare(size));
      const Matrix<const typename S::Word> right{&b(k0, j0), b.row_stride, b.column_stride};
      const EncodedPanels<S> panels(right, kn, nn, prepared.take(panel_bytes, size),
                                    prepared.filled);
      for (std::size_t i0 = 0; i0 < m; i0 += kOuterRows) {
        const std::size_t mn = std::min(kOuterRows, m - i0);
        const Scratch row_bytes(Use::rows, EncodedRows<S>::size(mn, kn));
        const EncodedRows<S> rows({&a(i0, k0), a.row_stride, a.column_stride}, mn, kn,
                                  row_bytes.data());
        multiply(
            mn, [&]() -> const EncodedRows<S>& { return rows; }, panels,
            [&](const Block<typename S::Word>& block) {
              write(block, {&c(i0, j0), c.row_stride, 1}, k0 > 0);
            });
      }
    }
  }
}

// How many bytes `multiply_encoded` keeps of its right operand.
template <class S>
std::size_t encoded_bytes(std::size_t n, std::size_t k) {
  const std::size_t chunk = std::min({k, part_depth<S>(kColumnBlock), kOuterDepth});
  std::size_t bytes = 0;
  for (std::size_t k0 = 0; k0 < k; k0 += chunk)
    for (std::size_t j0 = 0; j0 < n; j0 += kOuterColumns)
      bytes += EncodedPanels<S>::size(std::min(chunk, k - k0), std::min(kOuterColumns, n - j0));
  return bytes;
}

// Whether encoded operands are faster; a prepared right operand is only read.
template <class T>
bool encoding_pays(std::size_t m, std::size_t n, std::size_t k, bool prepared) {
  const auto rows = static_cast<double>(m), depth = static_cast<double>(round_up(k, kDepthStep));
  const auto columns = static_cast<double>(round_up(n, kColumns));
  const auto multiplied = static_cast<double>(multiplied_rows(m));
  const auto elements = static_cast<double>(n * k);  // of the right operand
  const double encoded =
      multiplied * columns * Cost<T>::product() * depth +
      rows * (columns * Cost<T>::combine + depth * Cost<T>::encode) +
      elements * (prepared ? Cost<T>::read(elements, EncodingOf<T>::planes) : Cost<T>::encode);
  const double plain = words_pay<T>(m, n, k) ? Cost<T>::word : Cost<T>::plain;
  const double passes = std::ceil(rows / 4);  // over the right operand
  return encoded + Cost<T>::overhead <
         elements * (rows * plain + passes * Cost<T>::read(elements, sizeof(T)));
}

template <class T>
void matmul(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, std::size_t m, std::size_t n,
            std::size_t k, Method method, Prepared prepared) {
  using S = EncodingOf<T>;
  if (method == Method::encoded || (method == Method::choose && encoding_pays<T>(m, n, k, false)))
    multiply_encoded<S>(a, b, c, m, n, k, prepared);
  else
    multiply_plain(a, b, c, m, n, k);
}

using Strides = std::array<std::ptrdiff_t, 3>;  // of batch, row, column

template <class T>
void batched(Address a, Strides sa, Address b, Strides sb, Address c, std::size_t batch,
             std::array<std::size_t, 3> mnk, int method, Address prepared, bool filled) {
  const auto [m, n, k] = mnk;
  parallel_for(batch, std::max<std::size_t>(1, 100000 / (m * n * k + 1)),
               [&](std::size_t begin, std::size_t end) {
                 for (auto i = static_cast<std::ptrdiff_t>(begin);
                      i < static_cast<std::ptrdiff_t>(end); ++i)
                   matmul<T>({at<const T>(a) + i * sa[0], sa[1], sa[2]},
                             {at<const T>(b) + i * sb[0], sb[1], sb[2]},
                             {at<T>(c) + i * static_cast<std::ptrdiff_t>(m * n),
                              static_cast<std::ptrdiff_t>(n), 1},
                             m, n, k, static_cast<Method>(method),
                             Prepared{at<std::int8_t>(prepared), filled});
               });
}

// The fastest method for a right operand that is prepared beforehand, and how many bytes it keeps.
template <class T>
std::pair<int, std::size_t> plan(std::array<std::size_t, 3> mnk, int method) {
  const auto [m, n, k] = mnk;
  auto chosen = static_cast<Method>(method);
  if (chosen == Method::choose)
    chosen = encoding_pays<T>(m, n, k, true) ? Method::encoded : Method::plain;
  return {static_cast<int>(chosen),
          chosen == Method::encoded ? encoded_bytes<EncodingOf<T>>(n, k) : 0};
}

}  // namespace

void bind_matmul(nb::module_& module) {
  module.def("matmul32", &batched<std::int32_t>, nb::call_guard<nb::gil_scoped_release>());
  module.def("matmul64", &batched<std::int64_t>, nb::call_guard<nb::gil_scoped_release>());
  module.def("matmul_plan32", &plan<std::int32_t>);
  module.def("matmul_plan64", &plan<std::int64_t>);
}

}  // namespace tacit
