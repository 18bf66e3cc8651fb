// of_doubles.h: functions of doubles, with the same bits on every CPU.
//
// The C library's code for them depends on its version and on the CPU. These use sums, products and quotients only,
// each rounded once (-ffp-contract=off). Errors are below 1 unit in the last place of exp, log and log1p, below 2.5 of
// the others (tests/compiler/test_operations.py). The reductions are those of fdlibm (Ng, 1993); series are
// Taylor's.
#ifndef TFAOT_KERNELS_OF_DOUBLES_H_
#define TFAOT_KERNELS_OF_DOUBLES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "by_doubles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr double kHighLn2 = 0x1.62e42feep-1;  // 32 bits: its products with whole numbers below 2^21 are exact
inline constexpr double kLowLn2 = 0x1.a39ef35793c76p-33;
inline constexpr Series<13> kOfExponentialFromSquares = inverseFactorials<13>(2, 1);
inline constexpr Series<13> kOfLogarithmOfDoubles = oddOnes<13>(3);

/// exp(x) = 2^n * (1 + rest), |rest| < 0.42.
struct PowerOfTwoAndRest {
  std::int64_t n;
  double rest;
};

/// For |x| <= 746, or NaN, whose rest is NaN.
TFAOT_INLINE PowerOfTwoAndRest reducedExponential(double x) {
  // The last bits of a number as large as this are its whole part.
  const double shifted = x * 0x1.71547652b82fep+0 + 0x1.8p+52, n = shifted - 0x1.8p+52;
  const double high = x - n * kHighLn2, low = n * kLowLn2, r = high - low, lost = (high - r) - low;
  const std::int64_t whole = static_cast<std::int64_t>(bitsAs<std::uint64_t>(shifted) - 0x4338000000000000u);
  return {whole, r + (lost + r * r * kOfExponentialFromSquares.at(r))};
}

/// 2^n, -1022 <= n <= 1023.
TFAOT_INLINE double powerOfTwo(std::int64_t n) { return bitsAs<double>(static_cast<std::uint64_t>(n + 1023) << 52); }

TFAOT_INLINE double exponentialOf(double x) {
  const double limited = x > 746.0 ? 746.0 : x < -746.0 ? -746.0 : x;
  const PowerOfTwoAndRest found = reducedExponential(limited);
  // In two steps: 2^1024 is no double, nor are powers below 2^-1022 normal.
  const std::int64_t n = limited == limited ? found.n : 0, half = n / 2;
  return (1.0 + found.rest) * powerOfTwo(half) * powerOfTwo(n - half);
}

TFAOT_INLINE double exponentialMinusOne(double x) {
  if (x > -0.3 && x < 0.3) return x == 0.0 ? x : x + x * x * kOfExponentialFromSquares.at(x);
  if (x > 709.0 || x < -50.0 || x != x) return exponentialOf(x) - 1.0;
  const PowerOfTwoAndRest found = reducedExponential(x);
  const double power = powerOfTwo(found.n);
  return (power - 1.0) + power * found.rest;
}

TFAOT_INLINE double logistic(double x) {
  // Where 1 is below the last place of exp(-x), which is infinite for x below -709.
  return x < -40.0 ? exponentialOf(x) : 1.0 / (1.0 + exponentialOf(-x));
}

TFAOT_INLINE double hyperbolicTangent(double x) {
  const double size = __builtin_fabs(x);
  double found = 1.0;
  if (size < 0.5) {
    const double more = exponentialMinusOne(2.0 * size);
    found = more / (more + 2.0);
  } else if (size < 22.0) {
    found = 1.0 - 2.0 / (exponentialOf(2.0 * size) + 1.0);
  }
  return x != x ? x : __builtin_copysign(found, x);
}

/// n * log(2) + log(1 + f) + `lost`, with 1 + f between the roots of 1/2 and of 2.
TFAOT_INLINE double logarithmOfParts(std::int64_t n, double f, double lost) {
  const double s = f / (2.0 + f), square = s * s, half = 0.5 * f * f;
  const double rest = 2.0 * square * kOfLogarithmOfDoubles.at(square);
  const auto count = static_cast<double>(n);
  return count * kHighLn2 - ((half - (s * (half + rest) + (count * kLowLn2 + lost))) - f);
}

/// log(x) + `lost` for x = m * 2^e, a positive number that is not denormal.
TFAOT_INLINE double logarithmOfNormal(double x, std::int64_t more, double lost) {
  const std::uint64_t bits = bitsAs<std::uint64_t>(x), root = 0x3fe6a09e667f3bcdu;
  const std::int64_t e = static_cast<std::int64_t>(bits - root) >> 52;
  return logarithmOfParts(e + more, bitsAs<double>(bits - (static_cast<std::uint64_t>(e) << 52)) - 1.0, lost);
}

TFAOT_INLINE double logarithmOf(double x) {
  if (x >= 0x1p-1022 && x < kInfinite) return logarithmOfNormal(x, 0, 0.0);
  if (x > 0.0 && x < kInfinite) return logarithmOfNormal(x * 0x1p+54, -54, 0.0);
  if (x == 0.0) return -kInfinite;
  return x < 0.0 ? std::numeric_limits<double>::quiet_NaN() : x;
}

TFAOT_INLINE double logarithmOfOnePlus(double x) {
  if (x > -0.25 && x < 0.375) return x == 0.0 ? x : logarithmOfParts(0, x, 0.0);
  if (x > -1.0 && x < kInfinite) {
    const double sum = 1.0 + x, lost = x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x);
    return logarithmOfNormal(sum, 0, lost / sum);
  }
  if (x == -1.0) return -kInfinite;
  return x < -1.0 ? std::numeric_limits<double>::quiet_NaN() : x;
}

/// `Count` vectors of what rowTimesMatrix gives.
template <std::size_t Count>
TFAOT_INLINE void vectorsOfRow(const double* row, const double* matrix, std::size_t inner, std::size_t columns,
                               double* out) {
  constexpr std::size_t kWide = sizeof(Doubles) / sizeof(double);
  Doubles totals[Count] = {};
  for (std::size_t k = 0; k < inner; ++k, matrix += columns) {
    for (std::size_t i = 0; i < Count; ++i) {
      Doubles here;
      std::memcpy(&here, matrix + i * kWide, sizeof here);
      totals[i] += row[k] * here;
    }
  }
  std::memcpy(out, totals, sizeof totals);
}

/// `inner` doubles times a row-major matrix: each column adds up in the order of the matrix's rows.
inline void rowTimesMatrix(const double* row, const double* matrix, std::size_t inner, std::size_t columns,
                           double* out) {
  constexpr std::size_t kWide = sizeof(Doubles) / sizeof(double), kMany = 6;
  std::size_t j = 0;
  for (; j + kMany * kWide <= columns; j += kMany * kWide) {
    vectorsOfRow<kMany>(row, matrix + j, inner, columns, out + j);
  }
  for (; j + kWide <= columns; j += kWide) vectorsOfRow<1>(row, matrix + j, inner, columns, out + j);
  for (; j < columns; ++j) {
    double total = 0;
    for (std::size_t k = 0; k < inner; ++k) total += row[k] * matrix[k * columns + j];
    out[j] = total;
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_OF_DOUBLES_H_
