// Extended oblivious transfers, and products made of them. src/tacit/ring/reference/ot.py says the
// same in a slow and obvious way, and defines the layouts.
//
// Rows. A transfer has a row of 128 bits at either side. Columns are made from seeds: tree t of
// depth d has 2^d leaves, each the key of a stream of one bit for each transfer. Column t d + j is
// the XOR of the streams of the leaves x with bit j of x set; the XOR of all leaves is sent, hidden
// in it the choices. A chunk of 1024 transfers is one group of eight AES blocks of each stream:
// 128 columns of 128 bytes, which are transposed in the first-level cache.
//
// Hash. H(i, b, x) = AES(y) ^ y, y = s(x) ^ (i, b), s(low, high) = (high, low ^ high), with a
// public key; i is the number of the transfer, b counts the blocks of 16 bytes that one transfer
// needs.
//
// No branch and no address depends on a seed, a row, a choice or a value.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "aes.h"
#include "native.h"
#include "simd.h"

namespace tacit {
namespace {

#if TACIT_HAS_AES

using Word = std::uint64_t;

constexpr std::size_t kColumns = 128;
constexpr std::size_t kChunk = 1024;             // transfers
constexpr std::size_t kChunkBytes = kChunk / 8;  // of a column
constexpr std::size_t kChunkWords = kChunk / 64;
constexpr std::size_t kRow = 16;  // bytes

// Halves of a and b interleaved byte by byte, in each lane of 16 bytes.
inline __attribute__((always_inline)) void interleave(Bytes a, Bytes b, Bytes& low, Bytes& high) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    constexpr auto from = [](int i, int half) {
      return i / 16 * 16 + half + i % 16 / 2 + i % 2 * kVectorBytes;
    };
    low = __builtin_shufflevector(a, b, from(I, 0)...);
    high = __builtin_shufflevector(a, b, from(I, 8)...);
  }(std::make_integer_sequence<int, kVectorBytes>{});
}

// 128 columns of a chunk to its rows. A bit has the address (column 8 h + l, byte b, bit t). First
// l changes places with t, in every byte of eight columns; then h with the low four bits of b: rows
// 8 b + t of 16 bytes.
void transpose(std::uint8_t* columns, std::uint8_t* rows) {
  for (std::size_t place = 0; place < kChunkBytes; place += kVectorBytes) {
    for (std::size_t c = 0; c < kColumns; c += 8) {
      std::uint8_t* first = columns + c * kChunkBytes + place;
      Words64 v[8];
      unrolled<8>([&]<int I>() __attribute__((always_inline)) {
        v[I] = load<Words64>(first + I * kChunkBytes);
      });
      swap_bits(v);
      unrolled<8>([&]<int I>()
                      __attribute__((always_inline)) { store(first + I * kChunkBytes, v[I]); });
    }
    for (std::size_t t = 0; t < 8; ++t) {
      Bytes v[16], w[16];
      unrolled<16>([&]<int I>() __attribute__((always_inline)) {
        v[I] = load<Bytes>(columns + (8 * I + t) * kChunkBytes + place);
      });
      unrolled<4>([&]<int Stage>() __attribute__((always_inline)) {
        unrolled<8>([&]<int I>() __attribute__((always_inline)) {
          if constexpr (Stage % 2 == 0)
            interleave(v[I], v[I + 8], w[2 * I], w[2 * I + 1]);
          else
            interleave(w[I], w[I + 8], v[2 * I], v[2 * I + 1]);
        });
      });
      unrolled<16>([&]<int I>() __attribute__((always_inline)) {
        std::uint8_t lanes[kVectorBytes];
        store(lanes, v[I]);
        for (int lane = 0; lane < kVectorBytes / 16; ++lane)
          std::memcpy(rows + (8 * (place + 16 * lane + I) + t) * kRow, lanes + 16 * lane, kRow);
      });
    }
  }
}

using Column = Word[kChunkWords];

inline void add_to(Column& to, const Column& from) {
  for (std::size_t i = 0; i < kChunkWords; ++i) to[i] ^= from[i];
}

// The ciphers of all leaves, for one operation number.
std::vector<Aes128Ctr> ciphers(Address seeds, std::size_t count, Word operation) {
  std::vector<Aes128Ctr> made;
  made.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    made.emplace_back(at<const std::uint8_t>(seeds) + i * Aes128::key_bytes, operation);
  return made;
}

// The columns of one tree, from its leaves from `first` on, and their XOR in leaves[0]. The leaves
// that have the highest bit are the upper half. Their XOR is a column; then the upper half is added
// to the lower one, and so on with the next bit.
void tree_columns(const Aes128Ctr* leaf, int depth, std::size_t first, std::size_t chunk,
                  Column* leaves, Column* columns) {
  const std::size_t count = std::size_t{1} << depth;
  for (std::size_t x = first; x < count; ++x)
    leaf[x].groups(chunk * Aes128Ctr::group_blocks, 1, reinterpret_cast<std::uint8_t*>(leaves[x]));
  if (first) std::memset(leaves[0], 0, sizeof leaves[0]);
  for (int j = depth - 1; j >= 0; --j) {
    const std::size_t half = std::size_t{1} << j;
    std::memcpy(columns[j], leaves[half], sizeof columns[j]);
    for (std::size_t x = 1; x < half; ++x) add_to(columns[j], leaves[half + x]);
    for (std::size_t x = 0; x < half; ++x) add_to(leaves[x], leaves[half + x]);
  }
}

constexpr int kMostDepth = 8;

// Makes the rows of all chunks. each(tree, first word, words, sum, columns): what a side does with
// the XOR of a tree's leaves.
template <class Each>
void make_rows(Address seeds, int depth, std::size_t first, Word operation, std::size_t words,
               Address rows, const Each& each) {
  const std::size_t trees = kColumns / depth, leaves = std::size_t{1} << depth;
  const auto made = ciphers(seeds, trees * leaves, operation);
  const std::size_t chunks = (words + kChunkWords - 1) / kChunkWords;
  parallel_for(chunks, 16, [&](std::size_t begin, std::size_t end) {
    alignas(64) Column columns[kColumns];
    alignas(64) Column streams[1 << kMostDepth];
    alignas(64) std::uint8_t last[kChunk * kRow];
    for (std::size_t chunk = begin; chunk < end; ++chunk) {
      const std::size_t word = chunk * kChunkWords, count = std::min(kChunkWords, words - word);
      for (std::size_t t = 0; t < trees; ++t) {
        tree_columns(&made[t * leaves], depth, first, chunk, streams, columns + t * depth);
        each(t, word, count, streams[0], columns + t * depth);
      }
      std::uint8_t* to = at<std::uint8_t>(rows) + word * 64 * kRow;
      transpose(reinterpret_cast<std::uint8_t*>(columns), count == kChunkWords ? to : last);
      if (count < kChunkWords) std::memcpy(to, last, count * 64 * kRow);
    }
  });
}

// The chooser's rows, and its message: of each tree the XOR of all leaves and the choices.
void ot_receive_rows(Address seeds, int depth, Word operation, Address choices, std::size_t words,
                     Address message, Address rows) {
  const auto* chosen = at<const Word>(choices);
  make_rows(seeds, depth, 0, operation, words, rows,
            [=](std::size_t tree, std::size_t word, std::size_t count, const Column& sum, Column*) {
              Word* out = at<Word>(message) + tree * words + word;
              for (std::size_t i = 0; i < count; ++i) out[i] = sum[i] ^ chosen[word + i];
            });
}

// The rows of the other side. It lacks leaf 0 of each tree: its leaves are numbered x ^ point, and
// the points are the bits of the offset.
void ot_send_rows(Address seeds, int depth, Word operation, Address offset, std::size_t words,
                  Address message, Address rows) {
  const auto* bits = at<const Word>(offset);
  make_rows(
      seeds, depth, 1, operation, words, rows,
      [=](std::size_t tree, std::size_t word, std::size_t count, const Column&, Column* columns) {
        const Word* in = at<const Word>(message) + tree * words + word;
        for (int j = 0; j < depth; ++j) {
          const std::size_t c = tree * depth + j;
          const Word mask = -(bits[c / 64] >> c % 64 & 1);
          for (std::size_t i = 0; i < count; ++i) columns[j][i] ^= in[i] & mask;
        }
      });
}

// H of rows that follow each other, each of them XOR `offset`.
class Hash {
 public:
  Hash(Address key, Address rows, Word first)
      : cipher_(at<const char>(key)), rows_(at<const Word>(rows)), first_(first) {}

  // Blocks [block, block + blocks) of transfers [begin, begin + count) to out.
  void operator()(std::size_t begin, std::size_t count, std::size_t block, std::size_t blocks,
                  const Word (&offset)[2], std::uint8_t* out) const {
    constexpr int n = 8;
    const Aes128 cipher = cipher_;
    const std::size_t total = count * blocks;
    std::size_t row = 0, b = 0;
    for (std::size_t done = 0; done < total; done += n, out += n * kRow) {
      Block y[n], x[n];
      unrolled<n>([&]<int I>() __attribute__((always_inline)) {
        const Word* from = rows_ + 2 * (begin + row);
        const Word low = from[0] ^ offset[0], high = from[1] ^ offset[1];
        x[I] = y[I] = bits_of(high ^ (first_ + begin + row), low ^ high ^ (block + b));
        if (++b == blocks) b = 0, row += row + 1 < count;  // the last row again, beyond the end
      });
      cipher.encrypt(y);
      unrolled<n>([&]<int I>() __attribute__((always_inline)) {
        const Block made = exclusive_or(y[I], x[I]);
        if (done + I < total) store(out + I * kRow, made);
      });
    }
  }

 private:
  Aes128 cipher_;
  const Word* rows_;
  Word first_;
};

// Bit 0 of H of each transfer, 64 in a word.
void ot_bits(Address key, Address rows, Word first, Address offset, std::size_t words,
             Address out) {
  const Hash hash(key, rows, first);
  const Word flip[2] = {at<const Word>(offset)[0], at<const Word>(offset)[1]};
  parallel_for(words, 256, [&](std::size_t begin, std::size_t end) {
    alignas(64) Word pads[64][2];
    for (std::size_t w = begin; w < end; ++w) {
      hash(64 * w, 64, 0, 1, flip, reinterpret_cast<std::uint8_t*>(pads));
      Word bits = 0;
      for (int i = 0; i < 64; ++i) bits |= (pads[i][0] & 1) << i;
      at<Word>(out)[w] = bits;
    }
  });
}

// A product of matrices (batch, m, k) x (batch, k, n), the left one chosen by bits. Element g of it
// takes transfers [g bits, (g + 1) bits), one for each bit, each for a row of n values.
struct Shape {
  std::size_t batch, m, k, n;

  std::size_t right_row(std::size_t g) const { return g / (m * k) * k + g % k; }
};

// Corrections of bit i need only the low S - i of S bits. Bits p and S - p share a word; bit S / 2
// has half of one. With a single bit there is one word.
template <class T>
struct Packing {
  static constexpr int size = 8 * sizeof(T);
  using Half = std::conditional_t<size == 64, std::uint32_t, std::uint16_t>;
  int bits;

  bool is_whole() const { return bits == size; }
  std::size_t slots() const { return is_whole() ? size / 2 : 1; }
};

// Calls body(g, column, width, stride, zero, one) for all elements g and pieces of their rows of
// values: `width` values from `column` on. zero[i stride + n] is the hash of transfer i of g for
// value n of the piece, and with two Sides one[i stride + n] that of its row XOR the offset. A
// thread works on whole rows of the result.
template <int Sides, class T, class Body>
void for_pads(const Hash& hash, const Word (&offset)[2], Shape shape, int bits, const Body& body) {
  constexpr std::size_t per_block = kRow / sizeof(T), most_blocks = 16;
  const std::size_t blocks = (shape.n + per_block - 1) / per_block;
  const std::size_t piece = std::min(blocks, most_blocks), stride = piece * per_block;
  const std::size_t together = std::max<std::size_t>(1, 64 / (bits * piece));  // elements
  const std::size_t work = shape.k * bits * blocks;
  parallel_for(shape.batch * shape.m, std::max<std::size_t>(1, 8192 / work),
               [&](std::size_t begin, std::size_t end) {
                 const std::size_t size = together * bits * stride;
                 std::vector<T> pads(Sides * size);
                 const Word flips[2][2] = {{0, 0}, {offset[0], offset[1]}};
                 for (std::size_t block = 0; block < blocks; block += piece) {
                   const std::size_t some = std::min(piece, blocks - block);
                   const std::size_t column = block * per_block;
                   const std::size_t width = std::min(some * per_block, shape.n - column);
                   for (std::size_t g = begin * shape.k; g < end * shape.k; g += together) {
                     const std::size_t count = std::min(together, end * shape.k - g);
                     for (int side = 0; side < Sides; ++side)
                       hash(g * bits, count * bits, block, some, flips[side],
                            reinterpret_cast<std::uint8_t*>(pads.data() + side * size));
                     for (std::size_t i = 0; i < count; ++i) {
                       const T* zero = pads.data() + i * bits * some * per_block;
                       body(g + i, column, width, some * per_block, zero,
                            zero + (Sides - 1) * size);
                     }
                   }
                 }
               });
}

// Sends: H_0 + value - H_1 of every transfer; keeps: - sum of 2^i H_0.
template <class T>
void ot_multiply_send(Address key, Address rows, Word first, Address offset, Address values,
                      Shape shape, int bits, Address words, Address halves, Address share) {
  using Half = typename Packing<T>::Half;
  constexpr int size = Packing<T>::size;
  const Packing<T> packing{bits};
  const Word flip[2] = {at<const Word>(offset)[0], at<const Word>(offset)[1]};
  std::fill_n(at<T>(share), shape.batch * shape.m * shape.n, T{0});
  for_pads<2, T>(Hash(key, rows, first), flip, shape, bits,
                 [&](std::size_t g, std::size_t column, std::size_t width, std::size_t stride,
                     const T* zero, const T* one) {
                   const T* value = at<const T>(values) + shape.right_row(g) * shape.n + column;
                   T* sum = at<T>(share) + g / shape.k * shape.n + column;
                   T* word = at<T>(words) + g * packing.slots() * shape.n + column;
                   for (std::size_t n = 0; n < width; ++n) {
                     word[n] = zero[n] + value[n] - one[n];
                     sum[n] -= zero[n];
                   }
                   if (!packing.is_whole()) return;
                   for (int p = 1; p < size / 2; ++p) {
                     const int up = size - p;
                     const T *zero_p = zero + p * stride, *one_p = one + p * stride;
                     const T *zero_q = zero + up * stride, *one_q = one + up * stride;
                     word += shape.n;
                     for (std::size_t n = 0; n < width; ++n) {
                       const T low = zero_p[n] + value[n] - one_p[n];
                       const T high = zero_q[n] + value[n] - one_q[n];
                       word[n] = (low & (~T{0} >> p)) | high << up;
                       sum[n] -= (zero_p[n] << p) + (zero_q[n] << up);
                     }
                   }
                   constexpr int middle = size / 2;
                   const T *zero_m = zero + middle * stride, *one_m = one + middle * stride;
                   Half* half = at<Half>(halves) + g * shape.n + column;
                   for (std::size_t n = 0; n < width; ++n) {
                     half[n] = static_cast<Half>(zero_m[n] + value[n] - one_m[n]);
                     sum[n] -= zero_m[n] << middle;
                   }
                 });
}

// Keeps: sum of 2^i (H + choice times correction).
template <class T>
void ot_multiply_receive(Address key, Address rows, Word first, Address choices, Shape shape,
                         int bits, Address words, Address halves, Address share) {
  using Half = typename Packing<T>::Half;
  constexpr int size = Packing<T>::size;
  const Packing<T> packing{bits};
  std::fill_n(at<T>(share), shape.batch * shape.m * shape.n, T{0});
  for_pads<1, T>(
      Hash(key, rows, first), {0, 0}, shape, bits,
      [&](std::size_t g, std::size_t column, std::size_t width, std::size_t stride, const T* pad,
          const T*) {
        const auto chosen = [&](std::size_t i) {
          const std::size_t place = g * bits + i;
          return static_cast<T>(-(at<const Word>(choices)[place / 64] >> place % 64 & 1));
        };
        T* sum = at<T>(share) + g / shape.k * shape.n + column;
        const T* word = at<const T>(words) + g * packing.slots() * shape.n + column;
        const T first_bit = chosen(0);
        for (std::size_t n = 0; n < width; ++n) sum[n] += pad[n] + (word[n] & first_bit);
        if (!packing.is_whole()) return;
        for (int p = 1; p < size / 2; ++p) {
          const int up = size - p;
          const T *pad_p = pad + p * stride, *pad_q = pad + up * stride;
          const T bit_p = chosen(p), bit_q = chosen(up);
          word += shape.n;
          for (std::size_t n = 0; n < width; ++n)
            sum[n] += ((pad_p[n] + (word[n] & bit_p)) << p) +
                      ((pad_q[n] + (word[n] >> up & bit_q)) << up);
        }
        constexpr int middle = size / 2;
        const T bit_m = chosen(middle);
        const T* pad_m = pad + middle * stride;
        const Half* half = at<const Half>(halves) + g * shape.n + column;
        for (std::size_t n = 0; n < width; ++n) sum[n] += (pad_m[n] + (half[n] & bit_m)) << middle;
      });
}

template <class T>
void bind_products(nb::module_& module, const char* send, const char* receive) {
  module.def(send, [](Address key, Address rows, Word first, Address offset, Address values,
                      std::size_t batch, std::size_t m, std::size_t k, std::size_t n, int bits,
                      Address words, Address halves, Address share) {
    nb::gil_scoped_release release;
    ot_multiply_send<T>(key, rows, first, offset, values, {batch, m, k, n}, bits, words, halves,
                        share);
  });
  module.def(receive, [](Address key, Address rows, Word first, Address choices, std::size_t batch,
                         std::size_t m, std::size_t k, std::size_t n, int bits, Address words,
                         Address halves, Address share) {
    nb::gil_scoped_release release;
    ot_multiply_receive<T>(key, rows, first, choices, {batch, m, k, n}, bits, words, halves, share);
  });
}

#endif

}  // namespace

void bind_ot(nb::module_& module) {
#if TACIT_HAS_AES
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("ot_receive_rows", &ot_receive_rows, release());
  module.def("ot_send_rows", &ot_send_rows, release());
  module.def("ot_bits", &ot_bits, release());
  bind_products<std::uint32_t>(module, "ot_multiply_send32", "ot_multiply_receive32");
  bind_products<std::uint64_t>(module, "ot_multiply_send64", "ot_multiply_receive64");
#else
  (void)module;
#endif
}

}  // namespace tacit
