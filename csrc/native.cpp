// The module: what Python sees of the compiled kernels.
#include "native.h"

NB_MODULE(native, module) {
  module.def("num_threads", &tacit::num_threads);
  module.def("set_num_threads", &tacit::set_num_threads);
  tacit::bind_matmul(module);
  tacit::bind_conv(module);
  tacit::bind_elementwise(module);
  tacit::bind_gates(module);
  tacit::bind_injection(module);
  tacit::bind_planes(module);
  tacit::bind_stream(module);
}
