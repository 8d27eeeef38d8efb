// Products of bytes by the tiles of AMX: 16 x 16 sums of 64 depths in one instruction, eight times
// as many as VNNI makes in that time.
#pragma once

#include "processor.h"
#include "row_layout.h"

#if defined(__AMX_INT8__) && defined(__AVX512VNNI__)

#include <immintrin.h>

#include <atomic>

#define TACIT_AMX

namespace tacit {

// Whether products use tiles: Python's layer says what is wanted (src/tacit/kernels/backend.py).
inline std::atomic<bool> amx_wanted{true};
inline bool amx_used() { return amx_wanted && amx_permitted(); }
inline void use_amx(bool wanted) { amx_wanted = wanted; }

// All eight tiles have 16 rows of 64 bytes. Every thread has its own configuration; while it has
// one, the system saves 8 KB more whenever it switches threads.
inline void configure_tiles() {
  struct alignas(64) Configuration {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static constexpr Configuration configuration;
  _tile_loadconfig(&configuration);
}

// Up to 32 rows, that is two tiles of sums for each half of the panel's 32 columns: tiles 0 and 1
// for the first 16 rows, 2 and 3 for the others. Rows are tiles 4 and 5, the panel 6 and 7.
template <bool Two, class Fetch>
inline void multiply_tiles(const std::int8_t* rows, RowLayout layout, const std::int8_t* panel,
                           std::size_t depth, std::int32_t* sums, bool accumulate, Fetch ahead) {
  constexpr std::size_t kLine = kColumns * sizeof *sums, kTile = kRows * kColumns;
  static_assert(kRows == 16 && kColumns == 32 && kDepthStep == 64);
  if (accumulate) {
    _tile_loadd(0, sums, kLine);
    _tile_loadd(1, sums + 16, kLine);
    if constexpr (Two) _tile_loadd(2, sums + kTile, kLine);
    if constexpr (Two) _tile_loadd(3, sums + kTile + 16, kLine);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (Two) _tile_zero(2);
    if constexpr (Two) _tile_zero(3);
  }
  for (std::size_t k = 0; k < depth; k += kDepthStep, panel += 64 * kColumns) {
    const std::int8_t* run = rows + layout.run(k);
    _tile_loadd(4, run, layout.row);
    _tile_loadd(6, panel, 4 * kColumns);
    _tile_dpbsud(0, 4, 6);
    _tile_loadd(7, panel + 64, 4 * kColumns);
    _tile_dpbsud(1, 4, 7);
    ahead.fetch(k);
    if constexpr (Two) {
      _tile_loadd(5, run + layout.group, layout.row);
      _tile_dpbsud(2, 5, 6);
      _tile_dpbsud(3, 5, 7);
    }
  }
  _tile_stored(0, sums, kLine);
  _tile_stored(1, sums + 16, kLine);
  if constexpr (Two) _tile_stored(2, sums + kTile, kLine);
  if constexpr (Two) _tile_stored(3, sums + kTile + 16, kLine);
}

}  // namespace tacit

#else

namespace tacit {

inline bool amx_used() { return false; }
inline void use_amx(bool) {}

}  // namespace tacit

#endif
