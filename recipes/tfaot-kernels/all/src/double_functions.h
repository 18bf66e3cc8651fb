// double_functions.h: functions of doubles, with the same bits on every CPU.
//
// The results of the C library's functions depend on its version and on the CPU. These functions use only sums, products
// and quotients, each rounded once (-ffp-contract=off). Errors are below 1 unit in the last place for exp, log and log1p, and
// below 2.5 for the others (tests/compiler/test_operations.py). The argument reductions are those of fdlibm (Ng, 1993); the
// series are Taylor series.
#ifndef TFAOT_KERNELS_DOUBLE_FUNCTIONS_H_
#define TFAOT_KERNELS_DOUBLE_FUNCTIONS_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "float_via_double.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr double kHighLn2 = 0x1.62e42feep-1;  // 32 bits: its products with whole numbers below 2^21 are exact
inline constexpr double kLowLn2 = 0x1.a39ef35793c76p-33;
inline constexpr Series<13> kOfExponentialFromSquares = inverseFactorials<13>(2, 1);
inline constexpr Series<13> kOfLogarithmOfDoubles = oddOnes<13>(3);

/// `which ? yes : no`, but both values are computed. Compilers vectorize loops over functions without branches; in a
/// conditional expression they would move the computation of one value into a branch.
TFAOT_INLINE double selected(bool which, double yes, double no) {
  const std::uint64_t mask = 0u - static_cast<std::uint64_t>(which);
  return bitsAs<double>((bitsAs<std::uint64_t>(yes) & mask) | (bitsAs<std::uint64_t>(no) & ~mask));
}

/// 2^n, -1022 <= n <= 1023.
TFAOT_INLINE double powerOfTwo(std::int64_t n) { return bitsAs<double>(static_cast<std::uint64_t>(n + 1023) << 52); }

/// exp(x) = 2^n * (1 + rest), |rest| < 0.42.
struct PowerOfTwoAndRest {
  std::int64_t n;
  double rest;

  TFAOT_INLINE double exponential() const {
    // In two steps, because 2^1024 is not a double, and powers below 2^-1022 are not normal. Shifted unsigned, because AVX2
    // has no arithmetic shift of 64 bits.
    const std::int64_t half = static_cast<std::int64_t>(static_cast<std::uint64_t>(n + 2048) >> 1) - 1024;
    return (1.0 + rest) * powerOfTwo(half) * powerOfTwo(n - half);
  }
  /// exp(x) - 1, for -1022 <= n <= 1023.
  TFAOT_INLINE double exponentialMinusOne() const { return (powerOfTwo(n) - 1.0) + powerOfTwo(n) * rest; }
};

/// For |x| <= 746, or NaN, for which `rest` is NaN.
TFAOT_INLINE PowerOfTwoAndRest reducedExponential(double x) {
  // The last bits of a number of this size are its integer part.
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52, n = shifted - 0x1.8p+52;
  const double high = x - n * kHighLn2, low = n * kLowLn2, r = high - low, lost = (high - r) - low;
  const std::int64_t whole = static_cast<std::int64_t>(bitsAs<std::uint64_t>(shifted) - 0x4338000000000000u);
  return {whole & -static_cast<std::int64_t>(x == x), r + (lost + r * r * kOfExponentialFromSquares.at(r))};
}

TFAOT_INLINE double exponentialOf(double x) {
  const bool isZero = x < -746.0;  // as kNoExponential
  return selected(isZero, 0.0, reducedExponential(selected(x > 746.0, 746.0, selected(isZero, 0.0, x))).exponential());
}

TFAOT_INLINE double exponentialMinusOne(double x) {
  // Below -50 it is -1 after rounding. Above 709, 1 is negligible compared with exp(x).
  const PowerOfTwoAndRest found = reducedExponential(selected(x > 746.0, 746.0, selected(x < -50.0, -50.0, x)));
  return selected(x == 0.0, x, selected(x > 709.0, found.exponential(), found.exponentialMinusOne()));
}

TFAOT_INLINE double logistic(double x) {
  // Then 1 is negligible compared with exp(-x), which overflows for x below -709.
  const bool isTiny = x < -40.0;
  const double power = exponentialOf(selected(isTiny, x, -x));
  return selected(isTiny, power, 1.0 / (1.0 + power));
}

TFAOT_INLINE double hyperbolicTangent(double x) {
  const double size = __builtin_fabs(x);
  const bool isNear = size < 0.5;
  // From 22 on it is 1 after rounding.
  const PowerOfTwoAndRest found = reducedExponential(2.0 * selected(size < 22.0, size, 22.0));
  const double more = found.exponentialMinusOne();
  const double ratio = selected(isNear, more, 2.0) / selected(isNear, more + 2.0, found.exponential() + 1.0);
  return selected(x != x, x, __builtin_copysign(selected(isNear, ratio, 1.0 - ratio), x));
}

/// x as (1 + f) * 2^e with 1 + f between the roots of 1/2 and of 2, for a positive number that is not denormal.
struct PartsOfDouble {
  double f, e;
};
TFAOT_INLINE PartsOfDouble partsOf(double x) {
  constexpr std::uint64_t kRoot = 0x3fe6a09e667f3bcdu, kBias = std::uint64_t{1023} << 52;
  const auto bits = bitsAs<std::uint64_t>(x), biased = (bits - kRoot + kBias) >> 52;
  // Converted to double by its bits, because AVX2 has no instruction that converts 64-bit integers.
  const double e = bitsAs<double>(biased | 0x4330000000000000u) - (0x1p+52 + 1023.0);
  return {bitsAs<double>(bits - ((biased << 52) - kBias)) - 1.0, e};
}

/// e * log(2) + log(1 + f) + `lost`.
TFAOT_INLINE double logarithmOfParts(PartsOfDouble parts, double lost) {
  const double f = parts.f, s = f / (2.0 + f), square = s * s, half = 0.5 * f * f;
  const double rest = 2.0 * square * kOfLogarithmOfDoubles.at(square);
  return parts.e * kHighLn2 - ((half - (s * (half + rest) + (parts.e * kLowLn2 + lost))) - f);
}

TFAOT_INLINE double logarithmOf(double x) {
  const bool isDenormal = x < 0x1p-1022;
  const PartsOfDouble parts = partsOf(x * selected(isDenormal, 0x1p+54, 1.0));
  const double found = logarithmOfParts({parts.f, parts.e - selected(isDenormal, 54.0, 0.0)}, 0.0);
  const double other = selected(x < 0.0, std::numeric_limits<double>::quiet_NaN(), selected(x == 0.0, -kInfinite, x));
  return selected((x > 0.0) & (x < kInfinite), found, other);
}

TFAOT_INLINE double logarithmOfOnePlus(double x) {
  const bool isNear = (x > -0.25) & (x < 0.375);
  const double sum = 1.0 + x, gone = selected(x < 1.0, x - (sum - 1.0), 1.0 - (sum - x));
  const PartsOfDouble parts = partsOf(sum);
  const double found = logarithmOfParts({selected(isNear, x, parts.f), selected(isNear, 0.0, parts.e)},
                                        selected(isNear, 0.0, gone / sum));
  const double other = selected(x < -1.0, std::numeric_limits<double>::quiet_NaN(), selected(x == -1.0, -kInfinite, x));
  return selected((x > -1.0) & (x < kInfinite) & (x != 0.0), found, other);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_DOUBLE_FUNCTIONS_H_
