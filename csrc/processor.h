// The levels of the compiled kernels, and which of them this processor runs. A level is a build of
// all kernels with the instructions that some processors have: CMakeLists.txt says which. This file
// is compiled for every processor of the architecture.
#pragma once

#include <vector>

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#ifndef HWCAP2_I8MM
#define HWCAP2_I8MM (1 << 13)
#endif
#endif

namespace tacit {

#if defined(__x86_64__)
// Whether the processor has AMX and the system lets this process use its tiles, which it must ask
// for once: signal handlers need larger stacks then.
inline bool amx_permitted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  static const bool permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return permitted;
}
#else
inline bool amx_permitted() { return false; }
#endif

struct Level {
  const char* name;
  bool runs;  // on this processor
};

// From the slowest to the fastest.
inline std::vector<Level> levels() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#define TACIT_HAS(name) (__builtin_cpu_supports(name) != 0)
  const bool sse4 = TACIT_HAS("ssse3") && TACIT_HAS("sse4.2") && TACIT_HAS("popcnt");
  const bool avx2 = sse4 && TACIT_HAS("avx2") && TACIT_HAS("bmi") && TACIT_HAS("bmi2") &&
                    TACIT_HAS("fma") && TACIT_HAS("aes");
  const bool avx512 = avx2 && TACIT_HAS("avx512f") && TACIT_HAS("avx512bw") &&
                      TACIT_HAS("avx512cd") && TACIT_HAS("avx512dq") && TACIT_HAS("avx512vl");
  const bool vnni = avx512 && TACIT_HAS("avx512vnni");
#undef TACIT_HAS
  return {{"sse4", sse4},
          {"avx2", avx2},
          {"avx512", avx512},
          {"vnni", vnni},
          {"amx", vnni && amx_permitted()}};
#elif defined(__aarch64__)
  constexpr unsigned long needed = HWCAP_ASIMDDP | HWCAP_AES | HWCAP_PMULL | HWCAP_SHA1 |
                                   HWCAP_SHA2 | HWCAP_CRC32 | HWCAP_ATOMICS | HWCAP_ASIMDRDM;
  const bool dotprod = (getauxval(AT_HWCAP) & needed) == needed;
  const bool i8mm = dotprod && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  return {{"neon", true}, {"dotprod", dotprod}, {"i8mm", i8mm}};
#else
  return {{"plain", true}};
#endif
}

}  // namespace tacit
