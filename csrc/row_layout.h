// The sizes of product blocks, and how the operands' bytes lie (see csrc/dot.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tacit {

// kPanelRun depths of a column are neighbours in a panel: as many as an instruction adds up.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr std::size_t kPanelRun = 8;
#else
constexpr std::size_t kPanelRun = 4;
#endif

// Depths are padded with zeros to a multiple of kDepthStep. kGroups groups of kRows rows are
// multiplied at a time.
#if defined(__AVX512VNNI__)
constexpr std::size_t kRows = 16, kColumns = 32, kDepthStep = 64, kGroups = 2;
constexpr bool kUnsignedPanel = true;
#else
constexpr std::size_t kRows = 8, kColumns = 8, kDepthStep = 16, kGroups = 1;
constexpr bool kUnsignedPanel = false;
#endif

// Distances in bytes: from a row to the next, from a run of kDepthStep depths to the next, and from
// a group of kRows rows to the next. Packed rows are interleaved by runs, as they are read; plain
// rows are contiguous, as convolutions gather them.
// Runs that are anywhere, as those of an image under a kernel, have a table of their own.
struct RowLayout {
  std::size_t row, step, group;
  const std::size_t* runs = nullptr;
  static constexpr RowLayout packed(std::size_t depth) {
    return {kDepthStep, kRows * kDepthStep, kRows * depth};
  }
  static constexpr RowLayout plain(std::size_t depth) { return {depth, kDepthStep, kRows * depth}; }
  // From the first run of a row to the one of these depths. Tables are for x86-64 only.
  std::size_t run(std::size_t depth) const {
    return runs ? runs[depth / kDepthStep] : depth / kDepthStep * step;
  }
};

// Memory that is read after a plane's block of rows and panels, and prefetched while its pieces are
// multiplied: multiplying is faster than memory. (Multiplier::block takes any struct with `fetch`.)
struct Ahead {
  const std::int8_t *panel, *rows;  // `depth` bytes of each, or `wide` times that of the rows
  std::size_t wide;
#if defined(__AVX512VNNI__)
  void fetch(std::size_t at) const {  // panels stay in the second-level cache
    for (std::size_t i = 0; i < wide * kDepthStep; i += 64)
      __builtin_prefetch(rows + at * wide + i, 0, 2);
  }
#else
  void fetch(std::size_t at) const {
    __builtin_prefetch(panel + at);
    __builtin_prefetch(rows + at);
  }
#endif
};

}  // namespace tacit
