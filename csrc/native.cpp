// The module: what Python sees of the compiled kernels. Its name ends with that of its level.
#include "native.h"

#include <string>

#include "aes.h"
#include "amx.h"
#include "scratch.h"

// The instructions that the kernels were written for and the compiler may use at this level.
constexpr const char* kFeatures =
    ""
#if defined(__ARM_NEON)
    " NEON"
#endif
#if defined(__ARM_FEATURE_DOTPROD)
    " DotProd"
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
    " I8MM"
#endif
#if defined(__SSE4_2__) && !defined(__AVX2__)
    " SSE4.2"
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

NB_MODULE(TACIT_MODULE, module) {
  nanobind::set_leak_warnings(false);  // a log may be in use when the interpreter ends
  std::string features = kFeatures;
  if (tacit::has_vaes()) features += " VAES";
  if (tacit::amx_used()) features += " AMX";
  module.attr("features") = features.c_str();
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
  tacit::bind_waves(module);
}
