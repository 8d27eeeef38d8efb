// The sums of a block of products, from when they are made until all planes are there.
#pragma once

#include "digits.h"
#include "residues.h"
#include "scratch.h"

namespace tacit {

// Three spare cache lines between planes, and between tiles, put them into different cache sets.
constexpr std::size_t kSpare = 192;

// Sums as they are, [tile][sum], which S::combine takes.
template <class S>
class Sums {
 public:
  explicit Sums(std::size_t count)
      : tile_(count + kSpare / sizeof(std::int32_t)),
        scratch_(Use::sums, tile_ * S::tiles * sizeof(std::int32_t)) {}

  // Where the sums from `first` on of a tile are written, and added where a tile has several.
  std::int32_t* next(int tile, std::size_t first, std::size_t) {
    return scratch_.data<std::int32_t>() + tile * tile_ + first;
  }
  void work(std::size_t) {}
  void finish() {}
  void combine(std::size_t first, std::size_t count, typename S::Word* out) const {
    S::combine(scratch_.data<std::int32_t>() + first, tile_, count, out);
  }

 private:
  std::size_t tile_;
  Scratch scratch_;
};

#if defined(__AVX512VNNI__)

// Residues are reduced to 16 bits as soon as a block of them is written: half of the memory. This
// `work` is done while the next block is multiplied, because tiles leave the vectors free.
template <int Divisor, int... Moduli>
class Sums<ResidueSystem<Divisor, Moduli...>> {
  using S = ResidueSystem<Divisor, Moduli...>;

 public:
  explicit Sums(std::size_t count)
      : tile_(count + kSpare / sizeof(std::int16_t)),
        scratch_(Use::sums,
                 2 * kBuffer * sizeof(std::int32_t) + tile_ * S::tiles * sizeof(std::int16_t)) {}

  std::int32_t* next(int tile, std::size_t first, std::size_t count) {
    work(before_.count);
    before_ = last_;
    std::int32_t* buffer = scratch_.data<std::int32_t>() + (odd_ ? kBuffer : 0);
    odd_ = !odd_;
    last_ = {tile, count, buffer, kept() + tile * tile_ + first};
    return buffer;
  }
  // Reduces `count` sums of the block before the last.
  void work(std::size_t count) {
    count = std::min(count, before_.count);
    reduce_residues<S>(before_.tile, before_.sums, count, before_.out);
    before_.count -= count, before_.sums += count, before_.out += count;
  }
  void finish() {
    for (int i = 0; i < 2; ++i) next(0, 0, 0);
  }
  void combine(std::size_t first, std::size_t count, std::int64_t* out) const {
    combine_residues<S>(kept() + first, tile_, count, out);
  }

 private:
  static constexpr std::size_t kBuffer = kGroups * kRows * kColumns;
  struct Written {
    int tile = 0;
    std::size_t count = 0;
    const std::int32_t* sums = nullptr;
    std::int16_t* out = nullptr;
  };
  std::int16_t* kept() const { return scratch_.data<std::int16_t>() + 4 * kBuffer; }

  std::size_t tile_;
  Scratch scratch_;
  Written before_, last_;
  bool odd_ = false;
};

#endif

// What is done while a block is multiplied.
template <class S>
struct Meanwhile {
  Ahead ahead;
  Sums<S>& sums;
  std::size_t share;  // of the work, in each step of kDepthStep depths
  void fetch(std::size_t at) const {
    ahead.fetch(at);
    sums.work(share);
  }
};

}  // namespace tacit
