// Sums of sines and cosines whose phases are a known and a dealt part of a secret, all harmonics of
// an element in one pass: see src/tacit/kernels/waves.py. Bit for bit what torch computes there, an
// operation at a time: this file is compiled without contraction, which would add a product without
// rounding it first.
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

#include "native.h"

namespace tacit {
namespace {

constexpr std::size_t kLanes = 64;       // elements that are computed together
constexpr std::size_t kGrain = 1 << 14;  // harmonics of elements that are worth a thread

template <std::size_t Count>
constexpr std::array<double, Count> taylor(int first) {
  std::array<double, Count> made{};
  double factorial = 1;
  for (int k = 1; k <= first; ++k) factorial *= k;
  for (std::size_t i = 0; i < Count; ++i) {
    made[i] = (i % 2 == 0 ? 1 : -1) / factorial;
    const int k = first + 2 * static_cast<int>(i);
    factorial *= (k + 1) * (k + 2);
  }
  return made;
}

// In powers of the square of an angle of at most pi / 4; factorials up to 17! are exact.
constexpr auto kSine = taylor<8>(1);
constexpr auto kCosine = taylor<9>(0);
constexpr double kTurn = 6.283185307179586;

template <std::size_t Count>
double horner(const std::array<double, Count>& coefficients, double x) {
  double total = coefficients[Count - 1];
#pragma GCC unroll 8
  for (std::size_t i = Count - 1; i-- > 0;) total = total * x + coefficients[i];
  return total;
}

// Some elements: their phases, and sines and cosines of a harmonic of these. T is unsigned, so that
// overflow wraps: a phase counts mod 2^k, a whole turn.
template <class T>
class Harmonics {
 public:
  using Signed = std::make_signed_t<T>;

  // is_at_once: each harmonic is computed from its own phase, and not from those before it.
  Harmonics(const T* x, std::size_t count, int shift, bool is_at_once)
      : count_(count), is_at_once_(is_at_once) {
    for (std::size_t i = 0; i < count; ++i) turn_[i] = phase_[i] = x[i] << shift;
    sin_cos();
    for (std::size_t i = 0; i < count; ++i) {
      step_[i] = 2 - sine[i] * sine[i] * 4;
      sine_before_[i] = -sine[i];
      cosine_before_[i] = cosine[i];
    }
  }

  void next() {
    if (is_at_once_) {
      for (std::size_t i = 0; i < count_; ++i) phase_[i] += 2 * turn_[i];
      sin_cos();
      return;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      const double s = step_[i] * sine[i] - sine_before_[i];
      const double c = step_[i] * cosine[i] - cosine_before_[i];
      sine_before_[i] = sine[i], cosine_before_[i] = cosine[i];
      sine[i] = s, cosine[i] = c;
    }
  }

  double sine[kLanes], cosine[kLanes];

 private:
  // An angle is a number of quadrants and a rest of at most pi / 4 in magnitude.
  void sin_cos() {
    constexpr int bits = 8 * sizeof(T);
    const double radians = std::ldexp(kTurn, -bits);
    for (std::size_t i = 0; i < count_; ++i) {
      const T sum = phase_[i] + (T{1} << (bits - 3));
      const auto quadrant = static_cast<T>(static_cast<Signed>(sum) >> (bits - 2));
      const auto rest = static_cast<Signed>(phase_[i] - (quadrant << (bits - 2)));
      const double angle = static_cast<double>(rest) * radians, square = angle * angle;
      const double s = horner(kSine, square) * angle, c = horner(kCosine, square);
      const bool odd = quadrant & 1;
      const double first = odd ? c : s, second = odd ? s : c;
      sine[i] = quadrant & 2 ? -first : first;
      cosine[i] = (quadrant + 1) & 2 ? -second : second;
    }
  }

  const std::size_t count_;
  const bool is_at_once_;
  T turn_[kLanes], phase_[kLanes];
  double step_[kLanes], sine_before_[kLanes], cosine_before_[kLanes];
};

// x rounded to a multiple of 1 / scale, half to even, as a ring element.
template <class T>
T in_ring(double x, double scale) {
  return static_cast<T>(static_cast<std::make_signed_t<T>>(std::rint(x * scale)));
}

// Calls body(begin, count) for at most kLanes elements at a time.
template <class Body>
void for_lanes(std::size_t size, std::size_t harmonics, const Body& body) {
  const std::size_t runs = kGrain / kLanes / std::max<std::size_t>(harmonics, 1);
  parallel_for(size, std::max<std::size_t>(runs, 1) * kLanes,
               [&](std::size_t begin, std::size_t end) {
                 for (; begin < end; begin += kLanes) body(begin, std::min(kLanes, end - begin));
               });
}

// Replaces the pad by cosines and sines of v, and by their products with a factor if there is one
// (not 0), less the pad. The pad has `harmonics` times two rows, or four, of `size` elements.
template <class T>
void deal_waves(Address v, Address factor, Address pad, std::size_t size, std::size_t harmonics,
                int shift, int fraction_bits, bool is_at_once) {
  const T *from = at<const T>(v), *by = at<const T>(factor);
  const double scale = std::ldexp(1.0, fraction_bits);
  for_lanes(size, harmonics, [=](std::size_t begin, std::size_t count) {
    Harmonics<T> waves(from + begin, count, shift, is_at_once);
    T* row = at<T>(pad) + begin;
    for (std::size_t h = 0; h < harmonics; ++h) {
      if (h > 0) waves.next();
      T cosine[kLanes], sine[kLanes];
      for (std::size_t i = 0; i < count; ++i) {
        cosine[i] = in_ring<T>(waves.cosine[i], scale);
        sine[i] = in_ring<T>(waves.sine[i], scale);
      }
      for (const T* wave : {cosine, sine}) {
        for (std::size_t i = 0; i < count; ++i) row[i] = wave[i] - row[i];
        row += size;
      }
      if (by == nullptr) continue;
      for (const T* wave : {cosine, sine}) {
        for (std::size_t i = 0; i < count; ++i) row[i] = wave[i] * by[begin + i] - row[i];
        row += size;
      }
    }
  });
}

// Adds the products of dealt rows, two for each harmonic, and of public factors to `out`.
template <class T>
void add_wave_sum(Address m, Address dealt, Address out, std::size_t size,
                  const std::vector<double>& sines, const std::vector<double>& cosines, int shift,
                  int fraction_bits, bool is_at_once) {
  const double scale = std::ldexp(1.0, fraction_bits);
  const bool has_cosines =
      std::any_of(cosines.begin(), cosines.end(), [](double x) { return x != 0; });
  for_lanes(size, sines.size(), [&](std::size_t begin, std::size_t count) {
    Harmonics<T> waves(at<const T>(m) + begin, count, shift, is_at_once);
    const T* row = at<const T>(dealt) + begin;
    T* total = at<T>(out) + begin;
    for (std::size_t h = 0; h < sines.size(); ++h, row += 2 * size) {
      if (h > 0) waves.next();
      const double of_sine = sines[h], of_cosine = cosines[h];
      for (std::size_t i = 0; i < count; ++i) {
        double with_cosine = waves.sine[i] * of_sine, with_sine = waves.cosine[i] * of_sine;
        if (has_cosines) {
          with_cosine += waves.cosine[i] * of_cosine;
          with_sine -= waves.sine[i] * of_cosine;
        }
        total[i] += in_ring<T>(with_cosine, scale) * row[i];
        total[i] += in_ring<T>(with_sine, scale) * row[size + i];
      }
    }
  });
}

}  // namespace

void bind_waves(nb::module_& module) {
  using release = nb::call_guard<nb::gil_scoped_release>;
  module.def("deal_waves32", &deal_waves<std::uint32_t>, release());
  module.def("deal_waves64", &deal_waves<std::uint64_t>, release());
  module.def("add_wave_sum32", &add_wave_sum<std::uint32_t>, release());
  module.def("add_wave_sum64", &add_wave_sum<std::uint64_t>, release());
}

}  // namespace tacit
