// What the compiled kernels share: the binding hooks and the thread pool.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tacit {

namespace nb = nanobind;

// Pointers arrive as integers (torch's data_ptr); the Python wrappers have checked device, dtype,
// contiguity and size. Every bound function releases the GIL.
using Address = std::uintptr_t;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// Calls body(begin, end) over disjoint ranges that cover [0, count), each a multiple of `grain`
// long except the last, on up to num_threads() threads including the caller's. Returns when all
// are done. Safe to call from several threads at once.
void parallel_for(std::size_t count, std::size_t grain,
                  const std::function<void(std::size_t, std::size_t)>& body);
int num_threads();
void set_num_threads(int count);

void bind_matmul(nb::module_& module);
void bind_conv(nb::module_& module);
void bind_elementwise(nb::module_& module);
void bind_gates(nb::module_& module);
void bind_injection(nb::module_& module);
void bind_planes(nb::module_& module);
void bind_stream(nb::module_& module);

}  // namespace tacit
