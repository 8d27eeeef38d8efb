// The circuits of csrc/gates.cpp on a buffer of rows, one vector of columns at a time: leaves of a
// carry tree, its nodes, and AND gates of high fan-in.
//
// A wire is P = hat ^ lambda, written here as P_i (wire), p_hat (hat) and p_i (lambda), and the
// same for G. Hats are the same for all shares; of lambdas and of their products there are XOR
// shares. A product of wires is evaluated as in ABY2.0 (ePrint 2020/1225) and Ohata-Nuida
// (1907.03415):
//   P_1 ... P_D = XOR over subsets S of {1..D} of p_S (the product of p_hat_i for i not in S),
// where p_S is the product of p_i for i in S. So the share of the result is linear in shares of the
// p_S, which are dealt.
//
// Products of a node's lambdas are numbered by the set S of their p: bit i-1 of S for p_i. The
// dealt rows are in the order of tacit.ring.reference.gates.carry_rows.
#pragma once

#include <algorithm>
#include <bit>

#include "simd.h"

#define TACIT_INLINE inline __attribute__((always_inline))

namespace tacit {

using Word = std::uint64_t;

inline constexpr std::size_t kLanes = kVectorBytes / sizeof(Word);

// Calls body(0), body(1), ..., unrolled if N is so small that registers can hold the array that the
// body indexes, else in a loop.
template <int N, class Body>
TACIT_INLINE void repeat(const Body& body) {
  if constexpr (N <= 16)
    unrolled<N>([&]<int I>() __attribute__((always_inline)) { body(I); });
  else
    for (int i = 0; i < N; ++i) body(i);
}

// The constant 0 or 1 in every column. all(first) is a share of the constant 1.
TACIT_INLINE Words64 all(bool one) { return Words64{} - static_cast<Word>(one); }

// Rows of a segment of Length columns in the buffer. The spare cache line in `pitch` puts the rows
// of one column into different sets of the first-level cache.
template <int Length>
struct Rows {
  static constexpr int pitch = Length + 64 / sizeof(Word);
  Word* data;

  TACIT_INLINE Words64 operator()(int row, std::size_t column) const {
    return load<Words64>(data + row * pitch + column);
  }
  TACIT_INLINE void set(int row, std::size_t column, Words64 value) const {
    store(data + row * pitch + column, value);
  }
  Rows from(int row) const { return {data + row * pitch}; }
};

template <class Body>
TACIT_INLINE void for_columns(std::size_t count, const Body& body) {
  for (std::size_t column = 0; column < count; column += kLanes) body(column);
}

// Leaves -----------------------------------------------------------------------------------------

// Row a - 1 of `tables`: E_a = [2^S - 1 - V == a], the one-hot table of the complement of digit V.
// After step I, equal[a] is [the low I + 1 bits of ~V are a]; each step doubles the table.
template <int S, int L>
void leaf_table(const Rows<L>& v, const Rows<L>& tables, std::size_t columns) {
  for_columns(columns, [&](std::size_t c) __attribute__((always_inline)) {
    Words64 equal[1 << S];
    equal[0] = all(true);
    unrolled<S>([&]<int I>() __attribute__((always_inline)) {
      const Words64 bit = v(I, c);
      repeat<(1 << I)>([&](int a) __attribute__((always_inline)) {
        equal[a | 1 << I] = equal[a] & ~bit;
        equal[a] &= bit;
      });
    });
    repeat<(1 << S) - 1>([&](int a)
                             __attribute__((always_inline)) { tables.set(a, c, equal[a + 1]); });
  });
}

// XORs of entries E_a of a block of the table, where U counts places in the block: match is E_U,
// before the XOR of E_a over a < U, sum that of all.
struct Leaf {
  Words64 match, before, sum;
};

// The block of 2^S entries from A on, as two halves that bit S-1 of U chooses between:
//   match = bit ? high.match : low.match,  before = bit ? low.sum ^ high.before : low.before.
// Each entry is read once and the depth is S, where minterms of U would take 2^S ANDs more. E_0,
// which is not dealt, counts as 0 here.
template <int S, int A, int L>
TACIT_INLINE Leaf leaf_block(const Rows<L>& tables, const Words64* u, std::size_t c) {
  if constexpr (S == 0) {
    const Words64 entry = A == 0 ? Words64{} : tables(A - 1, c);
    return {entry, Words64{}, entry};
  } else {
    const Leaf low = leaf_block<S - 1, A>(tables, u, c);
    const Leaf high = leaf_block<S - 1, A + (1 << (S - 1))>(tables, u, c);
    const Words64 bit = u[S - 1], before = low.sum ^ high.before;
    return {((low.match ^ high.match) & bit) ^ low.match,
            ((low.before ^ before) & bit) ^ low.before, low.sum ^ high.sum};
  }
}

// Shares of P = E_U = [U + V == 2^S - 1] (row 0) and, for Carries, of G = XOR of E_a over a < U =
// [U + V >= 2^S] (row 1). E_0 = 1 ^ E_1 ^ E_2 ^ ...: it counts in P if U == 0, in G if U > 0.
template <int S, bool Carries, int L>
void leaf(const Rows<L>& digit, const Rows<L>& tables, bool first, const Rows<L>& out,
          std::size_t columns) {
  for_columns(columns, [&](std::size_t c) __attribute__((always_inline)) {
    Words64 u[S], any{};
    unrolled<S>([&]<int I>() __attribute__((always_inline)) { any |= u[I] = digit(I, c); });
    const Leaf all_others = leaf_block<S, 0>(tables, u, c);
    const Words64 entry = all_others.sum ^ all(first);  // E_0
    out.set(0, c, all_others.match ^ (entry & ~any));
    if constexpr (Carries) out.set(1, c, all_others.before ^ (entry & any));
  });
}

// Nodes ------------------------------------------------------------------------------------------

// Where the dealt rows of a node of fan-in D are: products of the p of S; then g_{j+1} times S, for
// j = 1..D-1; then the merged row p_1 g_2 ^ p_1 p_2 g_3 ^ ..., whose products occur once, with
// coefficient 1; then p_D times S, for the P output. An AND gate has the first and the last of
// these.
template <int D>
struct Order {
  static constexpr int half = 1 << (D - 1);  // subsets of p_1..p_{D-1}
  // S with at least two p
  static constexpr int product(int s) { return s - std::bit_width(static_cast<unsigned>(s)) - 1; }
  // g_{j+1} and S, which is neither empty nor all of p_1..p_j
  static constexpr int with_g(int j, int s) { return half - D + (1 << j) - 2 * j + s - 1; }
  static constexpr int merged = half - D + 2 * half - 2 * D;
  static constexpr int with_p = merged;  // S and p_D is in row with_p + S
  static constexpr int ands_with_p = half - D - 1;
  static constexpr int carry_rows(bool p_output) { return merged + (p_output ? half : 1); }
  static constexpr int and_rows = 2 * half - 1 - D;
};

// The row of input i = 1..D among those of a node. Groups are stored from the least significant one
// on, and input 1 of a carry node is the most significant.
template <int D>
constexpr int carry_input(int i) {
  return D - i;
}
constexpr int and_input(int i) { return i - 1; }

// The operands of one node: hats of its G and P, and one share of its lambdas g and p and of what
// is dealt. `first` says that this share gets the terms of hats alone.
template <int L>
struct Node {
  Rows<L> g_hats, p_hats, g_shares, p_shares, dealt;
  bool first;
};

// Shares of the product of each subset S of p_1..p_{D-1}: of 1 for the empty set, of p_i itself,
// dealt rows for two or more.
template <int D, int L, class Input>
TACIT_INLINE void load_subsets(const Node<L>& node, Input input, std::size_t c, Words64* shares) {
  shares[0] = all(node.first);
  unrolled<D - 1>([&]<int I>() __attribute__((always_inline)) {
    shares[1 << I] = node.p_shares(input(I + 1), c);
    repeat<(1 << I) - 1>([&](int low) __attribute__((always_inline)) {
      const int s = 1 << I | (low + 1);
      shares[s] = node.dealt(Order<D>::product(s), c);
    });
  });
}

// One factor more: from shares of a p_S for S in {1..J} to those of a P_J p_S for S in {1..J-1}, by
// a P_J p_S = a p_{S and J} ^ p_hat_J a p_S.
template <int J>
TACIT_INLINE void fold(Words64* shares, Words64 p_hat) {
  constexpr int half = 1 << (J - 1);
  repeat<half>([&](int s) __attribute__((always_inline)) {
    shares[s] = shares[s | half] ^ (p_hat & shares[s]);
  });
}

// A share of P_1 ... P_D. `shares` has those of p_S for S in {1..D-1} and is overwritten, first by
// shares of P_D p_S = p_D p_S ^ p_hat_D p_S, then by the folds of P_{D-1}, ..., P_1. The dealt
// products p_D p_S are in rows with_p + S.
template <int D, int L, class Input>
TACIT_INLINE Words64 and_all(const Node<L>& node, Input input, int with_p, std::size_t c,
                             Words64* shares) {
  const Words64 last = node.p_hats(input(D), c);
  shares[0] = node.p_shares(input(D), c) ^ (last & shares[0]);
  repeat<Order<D>::half - 1>([&](int s) __attribute__((always_inline)) {
    shares[s + 1] = node.dealt(with_p + s + 1, c) ^ (last & shares[s + 1]);
  });
  unrolled<D - 1>([&]<int I>() __attribute__((always_inline)) {
    fold<D - 1 - I>(shares, node.p_hats(input(D - 1 - I), c));
  });
  return shares[0];
}

// A share of G = G_1 ^ P_1 G_2 ^ P_1 P_2 G_3 ^ ..., by Horner's rule from the least significant
// input: T_D = G_D, T_j = G_j ^ P_j T_{j+1}, G = T_1. Before P_j is folded in, shares[S] is a share
// of T_{j+1} p_S for S in {1..j}; G_{j+1} adds G_{j+1} p_S = g_hat p_S ^ g_{j+1} p_S. The products
// g_{j+1} p_1 ... p_j pass all folds with the coefficient 1: their XOR is the merged row, added
// last.
template <int D, int L>
TACIT_INLINE Words64 carry(const Node<L>& node, std::size_t c, const Words64* subsets) {
  Words64 shares[Order<D>::half] = {};
  unrolled<D>([&]<int I>() __attribute__((always_inline)) {
    constexpr int j = D - 1 - I;  // adds G_{j+1}, which meets the subsets of p_1..p_j
    if constexpr (I > 0) fold<j + 1>(shares, node.p_hats(carry_input<D>(j + 1), c));
    const Words64 hat = node.g_hats(carry_input<D>(j + 1), c);
    shares[0] ^= (hat & subsets[0]) ^ node.g_shares(carry_input<D>(j + 1), c);
    repeat<std::max((1 << j) - 2, 0)>([&](int s) __attribute__((always_inline)) {
      shares[s + 1] ^= (hat & subsets[s + 1]) ^ node.dealt(Order<D>::with_g(j, s + 1), c);
    });
    if constexpr (j > 0) shares[(1 << j) - 1] ^= hat & subsets[(1 << j) - 1];
  });
  return shares[0] ^ node.dealt(Order<D>::merged, c);
}

// Row 0 of `out`: a share of G; row 1, if the node has a P output: of P = P_1 ... P_D.
template <int D, bool P, int L>
void evaluate_carry(const Node<L>& node, const Rows<L>& out, std::size_t columns) {
  for_columns(columns, [&](std::size_t c) __attribute__((always_inline)) {
    Words64 subsets[Order<D>::half];
    load_subsets<D>(node, carry_input<D>, c, subsets);
    out.set(0, c, carry<D>(node, c, subsets));
    if constexpr (P) out.set(1, c, and_all<D>(node, carry_input<D>, Order<D>::with_p, c, subsets));
  });
}

template <int D, int L>
void evaluate_and(const Node<L>& node, const Rows<L>& out, std::size_t columns) {
  for_columns(columns, [&](std::size_t c) __attribute__((always_inline)) {
    Words64 subsets[Order<D>::half];
    load_subsets<D>(node, and_input, c, subsets);
    out.set(0, c, and_all<D>(node, and_input, Order<D>::ands_with_p, c, subsets));
  });
}

// The products of all subsets of the lambdas p_1..p_{D-1}; those of two or more are dealt, too.
template <int D, int L, class Input>
TACIT_INLINE void make_subsets(const Rows<L>& p, Input input, const Rows<L>& out, std::size_t c,
                               Words64* products) {
  products[0] = all(true);
  unrolled<D - 1>([&]<int I>() __attribute__((always_inline)) {
    const Words64 last = products[1 << I] = p(input(I + 1), c);
    repeat<(1 << I) - 1>([&](int low) __attribute__((always_inline)) {
      const int s = 1 << I | (low + 1);
      out.set(Order<D>::product(s), c, products[s] = products[low + 1] & last);
    });
  });
}

// The dealt products p_D p_S, for S not empty.
template <int D, int L>
TACIT_INLINE void multiply_all(const Words64* products, Words64 last, const Rows<L>& out,
                               int with_p, std::size_t c) {
  repeat<Order<D>::half - 1>([&](int s) __attribute__((always_inline)) {
    out.set(with_p + s + 1, c, products[s + 1] & last);
  });
}

// What is dealt for a carry node with the lambdas g and p, in the order of `Order`.
template <int D, bool P, int L>
void deal_carry(const Rows<L>& g, const Rows<L>& p, const Rows<L>& out, std::size_t columns) {
  for_columns(columns, [&](std::size_t c) __attribute__((always_inline)) {
    Words64 products[Order<D>::half], merged{};
    make_subsets<D>(p, carry_input<D>, out, c, products);
    unrolled<D - 1>([&]<int I>() __attribute__((always_inline)) {
      constexpr int j = I + 1;
      const Words64 mask = g(carry_input<D>(j + 1), c);
      repeat<(1 << j) - 2>([&](int s) __attribute__((always_inline)) {
        out.set(Order<D>::with_g(j, s + 1), c, products[s + 1] & mask);
      });
      merged ^= products[(1 << j) - 1] & mask;
    });
    out.set(Order<D>::merged, c, merged);
    if constexpr (P) multiply_all<D>(products, p(carry_input<D>(D), c), out, Order<D>::with_p, c);
  });
}

template <int D, int L>
void deal_and(const Rows<L>& p, const Rows<L>& out, std::size_t columns) {
  for_columns(columns, [&](std::size_t c) __attribute__((always_inline)) {
    Words64 products[Order<D>::half];
    make_subsets<D>(p, and_input, out, c, products);
    multiply_all<D>(products, p(and_input(D), c), out, Order<D>::ands_with_p, c);
  });
}

}  // namespace tacit

#undef TACIT_INLINE
