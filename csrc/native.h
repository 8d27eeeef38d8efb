// What the compiled kernels share: addresses, threads, and a function a file that binds its
// kernels.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tacit {

namespace nb = nanobind;

// Pointers arrive as integers (torch's data_ptr). The Python wrappers have checked device, dtype,
// contiguity and size. Bound functions release the GIL, except those that plan or read objects.
using Address = std::uintptr_t;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// Calls body(begin, end) for disjoint ranges that cover [0, count), on up to num_threads() threads,
// the caller's among them. Every `begin` is a multiple of `grain`. Returns when all ranges are
// done, and rethrows the first exception. Several threads may call it at once, and body may call
// it.
void parallel_for(std::size_t count, std::size_t grain,
                  const std::function<void(std::size_t, std::size_t)>& body);
int num_threads();
void set_num_threads(int count);

void bind_activations(nb::module_& module);
void bind_matmul(nb::module_& module);
void bind_conv(nb::module_& module);
void bind_contraction(nb::module_& module);
void bind_digest(nb::module_& module);
void bind_elementwise(nb::module_& module);
void bind_call_log(nb::module_& module);
void bind_gates(nb::module_& module);
void bind_injection(nb::module_& module);
void bind_ot(nb::module_& module);
void bind_planes(nb::module_& module);
void bind_quantisation(nb::module_& module);
void bind_stream(nb::module_& module);
void bind_waves(nb::module_& module);

}  // namespace tacit
