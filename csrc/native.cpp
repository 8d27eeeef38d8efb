// The module: what Python sees of the compiled kernels.
#include "native.h"

#include <string>

#include "amx.h"
#include "scratch.h"

// The instructions that the kernels were written for and the compiler may use on this host.
constexpr const char* kFeatures =
    ""
#if defined(__ARM_NEON)
    " NEON"
#endif
#if defined(__ARM_FEATURE_DOTPROD)
    " DotProd"
#endif
#if defined(__AVX2__)
    " AVX2"
#endif
#if defined(__AVX512BW__)
    " AVX-512"
#endif
#if defined(__AVX512VNNI__)
    " VNNI"
#endif
#if defined(__AES__) || defined(__ARM_FEATURE_AES) || defined(__ARM_FEATURE_CRYPTO)
    " AES"
#endif
    ;

NB_MODULE(native, module) {
  nanobind::set_leak_warnings(false);  // a log may be in use when the interpreter ends
  const std::string amx = tacit::amx_permitted() ? " AMX" : "";
  module.attr("features") = (kFeatures + amx).c_str();
  module.def("use_amx", &tacit::use_amx);
  module.def("num_threads", &tacit::num_threads);
  module.def("set_num_threads", &tacit::set_num_threads);
  module.def("keep_scratch", [](std::size_t bytes) { tacit::Scratch::kept_bytes = bytes; });
  tacit::bind_activations(module);
  tacit::bind_call_log(module);
  tacit::bind_conv(module);
  tacit::bind_contraction(module);
  tacit::bind_digest(module);
  tacit::bind_elementwise(module);
  tacit::bind_gates(module);
  tacit::bind_injection(module);
  tacit::bind_matmul(module);
  tacit::bind_ot(module);
  tacit::bind_planes(module);
  tacit::bind_quantisation(module);
  tacit::bind_stream(module);
}
