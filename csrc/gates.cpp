// Gates on masked bit planes: circuits of XOR and AND on words, the same for every column. The
// equations are in csrc/circuits.h, the contract in src/tacit/kernels/gates.py.
//
// Planes are rows of memory, often a power of two bytes apart, so that the cache cannot hold lines
// of more than a few rows at a time. So a segment of all rows of a node is copied to a small buffer
// and worked on there; results are XORed with the pad or mask when they are copied out.
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "circuits.h"
#include "native.h"
#include "scratch.h"

namespace tacit {
namespace {

using Sizes = std::vector<int>;

constexpr std::size_t kGrain = 512;  // columns that a thread takes at once
constexpr int kMaxDigit = 7, kMaxFanIn = 9;

// How many columns of so many rows make a segment: a row is read fast if it has a KB (128 words),
// and the buffer should not be much larger than half a MB (2^16 words), or it leaves the
// second-level cache.
constexpr int segment(int rows) {
  constexpr int shortest = 32, longest = 128, words = 1 << 16;
  return std::clamp<int>(std::bit_floor(static_cast<unsigned>(words / rows)), shortest, longest);
}

// A buffer for `R` rows of a segment.
template <int R>
class Buffer {
 public:
  static constexpr int length = segment(R);
  // The next `count` rows.
  Rows<length> take(int count) {
    const Rows<length> rows{memory_.data<Word>() + used_ * Rows<length>::pitch};
    used_ += count;
    return rows;
  }

 private:
  Scratch memory_{Use::planes, R * Rows<length>::pitch * sizeof(Word)};
  int used_ = 0;
};

// Planes in memory: `stride` words from a row to the next.
template <class W>
struct Planes {
  W* data;
  std::size_t stride;

  Planes(Address address, std::size_t words) : data(at<W>(address)), stride(words) {}
  W* row(int index, std::size_t column) const { return data + index * stride + column; }
};

using Inputs = Planes<const Word>;
using Outputs = Planes<Word>;

// Columns [begin, begin + count).
struct Span {
  std::size_t begin, count;
};

template <int L>
void copy_in(const Inputs& planes, Span span, int first, int count, const Rows<L>& to) {
  for (int i = 0; i < count; ++i)
    std::memcpy(to.from(i).data, planes.row(first + i, span.begin), span.count * sizeof(Word));
}

// out = rows ^ pad, from row `first` on; out may be the pad itself, so that the loop has to read
// and write the same column.
template <int L>
void write(const Rows<L>& rows, int count, const Inputs& pad, const Outputs& out, Span span,
           int first) {
  for (int i = 0; i < count; ++i) {
    const Word *from = rows.from(i).data, *key = pad.row(first + i, span.begin);
    Word* to = out.row(first + i, span.begin);
#pragma GCC ivdep
    for (std::size_t c = 0; c < span.count; ++c) to[c] = from[c] ^ key[c];
  }
}

// Calls body(span) for the segments of [begin, end).
template <class Body>
void for_segments(std::size_t begin, std::size_t end, std::size_t length, const Body& body) {
  for (std::size_t column = begin; column < end; column += length)
    body(Span{column, std::min(length, end - column)});
}

// Calls body<N>() for the constant N = value, First <= value <= Last.
template <int First, int Last, class Body>
void with_constant(int value, const Body& body) {
  if constexpr (First < Last)
    if (value != First) return with_constant<First + 1, Last>(value, body);
  body.template operator()<First>();
}

// Calls body<S>(i, bit, row, begin, end) for each digit i of S bits, on several threads; its bits
// begin at `bit` and its table at `row`.
template <class Body>
void for_digits(const Sizes& digits, std::size_t words, const Body& body) {
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int bit = 0, row = 0;
    for (int i = 0; i < static_cast<int>(digits.size()); ++i) {
      with_constant<1, kMaxDigit>(
          digits[i], [&]<int S>() { body.template operator()<S>(i, bit, row, begin, end); });
      bit += digits[i], row += (1 << digits[i]) - 1;
    }
  });
}

// `v` and `pad` in, `out` with rows E_1..E_{2^S-1} of each digit, XOR the pad.
void leaf_tables(Address v, const Sizes& digits, Address pad, Address out, std::size_t words) {
  const Inputs bits(v, words), pads(pad, words);
  const Outputs target(out, words);
  for_digits(digits, words, [&]<int S>(int, int bit, int row, std::size_t begin, std::size_t end) {
    constexpr int entries = (1 << S) - 1;
    Buffer<S + entries> buffer;
    const auto digit = buffer.take(S), tables = buffer.take(entries);
    for_segments(begin, end, buffer.length, [&](Span span) {
      copy_in(bits, span, bit, S, digit);
      leaf_table<S>(digit, tables, span.count);
      write(tables, entries, pads, target, span, row);
    });
  });
}

// a: u, a share of the tables, mask, out. Rows of `out` are G of all digits, then P of all but
// digit 0; without Carries, P of all digits.
template <bool Carries>
void leaves(const std::array<Address, 4>& a, const Sizes& digits, bool first, std::size_t words) {
  const Inputs bits(a[0], words), all_tables(a[1], words), mask(a[2], words);
  const Outputs out(a[3], words);
  const int num_digits = static_cast<int>(digits.size());
  for_digits(
      digits, words, [&]<int S>(int i, int bit, int row, std::size_t begin, std::size_t end) {
        constexpr int entries = (1 << S) - 1;
        Buffer<S + entries + 2> buffer;
        const auto digit = buffer.take(S), tables = buffer.take(entries), result = buffer.take(2);
        for_segments(begin, end, buffer.length, [&](Span span) {
          copy_in(bits, span, bit, S, digit);
          copy_in(all_tables, span, row, entries, tables);
          leaf<S, Carries>(digit, tables, first, result, span.count);
          if (!Carries || i > 0)
            write(result, 1, mask, out, span, Carries ? num_digits + i - 1 : i);
          if (Carries) write(result.from(1), 1, mask, out, span, i);
        });
      });
}

int total(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), 0); }

// Calls body<D, P>(i, start, row, begin, end) for each node i of fan-in D, on several threads: its
// inputs begin at `start`, what is dealt for it at `row`, and P says whether it has a P output: all
// have but node 0, the least significant, because nothing is carried into it. Without Carry the
// nodes are AND gates, and P is true.
template <bool Carry, class Body>
void for_nodes(const Sizes& sizes, std::size_t words, const Body& body) {
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int start = 0, row = 0;
    for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
      with_constant<2, kMaxFanIn>(sizes[i], [&]<int D>() {
        if (Carry && i == 0)
          body.template operator()<D, !Carry>(i, start, row, begin, end);
        else
          body.template operator()<D, true>(i, start, row, begin, end);
        row += Carry ? Order<D>::carry_rows(i > 0) : Order<D>::and_rows;
      });
      start += sizes[i];
    }
  });
}

// The g and p of a node whose groups begin at `start`, out of rows g_0..g_{groups-1},
// p_1..p_{groups-1}. Group 0 has no p: that row of the buffer is left as it is, and not read.
template <int D, int L>
void copy_groups(const Inputs& planes, Span span, int groups, int start, const Rows<L>& g,
                 const Rows<L>& p) {
  copy_in(planes, span, start, D, g);
  if (start > 0)
    copy_in(planes, span, groups + start - 1, D, p);
  else
    copy_in(planes, span, groups, D - 1, p.from(1));
}

void node_products(Address masks, const Sizes& sizes, Address pad, Address out, std::size_t words) {
  const Inputs lambdas(masks, words), pads(pad, words);
  const Outputs target(out, words);
  const int groups = total(sizes);
  for_nodes<true>(sizes, words,
                  [&]<int D, bool P>(int, int start, int row, std::size_t begin, std::size_t end) {
                    constexpr int rows = Order<D>::carry_rows(P);
                    Buffer<2 * D + rows> buffer;
                    const auto g = buffer.take(D), p = buffer.take(D), dealt = buffer.take(rows);
                    for_segments(begin, end, buffer.length, [&](Span span) {
                      copy_groups<D>(lambdas, span, groups, start, g, p);
                      deal_carry<D, P>(g, p, dealt, span.count);
                      write(dealt, rows, pads, target, span, row);
                    });
                  });
}

void and_products(Address masks, const Sizes& sizes, Address pad, Address out, std::size_t words) {
  const Inputs lambdas(masks, words), pads(pad, words);
  const Outputs target(out, words);
  for_nodes<false>(sizes, words,
                   [&]<int D, bool>(int, int start, int row, std::size_t begin, std::size_t end) {
                     constexpr int rows = Order<D>::and_rows;
                     Buffer<D + rows> buffer;
                     const auto p = buffer.take(D), dealt = buffer.take(rows);
                     for_segments(begin, end, buffer.length, [&](Span span) {
                       copy_in(lambdas, span, start, D, p);
                       deal_and<D>(p, dealt, span.count);
                       write(dealt, rows, pads, target, span, row);
                     });
                   });
}

// a: hats, shares of lambdas, a share of the products, mask, out. Rows of `out` are G of all nodes,
// then P of all but node 0.
void node_carries(const std::array<Address, 5>& a, const Sizes& sizes, bool first,
                  std::size_t words) {
  const Inputs hats(a[0], words), shares(a[1], words), products(a[2], words), mask(a[3], words);
  const Outputs out(a[4], words);
  const int groups = total(sizes), num_nodes = static_cast<int>(sizes.size());
  for_nodes<true>(
      sizes, words,
      [&]<int D, bool P>(int i, int start, int row, std::size_t begin, std::size_t end) {
        constexpr int rows = Order<D>::carry_rows(P);
        Buffer<4 * D + rows + 2> buffer;
        const Node<buffer.length> node{buffer.take(D), buffer.take(D),    buffer.take(D),
                                       buffer.take(D), buffer.take(rows), first};
        const auto result = buffer.take(2);
        for_segments(begin, end, buffer.length, [&](Span span) {
          copy_groups<D>(hats, span, groups, start, node.g_hats, node.p_hats);
          copy_groups<D>(shares, span, groups, start, node.g_shares, node.p_shares);
          copy_in(products, span, row, rows, node.dealt);
          evaluate_carry<D, P>(node, result, span.count);
          write(result, 1, mask, out, span, i);
          if (P) write(result.from(1), 1, mask, out, span, num_nodes + i - 1);
        });
      });
}

// a: as for node_carries; a row of `out` for each gate.
void and_gates(const std::array<Address, 5>& a, const Sizes& sizes, bool first, std::size_t words) {
  const Inputs hats(a[0], words), shares(a[1], words), products(a[2], words), mask(a[3], words);
  const Outputs out(a[4], words);
  for_nodes<false>(sizes, words,
                   [&]<int D, bool>(int i, int start, int row, std::size_t begin, std::size_t end) {
                     constexpr int rows = Order<D>::and_rows;
                     Buffer<2 * D + rows + 1> buffer;
                     Node<buffer.length> node{
                         {}, buffer.take(D), {}, buffer.take(D), buffer.take(rows), first};
                     const auto result = buffer.take(1);
                     for_segments(begin, end, buffer.length, [&](Span span) {
                       copy_in(hats, span, start, D, node.p_hats);
                       copy_in(shares, span, start, D, node.p_shares);
                       copy_in(products, span, row, rows, node.dealt);
                       evaluate_and<D>(node, result, span.count);
                       write(result, 1, mask, out, span, i);
                     });
                   });
}

}  // namespace

void bind_gates(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("leaf_tables", &leaf_tables, release());
  module.def("leaf_carries", &leaves<true>, release());
  module.def("leaf_matches", &leaves<false>, release());
  module.def("node_products", &node_products, release());
  module.def("node_carries", &node_carries, release());
  module.def("and_products", &and_products, release());
  module.def("and_gates", &and_gates, release());
}

}  // namespace tacit
