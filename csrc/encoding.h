// What encodings (csrc/residues.h, csrc/digits.h) share.
#pragma once

#include "dot.h"

#if defined(__AVX512VNNI__)
#include "avx512.h"
#endif

namespace tacit {

// Elements are encoded kBlock at a time, as many as a run of a row has.
constexpr std::size_t kBlock = kDepthStep;
using BlockBytes = std::int8_t __attribute__((vector_size(kBlock)));
// Which operand: rows and weights have signed (centred) bytes; a panel has unsigned ones on x86-64.
// Residues of panels and weights are multiplied by the inverses of the Chinese remainder.
enum class Side { rows, panel, weights };

}  // namespace tacit
