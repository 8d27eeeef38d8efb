// Gates on masked bit planes: circuits of XOR and AND on words, the same for every column.
//
// Planes are rows of memory at a distance that is often a power of two, so that lines of more than
// a few rows cannot stay in the cache beside each other. A segment of all the rows of a node is
// copied to a small buffer, worked on there (csrc/circuits.h), and the results meet the pad or mask
// on their way out.
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "circuits.h"
#include "native.h"

namespace tacit {
namespace {

using Sizes = std::vector<int>;

constexpr std::size_t kGrain = 512;        // columns that a thread takes at once
constexpr std::size_t kLongest = 128;      // columns of a segment
constexpr std::size_t kShortest = 8;       // a cache line
constexpr std::size_t kBuffer = 8 * 1024;  // words, exceeded by the shortest segments only
constexpr int kMaxDigit = 7, kMaxFanIn = 9;

// Planes in memory, from the first column of a segment of `columns`.
template <class W>
struct Planes {
  W* data;
  std::size_t stride, columns;

  W* row(int index) const { return data + index * stride; }
};

using Inputs = Planes<const Word>;
using Outputs = Planes<Word>;

void copy_in(const Inputs& planes, int first, int count, const Rows& to) {
  for (int i = 0; i < count; ++i)
    std::memcpy(to.data + i * to.length, planes.row(first + i), planes.columns * sizeof(Word));
}

// out = row ^ pad
void write(const Word* row, const Inputs& pad, const Outputs& out, int index) {
  const Word* from = pad.row(index);
  Word* to = out.row(index);
#pragma GCC ivdep
  for (std::size_t c = 0; c < out.columns; ++c) to[c] = row[c] ^ from[c];
}

// A buffer for `rows` rows of a segment, and how long it can be.
class Buffer {
 public:
  explicit Buffer(int rows)
      : length_(std::clamp(kBuffer / rows / kShortest * kShortest, kShortest, kLongest)) {}
  std::size_t length() const { return length_; }
  // The next `count` rows of the buffer.
  Rows take(int count) {
    const Rows rows{words_ + used_ * length_, length_};
    used_ += count;
    return rows;
  }

 private:
  static constexpr std::size_t kMaxRows = 1100;  // of a node of fan-in 9
  alignas(64) Word words_[std::max(kBuffer, kMaxRows* kShortest)];
  std::size_t length_, used_ = 0;
};

// Calls body(column, count) for the segments of [begin, end).
template <class Body>
void for_segments(std::size_t begin, std::size_t end, std::size_t length, const Body& body) {
  for (std::size_t column = begin; column < end; column += length)
    body(column, std::min(length, end - column));
}

// Calls body<N>() for the constant N = value, First <= value <= Last.
template <int First, int Last, class Body>
void with_constant(int value, const Body& body) {
  if constexpr (First < Last)
    if (value != First) return with_constant<First + 1, Last>(value, body);
  body.template operator()<First>();
}

int total(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), 0); }

// Planes at an address, of which every segment is a part.
template <class W>
struct Matrix {
  W* data;
  std::size_t columns;

  Matrix(Address address, std::size_t words) : data(at<W>(address)), columns(words) {}
  Planes<W> part(std::size_t column, std::size_t count) const {
    return {data + column, columns, count};
  }
};

using Source = Matrix<const Word>;
using Target = Matrix<Word>;

void leaf_tables(Address v, const Sizes& digits, Address pad, Address out, std::size_t words) {
  const Source bits(v, words), pads(pad, words);
  const Target target(out, words);
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int bit = 0, row = 0;
    for (const int size : digits) {
      const int entries = (1 << size) - 1;
      Buffer buffer(size + entries);
      const Rows digit = buffer.take(size), tables = buffer.take(entries);
      for_segments(begin, end, buffer.length(), [&](std::size_t column, std::size_t count) {
        copy_in(bits.part(column, count), bit, size, digit);
        with_constant<1, kMaxDigit>(size, [&]<int S>() { leaf_table<S>(digit, tables, count); });
        for (int i = 0; i < entries; ++i)
          write(tables.from(i).data, pads.part(column, count), target.part(column, count), row + i);
      });
      bit += size, row += entries;
    }
  });
}

// u, tables, mask, out
template <bool Carries>
void leaves(const std::array<Address, 4>& a, const Sizes& digits, bool first, std::size_t words) {
  const Source bits(a[0], words), entries(a[1], words), masks(a[2], words);
  const Target target(a[3], words);
  const int num_digits = static_cast<int>(digits.size());
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int bit = 0, row = 0;
    for (int i = 0; i < num_digits; ++i) {
      const int size = digits[i], num_entries = (1 << size) - 1;
      Buffer buffer(size + num_entries + 2);
      const Rows digit = buffer.take(size), tables = buffer.take(num_entries),
                 result = buffer.take(2);
      for_segments(begin, end, buffer.length(), [&](std::size_t column, std::size_t count) {
        copy_in(bits.part(column, count), bit, size, digit);
        copy_in(entries.part(column, count), row, num_entries, tables);
        with_constant<1, kMaxDigit>(
            size, [&]<int S>() { leaf<S, Carries>(digit, tables, first, result, count); });
        const Inputs mask = masks.part(column, count);
        const Outputs to = target.part(column, count);
        if (!Carries || i > 0) write(result.data, mask, to, Carries ? num_digits + i - 1 : i);
        if (Carries) write(result.from(1).data, mask, to, i);
      });
      bit += size, row += num_entries;
    }
  });
}

// The g and p of node `index`, whose groups begin at `start`, out of the rows of all `groups`. The
// least significant group has no p: that row of the buffer stays as it is.
void copy_groups(const Inputs& planes, int groups, int start, int size, const Rows& g,
                 const Rows& p) {
  copy_in(planes, start, size, g);
  if (start > 0)
    copy_in(planes, groups + start - 1, size, p);
  else
    copy_in(planes, groups, size - 1, p.from(1));
}

int carry_rows(int size, bool p_output) {
  int rows = 0;
  with_constant<2, kMaxFanIn>(size, [&]<int D>() { rows = Order<D>::carry_rows(p_output); });
  return rows;
}

int and_rows(int size) { return (1 << size) - 1 - size; }

void node_products(Address masks, const Sizes& sizes, Address pad, Address out, std::size_t words) {
  const Source lambdas(masks, words), pads(pad, words);
  const Target target(out, words);
  const int groups = total(sizes);
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int start = 0, row = 0;
    for (const int size : sizes) {
      const bool p_output = start > 0;
      const int rows = carry_rows(size, p_output);
      Buffer buffer(2 * size + rows);
      const Rows g = buffer.take(size), p = buffer.take(size), dealt = buffer.take(rows);
      for_segments(begin, end, buffer.length(), [&](std::size_t column, std::size_t count) {
        copy_groups(lambdas.part(column, count), groups, start, size, g, p);
        with_constant<2, kMaxFanIn>(size, [&]<int D>() {
          (p_output ? deal_carry<D, true> : deal_carry<D, false>)(g, p, dealt, count);
        });
        for (int i = 0; i < rows; ++i)
          write(dealt.from(i).data, pads.part(column, count), target.part(column, count), row + i);
      });
      start += size, row += rows;
    }
  });
}

void and_products(Address masks, const Sizes& sizes, Address pad, Address out, std::size_t words) {
  const Source lambdas(masks, words), pads(pad, words);
  const Target target(out, words);
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int start = 0, row = 0;
    for (const int size : sizes) {
      const int rows = and_rows(size);
      Buffer buffer(size + rows);
      const Rows p = buffer.take(size), dealt = buffer.take(rows);
      for_segments(begin, end, buffer.length(), [&](std::size_t column, std::size_t count) {
        copy_in(lambdas.part(column, count), start, size, p);
        with_constant<2, kMaxFanIn>(size, [&]<int D>() { deal_and<D>(p, dealt, count); });
        for (int i = 0; i < rows; ++i)
          write(dealt.from(i).data, pads.part(column, count), target.part(column, count), row + i);
      });
      start += size, row += rows;
    }
  });
}

// hats, shares, products, mask, out
void node_carries(const std::array<Address, 5>& a, const Sizes& sizes, bool first,
                  std::size_t words) {
  const Source hats(a[0], words), shares(a[1], words), products(a[2], words), masks(a[3], words);
  const Target target(a[4], words);
  const int groups = total(sizes), num_nodes = static_cast<int>(sizes.size());
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int start = 0, row = 0;
    for (int i = 0; i < num_nodes; ++i) {
      const int size = sizes[i], rows = carry_rows(size, i > 0);
      Buffer buffer(4 * size + rows + 2);
      const Node node{buffer.take(size), buffer.take(size), buffer.take(size),
                      buffer.take(size), buffer.take(rows), first};
      const Rows result = buffer.take(2);
      for_segments(begin, end, buffer.length(), [&](std::size_t column, std::size_t count) {
        copy_groups(hats.part(column, count), groups, start, size, node.g_hats, node.p_hats);
        copy_groups(shares.part(column, count), groups, start, size, node.g_shares, node.p_shares);
        copy_in(products.part(column, count), row, rows, node.dealt);
        with_constant<2, kMaxFanIn>(size, [&]<int D>() {
          (i > 0 ? evaluate_carry<D, true> : evaluate_carry<D, false>)(node, result, count);
        });
        const Inputs mask = masks.part(column, count);
        const Outputs to = target.part(column, count);
        write(result.data, mask, to, i);
        if (i > 0) write(result.from(1).data, mask, to, num_nodes + i - 1);
      });
      start += size, row += rows;
    }
  });
}

void and_gates(const std::array<Address, 5>& a, const Sizes& sizes, bool first, std::size_t words) {
  const Source hats(a[0], words), shares(a[1], words), products(a[2], words), masks(a[3], words);
  const Target target(a[4], words);
  parallel_for(words, kGrain, [&](std::size_t begin, std::size_t end) {
    int start = 0, row = 0;
    for (int i = 0; i < static_cast<int>(sizes.size()); ++i) {
      const int size = sizes[i], rows = and_rows(size);
      Buffer buffer(2 * size + rows + 1);
      const Rows p_hats = buffer.take(size), p_shares = buffer.take(size);
      const Node node{{}, p_hats, {}, p_shares, buffer.take(rows), first};
      const Rows result = buffer.take(1);
      for_segments(begin, end, buffer.length(), [&](std::size_t column, std::size_t count) {
        copy_in(hats.part(column, count), start, size, p_hats);
        copy_in(shares.part(column, count), start, size, p_shares);
        copy_in(products.part(column, count), row, rows, node.dealt);
        with_constant<2, kMaxFanIn>(size, [&]<int D>() { evaluate_and<D>(node, result, count); });
        write(result.data, masks.part(column, count), target.part(column, count), i);
      });
      start += size, row += rows;
    }
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
