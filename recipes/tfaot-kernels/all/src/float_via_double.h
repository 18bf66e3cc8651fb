// float_via_double.h: functions of one or two floats that are computed in double precision and rounded once.
//
// Sums, products and quotients of doubles have the same bits on every CPU, also fused ones; those of the C library's functions
// depend on its version and on the CPU. Relative errors of the doubles are below 2^-40, so that the result is the float
// nearest to the true value except in about one of a million cases, in which it is the second nearest. Series are Taylor
// series with exact coefficients, of sufficient length.
#ifndef TFAOT_KERNELS_FLOAT_VIA_DOUBLE_H_
#define TFAOT_KERNELS_FLOAT_VIA_DOUBLE_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr double kPi = 0x1.921fb54442d18p+1;
inline constexpr double kLn2Double = 0x1.62e42fefa39efp-1;

TFAOT_INLINE bool isNegative(float x) { return bitsAs<std::uint32_t>(x) >> 31 != 0; }
TFAOT_INLINE double signedAs(double value, float sign) { return isNegative(sign) ? -value : value; }

TFAOT_INLINE Doubles chosen(Longs which, Doubles yes, Doubles no) { return which ? yes : no; }
TFAOT_INLINE Doubles doubles(double x) { return broadcast(x); }

inline constexpr int kWideLanes = kLanesOf<double>;

template <int kCount>
struct Series {
  double coefficients[kCount];

  /// c0 + c1 x + c2 x^2 ..., for a double or a vector.
  template <class Value>
  TFAOT_INLINE Value at(Value x) const {
    Value sum = coefficients[kCount - 1] - Value{};
    TFAOT_UNROLL
    for (int i = kCount - 2; i >= 0; --i) sum = multiplyAdd(sum, x, coefficients[i] - Value{});
    return sum;
  }
};

/// 1 / first, 1 / (first + 2), ...
template <int kCount>
constexpr Series<kCount> oddOnes(int first) {
  Series<kCount> series = {};
  for (int i = 0; i < kCount; ++i) series.coefficients[i] = 1.0 / (2 * i + first);
  return series;
}

/// 1 / first!, 1 / (first + step)!, ...
template <int kCount>
constexpr Series<kCount> inverseFactorials(int first, int step) {
  Series<kCount> series = {};
  double factorial = 1.0;  // exact: below 2^53 up to 18!
  for (int i = 0, n = 1; i < kCount; ++i) {
    for (; n <= first + i * step; ++n) factorial *= n;
    series.coefficients[i] = 1.0 / factorial;
  }
  return series;
}

inline constexpr Series<10> kOfLogarithm = oddOnes<10>(1);
inline constexpr Series<18> kOfAngle = oddOnes<18>(1);
inline constexpr Series<13> kOfExponential = inverseFactorials<13>(0, 1);
inline constexpr Series<9> kOfSine = inverseFactorials<9>(1, 2);
inline constexpr Series<9> kOfCosine = inverseFactorials<9>(0, 2);

/// log((1 + f) / (1 - f)) for |f| < 0.18.
inline double logarithmOfRatio(double f) { return 2.0 * f * kOfLogarithm.at(f * f); }

/// The logarithm of a positive number that is not denormal.
inline double naturalLogarithm(double x) {
  // x = m * 2^e with m between the roots of 1/2 and of 2, so that both terms cannot cancel.
  const std::uint64_t bits = bitsAs<std::uint64_t>(x), root = 0x3fe6a09e667f3bcdu;
  const std::int64_t e = static_cast<std::int64_t>(bits - root) >> 52;
  const double m = bitsAs<double>(bits - (static_cast<std::uint64_t>(e) << 52));
  return static_cast<double>(e) * kLn2Double + logarithmOfRatio((m - 1.0) / (m + 1.0));
}

/// exp(x) in the range of floats; beyond it, a number that becomes infinity or zero as a float.
inline double exponentialByDoubles(double x) {
  const double limited = x > 110.0 ? 110.0 : x < -110.0 ? -110.0 : x;
  const double rounder = 0x1.8p+52, n = (limited * 0x1.71547652b82fep+0 + rounder) - rounder;
  const double r = (limited - n * 0x1.62e42fep-1) - n * 0x1.f473de6af278fp-30;
  return kOfExponential.at(r) * bitsAs<double>(static_cast<std::uint64_t>(static_cast<std::int64_t>(n) + 1023) << 52);
}

/// Like pow in C.
inline double powerByDoubles(float a, float b) {
  if (a == 1.0f || b == 0.0f) return 1.0;
  if (a != a || b != b) return std::numeric_limits<double>::quiet_NaN();
  const double base = __builtin_fabsf(a);
  const double size = __builtin_fabsf(b);
  const bool isWhole = size >= 0x1p+24 || static_cast<double>(static_cast<std::int64_t>(size)) == size;
  const bool isOdd = isWhole && size < 0x1p+24 && static_cast<std::int64_t>(size) % 2 == 1;
  if (a < 0.0f && base < kInfinite && !isWhole) return std::numeric_limits<double>::quiet_NaN();
  double value = 1.0;
  if (base != 1.0) {
    const double logarithm = base == 0.0 ? -kInfinite : base < kInfinite ? naturalLogarithm(base) : kInfinite;
    value = exponentialByDoubles(b * logarithm);
    // Zero and infinity stay so as doubles: the caller would round another double to a finite float.
    if (base == 0.0 || base == kInfinite) value = (base == 0.0) == (b > 0.0f) ? 0.0 : kInfinite;
  }
  return isOdd ? signedAs(value, a) : value;
}

/// An angle as a number of quarters of a turn, of which only the last two bits matter, and a rest of at most about pi / 4.
struct Quarters {
  unsigned count;
  double rest;
};

/// 2 / pi times 2^256, after a word of zeros.
inline constexpr std::uint32_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                               0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};

/// For a number of at least 2^22, by multiplication with the relevant bits of 2 / pi (Payne and Hanek).
inline Quarters quartersOfLarge(double x) {
  __extension__ using Wide = unsigned __int128;
  const auto bits = bitsAs<std::uint32_t>(static_cast<float>(x));  // mantissa * 2^exponent
  const int exponent = static_cast<int>(bits >> 23) - 150;
  const std::uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const int first = exponent - 2 + 32;  // bits before this one contribute whole turns
  const std::uint32_t* const words = kTwoOverPi + first / 32;
  Wide window = 0;
  for (int i = 0; i < 4; ++i) window = window << 32 | words[i];
  if (const int more = first % 32) window = window << more | words[4] >> (32 - more);
  const Wide turn = window * mantissa;  // whole turns are multiples of 2^128 and overflow
  const auto count = static_cast<unsigned>((turn + (Wide{1} << 125)) >> 126);
  const Wide rest = turn - (Wide{count} << 126);  // between -2^125 and 2^125
  const double high = static_cast<double>(static_cast<std::int64_t>(rest >> 64));
  const double low = static_cast<double>(static_cast<std::uint64_t>(rest)) * 0x1p-64;
  return {count, (high + low) * (kPi * 0x1p-63)};
}

/// For |x|, which is finite.
inline Quarters quartersOf(float x) {
  const double size = __builtin_fabsf(x);
  if (size >= 0x1p+22) return quartersOfLarge(size);
  const double rounder = 0x1.8p+52, n = (size * 0x1.45f306dc9c883p-1 + rounder) - rounder;
  // pi / 2 in two parts; products with the first, which has 27 bits, are exact.
  return {static_cast<unsigned>(n), (size - n * 0x1.921fb54p+0) - n * 0x1.10b4611a62633p-30};
}

inline double sineOf(Quarters angle) {
  const double z = -angle.rest * angle.rest;
  const double value = angle.count % 2 == 0 ? angle.rest * kOfSine.at(z) : kOfCosine.at(z);
  return angle.count % 4 < 2 ? value : -value;
}

TFAOT_INLINE bool isNumber(float x) { return x - x == 0.0f; }

inline double sineByDoubles(float x) {
  return isNumber(x) ? signedAs(sineOf(quartersOf(x)), x) : std::numeric_limits<double>::quiet_NaN();
}

inline double cosineByDoubles(float x) {
  if (!isNumber(x)) return std::numeric_limits<double>::quiet_NaN();
  const Quarters angle = quartersOf(x);
  return sineOf(Quarters{angle.count + 1, angle.rest});
}

inline double tangentByDoubles(float x) {
  if (!isNumber(x)) return std::numeric_limits<double>::quiet_NaN();
  const Quarters angle = quartersOf(x);
  return signedAs(sineOf(angle) / sineOf(Quarters{angle.count + 1, angle.rest}), x);
}

inline double cubeRootByDoubles(float x) {
  if (!isNumber(x) || x == 0.0f) return x;
  const double size = __builtin_fabsf(x);
  // A third of the exponent gives the root within an eighth; each step of Newton's method doubles the correct digits.
  double root = bitsAs<double>(bitsAs<std::uint64_t>(size) / 3 + 0x2aa0000000000000u);
  for (int i = 0; i < 4; ++i) root = (2.0 * root + size / (root * root)) / 3.0;
  return signedAs(root, x);
}

/// Like atan2 in C.
inline double angleByDoubles(float y, float x) {
  if (x != x || y != y) return std::numeric_limits<double>::quiet_NaN();
  const double across = __builtin_fabsf(x), up = __builtin_fabsf(y);
  const double less = up < across ? up : across, more = up < across ? across : up;
  double ratio = more == 0.0 ? 0.0 : less == more ? 1.0 : less / more;
  double angle = 0.0;
  if (ratio > 0.41421356) {  // the tangent of pi / 8
    ratio = (ratio - 1.0) / (ratio + 1.0);
    angle = kPi / 4;
  }
  angle += ratio * kOfAngle.at(-ratio * ratio);
  if (up > across) angle = kPi / 2 - angle;
  if (isNegative(x)) angle = kPi - angle;
  return signedAs(angle, y);
}

// The same for vectors: step by step the same operations, so that results have the same bits.

template <class Function, class... Vectors>
TFAOT_INLINE Vector byHalves(Function function, Vectors... x) {
  using HalfOfVector = VectorType<float, kLanes / 2>::Type;
  HalfOfVector made[2];
  TFAOT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const auto wide = [half](Vector each) {
      HalfOfVector part;
      std::memcpy(&part, reinterpret_cast<const char*>(&each) + half * static_cast<int>(sizeof part), sizeof part);
      return __builtin_convertvector(part, Doubles);
    };
    made[half] = __builtin_convertvector(function(wide(x)...), HalfOfVector);
  }
  Vector both;
  std::memcpy(&both, made, sizeof both);
  return both;
}

TFAOT_INLINE Doubles magnitude(Doubles x) { return bitsAs<Doubles>(bitsAs<Longs>(x) & 0x7fffffffffffffff); }

/// m and e in m * 2^e, with m between the roots of 1/2 and of 2, for positive numbers that are not denormal.
struct Parts {
  Doubles mantissa, exponent;
};
TFAOT_INLINE Parts partsOf(Doubles x) {
  using Plain = VectorOf<std::uint64_t>;
  constexpr std::uint64_t kRoot = 0x3fe6a09e667f3bcdu, kBias = std::uint64_t{1023} << 52;
  const Plain bits = bitsAs<Plain>(x);
  // Shifted as unsigned numbers, and converted to doubles by their bits: AVX2 lacks the direct instructions.
  const Plain biased = (bits - kRoot + kBias) >> 52;
  const Doubles e = bitsAs<Doubles>(biased | 0x4330000000000000u) - (0x1p+52 + 1023.0);
  return {bitsAs<Doubles>(bits - ((biased << 52) - kBias)), e};
}

TFAOT_INLINE Doubles logarithmOfRatio(Doubles f) { return 2.0 * f * kOfLogarithm.at(f * f); }

TFAOT_INLINE Doubles naturalLogarithm(Doubles x) {
  const Parts parts = partsOf(x);
  return parts.exponent * kLn2Double + logarithmOfRatio((parts.mantissa - 1.0) / (parts.mantissa + 1.0));
}

TFAOT_INLINE Doubles exponentialByDoubles(Doubles x) {
  const Doubles limited = chosen(x > 110.0, doubles(110.0), chosen(x < -110.0, doubles(-110.0), x));
  const Doubles shifted = limited * 0x1.71547652b82fep+0 + 0x1.8p+52, n = shifted - 0x1.8p+52;
  const Doubles r = (limited - n * 0x1.62e42fep-1) - n * 0x1.f473de6af278fp-30;
  return kOfExponential.at(r) * bitsAs<Doubles>((bitsAs<Longs>(shifted) - 0x4338000000000000 + 1023) << 52);
}

struct QuartersOfVector {
  Longs count;
  Doubles rest;
};
/// For numbers below 2^22.
TFAOT_INLINE QuartersOfVector quartersOf(Doubles size) {
  const Doubles shifted = size * 0x1.45f306dc9c883p-1 + 0x1.8p+52, n = shifted - 0x1.8p+52;
  return {bitsAs<Longs>(shifted), (size - n * 0x1.921fb54p+0) - n * 0x1.10b4611a62633p-30};
}
TFAOT_INLINE Doubles sineOf(QuartersOfVector angle) {
  const Doubles z = -angle.rest * angle.rest;
  const Longs odd = (angle.count & 1) == 1;
  constexpr int kCount = sizeof kOfSine.coefficients / sizeof(double);
  Doubles sum = chosen(odd, doubles(kOfCosine.coefficients[kCount - 1]), doubles(kOfSine.coefficients[kCount - 1]));
  TFAOT_UNROLL
  for (int i = kCount - 2; i >= 0; --i) {
    sum = multiplyAdd(sum, z, chosen(odd, doubles(kOfCosine.coefficients[i]), doubles(kOfSine.coefficients[i])));
  }
  const Doubles value = chosen(odd, sum, angle.rest * sum);
  return bitsAs<Doubles>(bitsAs<Longs>(value) ^ ((angle.count & 2) << 62));
}

TFAOT_INLINE Doubles angleByDoubles(Doubles y, Doubles x) {
  const Doubles across = magnitude(x), up = magnitude(y);
  const Doubles less = chosen(up < across, up, across), more = chosen(up < across, across, up);
  Doubles ratio = chosen(more == 0.0, Doubles{}, chosen(less == more, doubles(1.0), less / more));
  const Longs large = ratio > 0.41421356;
  ratio = chosen(large, (ratio - 1.0) / (ratio + 1.0), ratio);
  Doubles angle = chosen(large, doubles(kPi / 4), Doubles{}) + ratio * kOfAngle.at(-ratio * ratio);
  angle = chosen(up > across, kPi / 2 - angle, angle);
  angle = chosen(bitsAs<Longs>(x) < 0, kPi - angle, angle);
  angle = bitsAs<Doubles>(bitsAs<Longs>(angle) ^ (bitsAs<Longs>(y) & std::numeric_limits<std::int64_t>::min()));
  return chosen(x != x, x, chosen(y != y, y, angle));
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_FLOAT_VIA_DOUBLE_H_
