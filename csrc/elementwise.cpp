// a * b + c in one pass. The other elementwise operations are torch's own: see
// src/tacit/kernels/elementwise.py.
#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kGrain = 1 << 15;

// A plain loop: gcc vectorises the 64-bit product (three 32-bit multiplications) on each host. An
// operand with Step 0 is a single element. T is unsigned, so that overflow wraps, mod 2^k.
template <class T, int StepB, int StepC>
void mul_add(Address a, Address b, Address c, Address out, std::size_t count) {
  parallel_for(count, kGrain, [=](std::size_t begin, std::size_t end) {
    const T *x = at<const T>(a), *y = at<const T>(b), *w = at<const T>(c);
    T* z = at<T>(out);
    for (std::size_t i = begin; i < end; ++i) z[i] = x[i] * y[i * StepB] + w[i * StepC];
  });
}

template <class T>
void mul_add_any(Address a, Address b, bool one_b, Address c, bool one_c, Address out,
                 std::size_t count) {
  if (one_b)
    (one_c ? mul_add<T, 0, 0> : mul_add<T, 0, 1>)(a, b, c, out, count);
  else
    (one_c ? mul_add<T, 1, 0> : mul_add<T, 1, 1>)(a, b, c, out, count);
}

}  // namespace

void bind_elementwise(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("mul_add32", &mul_add_any<std::uint32_t>, release());
  module.def("mul_add64", &mul_add_any<std::uint64_t>, release());
}

}  // namespace tacit
