// Products of ring elements. Addition, negation and shifts are torch's own: see
// src/tacit/kernels/elementwise.py.
#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kGrain = 1 << 15;

template <class T>
void mul(Address a, Address b, Address out, std::size_t count) {
  parallel_for(count, kGrain, [=](std::size_t begin, std::size_t end) {
    const T *x = at<const T>(a), *y = at<const T>(b);
    T* z = at<T>(out);
    for (std::size_t i = begin; i < end; ++i) z[i] = x[i] * y[i];
  });
}

template <class T>
void mul_add(Address a, Address b, Address c, Address out, std::size_t count) {
  parallel_for(count, kGrain, [=](std::size_t begin, std::size_t end) {
    const T *x = at<const T>(a), *y = at<const T>(b), *w = at<const T>(c);
    T* z = at<T>(out);
    for (std::size_t i = begin; i < end; ++i) z[i] = x[i] * y[i] + w[i];
  });
}

}  // namespace

void bind_elementwise(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("mul64", &mul<std::uint64_t>, release());
  module.def("mul_add64", &mul_add<std::uint64_t>, release());
  module.def("mul_add32", &mul_add<std::uint32_t>, release());
}

}  // namespace tacit
