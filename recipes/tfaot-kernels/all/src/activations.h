// activations.h: activations of vectors. Their errors are stated at Activation and measured by the tests.
//
// All of them are based on exp of arguments that are not positive, so nothing overflows. The polynomials are minimax fits
// to the functions that their comments name, computed for this project (docs/decisions).
#ifndef TFAOT_KERNELS_ACTIVATIONS_H_
#define TFAOT_KERNELS_ACTIVATIONS_H_

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

template <std::size_t kCount>
TFAOT_INLINE Vector polynomial(Vector x, const float (&coefficients)[kCount]) {
  Vector sum = broadcast(coefficients[kCount - 1]);
  TFAOT_UNROLL
  for (std::size_t i = 1; i < kCount; ++i) sum = multiplyAdd(sum, x, broadcast(coefficients[kCount - 1 - i]));
  return sum;
}

// (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2, relative error of exp(r) - 1 below 2^-26.
inline constexpr float kExp[] = {0.49999997f, 0.166665435f, 0.0416672006f, 0.00836658012f, 0.00138825073f};
// (log(1 + e) / d - 1) / d^2 as a function of d^2 where d = e / (1 + e / 2), 0 <= e <= 1; relative error below 2^-33.
inline constexpr float kLog[] = {0.0833333433f, 0.0124996491f, 0.00223569525f, 0.000418505399f, 0.00011866053f};
// exp(t^2 / 2) * Phi(-t) / u as a function of u = 1 / (1 + 0.3 t), 0 <= t <= 15, where Phi is the normal
// distribution; relative error below 2^-28.
inline constexpr float kTail[] = {0.119686715f,   0.119571313f, 0.110239379f,  0.0783720464f, 0.0962055102f,
                                  -0.0795103759f, 0.19188486f,  -0.228286043f, 0.112465352f,  -0.020628769f};
inline constexpr float kTailSlope = 0.3f;

// tanh(x) / x as a function of x^2 is the first polynomial over the second, |x| <= kTanhLimit; relative error below
// 2^-25. Beyond that, the result is limited to 1. (The constant terms are chosen such that the rounded result is best.)
inline constexpr float kTanhAbove[] = {1.44735646f, 0.193661585f, 0.00505822618f, 2.98099694e-05f, 1.93029255e-08f};
inline constexpr float kTanhBelow[] = {1.44735658f, 0.676113486f, 0.037448898f, 0.000475362642f, 1.12448197e-06f};
inline constexpr float kTanhLimit = 9.01f;

inline constexpr float kLog2OfE = 1.44269504f;
inline constexpr float kLn2 = 0.693147182f;
inline constexpr float kLn2High = 0.693145752f;  // 15 bits: its product with any exponent is exact
inline constexpr float kLn2Low = 1.42860682e-06f;
// Adding 1.5 * 2^23 rounds a number to an integer, in the last bits of the sum; 127 adds the bias of exponents.
inline constexpr float kRounder = 12582912.0f + 127.0f;

TFAOT_INLINE Vector magnitude(Vector x) { return bitsAs<Vector>(bitsAs<Unsigned>(x) & 0x7fffffffu); }

TFAOT_INLINE Vector withSignOf(Vector value, Vector sign) {
  return bitsAs<Vector>(bitsAs<Unsigned>(value) | (bitsAs<Unsigned>(sign) & 0x80000000u));
}

// These functions keep NaN and the sign of zero.
TFAOT_INLINE Vector negativePart(Vector x) { return smaller(zeros(), x); }
TFAOT_INLINE Vector positivePart(Vector x) { return larger(zeros(), x); }

/// The integer that is nearest to x / log(2). For NaN, `n` is NaN and `biased` unspecified.
struct Power {
  Vector n;
  Unsigned biased;  ///< n + 127 in the last bits
};

TFAOT_INLINE Power nearestPower(Vector x) {
  const Vector rounded = multiplyAdd(x, broadcast(kLog2OfE), broadcast(kRounder));
  return {rounded - broadcast(kRounder), bitsAs<Unsigned>(rounded)};
}

/// x - n * log(2).
TFAOT_INLINE Vector reducedBy(Power power, Vector x) {
  return subtractProduct(subtractProduct(x, power.n, broadcast(kLn2High)), power.n, broadcast(kLn2Low));
}

inline constexpr float kExpLimit = 80.0f;  // exp(-kExpLimit) is a normal number, and negligible compared with 1

/// exp(x) - 1 for -kExpLimit <= x <= 0. The error of a single constant for log(2) is scaled by 2^n, and so is negligible
/// compared with 2^n - 1.
TFAOT_INLINE Vector expMinusOne(Vector x) {
  const Power power = nearestPower(x);
  const Vector r = subtractProduct(x, power.n, broadcast(kLn2));
  const Vector scale = bitsAs<Vector>(power.biased << 23);
  const Vector inner = multiplyAdd(r * r, polynomial(r, kExp), r);
  return multiplyAdd(scale, inner, scale - 1.0f);
}

/// exp(x) as a product whose first factor is a normal number or zero, and whose second one is a power of two. Multiplying
/// by the first one before the second loses no digits if exp(x) itself is denormal.
struct Exponential {
  Vector large;
#if defined(TFAOT_AVX512)
  Vector exponent;
  TFAOT_INLINE Vector scaled(Vector value) const { return _mm512_maskz_scalef_ps(kAllLanes, value, exponent); }
#else
  Vector scale;
  TFAOT_INLINE Vector scaled(Vector value) const { return value * scale; }
#endif
  TFAOT_INLINE Vector value() const { return scaled(large); }
};

/// exp(x), or exp(x + correction), for x <= 0 and a small correction; zero below -110, also when multiplied by 10^3.
template <class... Correction>
TFAOT_INLINE Exponential exponential(Vector x, Correction... correction) {
  const Vector limited = larger(broadcast(-110.0f), x);
  const Power power = nearestPower(limited);
  const Vector r = (reducedBy(power, limited) + ... + correction);
  const Vector mantissa = 1.0f + multiplyAdd(r * r, polynomial(r, kExp), r);
#if defined(TFAOT_AVX512)
  // One instruction multiplies by any power of two, with the same rounding as the two factors below.
  return {x <= -110.0f ? Vector{} : mantissa, power.n};
#else
  // n = -2 * half - odd: both factors are normal numbers for all n down to -160.
  const Unsigned minus = (127u - power.biased) & 0xffu;
  const Unsigned half = minus >> 1;
  const Vector large = mantissa * bitsAs<Vector>((127u - half) << 23);
  const Vector scale = bitsAs<Vector>((127u - (minus - half)) << 23);
  return {large, bitsAs<Vector>(bitsAs<Unsigned>(scale) & bitsAs<Unsigned>(x > -110.0f))};
#endif
}

/// exp(x) for x <= 0: at -110 it is rounded to zero, so that no case distinction is necessary.
TFAOT_INLINE Vector exponentialOfNegative(Vector x) {
  const Vector limited = larger(broadcast(-110.0f), x);
  const Power power = nearestPower(limited);
  const Vector r = reducedBy(power, limited);
  const Vector mantissa = 1.0f + multiplyAdd(r * r, polynomial(r, kExp), r);
#if defined(TFAOT_AVX512)
  return _mm512_maskz_scalef_ps(kAllLanes, mantissa, power.n);
#else
  const Unsigned minus = (127u - power.biased) & 0xffu;
  const Unsigned half = minus >> 1;
  return mantissa * bitsAs<Vector>((127u - half) << 23) * bitsAs<Vector>((127u - (minus - half)) << 23);
#endif
}

/// exp(-|x|) - 1 is at least x for x <= 0, and negative for x > 0, so the larger one of both is elu(x). For zeros it is x,
/// with its sign.
TFAOT_INLINE Vector elu(Vector x) { return larger(expMinusOne(negativeMagnitude(x, kExpLimit)), x); }

TFAOT_INLINE Vector selu(Vector x) {
  const Vector below = larger(broadcast(-kExpLimit), negativePart(x));
  return withSignOf(multiplyAdd(positivePart(x), broadcast(1.05070099f), expMinusOne(below) * 1.75809934f), x);
}

TFAOT_INLINE Vector hyperbolicTangent(Vector x) {
  const Vector square = smaller(broadcast(kTanhLimit * kTanhLimit), x * x);
  const Vector value = x * polynomial(square, kTanhAbove) / polynomial(square, kTanhBelow);
  return larger(broadcast(-1.0f), smaller(broadcast(1.0f), value));
}

/// factor * sigmoid(x). Unlike `sigmoid` it keeps all digits of a product with a denormal sigmoid.
TFAOT_INLINE Vector timesSigmoid(Vector factor, Vector x) {
  const Exponential e = exponential(-magnitude(x));
  const Mask negative = x < 0.0f;
  const Vector one = broadcast(1.0f);
  const Vector value = factor * (negative ? e.large : one) / (1.0f + e.value());
  return negative ? e.scaled(value) : value;
}

/// 1 / (1 + exp(-x)), numerator and denominator divided by 2^64: so nothing overflows if the result is denormal, at the cost
/// of no instruction. Beyond the limits it is 1 or 0. It takes 0.6 of the time of `timesSigmoid` (AVX-512), or half (AVX2).
TFAOT_INLINE Vector sigmoid(Vector x) {
  constexpr float kScaled = 0x1p-64f;
  constexpr float kPlaces = 12582912.0f + 127.0f - 64.0f;  // kRounder, for 2^(n - 64)
  const Vector limited = smaller(broadcast(20.0f), larger(broadcast(-110.0f), x));
  const Vector rounded = multiplyAdd(limited, broadcast(-kLog2OfE), broadcast(kPlaces));
  const Vector n = rounded - broadcast(kPlaces);
  // exp(-x) = 2^n * (1 - less), where r = x + n * log(2).
  const Vector r = multiplyAdd(n, broadcast(kLn2Low), multiplyAdd(n, broadcast(kLn2High), limited));
  const float coefficients[] = {-kExp[0], kExp[1], -kExp[2], kExp[3], -kExp[4]};
  const Vector less = multiplyAdd(r * r, polynomial(r, coefficients), r);
  const Vector power = bitsAs<Vector>(bitsAs<Unsigned>(rounded) << 23);
  // The addition is not fused, because units for additions alone have nothing else to do.
  return kScaled / subtractProduct(power + kScaled, power, less);
}

TFAOT_INLINE Vector softplus(Vector x) {
  const Vector e = exponential(-magnitude(x)).value();
  const Vector d = e / multiplyAdd(0.5f, e, 1.0f);
  const Vector square = d * d;
  return positivePart(x) + multiplyAdd(d * square, polynomial(square, kLog), d);
}

TFAOT_INLINE Vector geluErf(Vector x) {
  const Vector distance = magnitude(x);
  const Vector t = smaller(broadcast(15.0f), distance);
  // The square in two parts: the first is exact, because its root has 12 bits.
  const Vector root = bitsAs<Vector>(bitsAs<Unsigned>(t) & 0xfffff000u);
  const Exponential e = exponential(-0.5f * root * root, -0.5f * (t - root) * (t + root));
  const Vector u = 1.0f / multiplyAdd(kTailSlope, t, 1.0f);
  const Mask negative = x < 0.0f;
  const Vector tail = e.scaled((negative ? x : t) * (u * polynomial(u, kTail) * e.large));
  return negative ? tail : x - tail;
}

TFAOT_INLINE Vector geluTanh(Vector x) {
  return timesSigmoid(x, x * multiplyAdd(0.0713548163f, x * x, 1.59576912f));
}

/// min(max(x, low), high).
TFAOT_INLINE Vector clipped(Vector x, float low, float high) {
  return smaller(broadcast(high), larger(broadcast(low), x));
}

/// x + 3 is exact if it is small.
TFAOT_INLINE Vector hardSwish(Vector x) { return x * (clipped(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f)); }

TFAOT_INLINE Vector leakyRelu(Vector x, float slope) { return x > 0.0f ? x : x * slope; }

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ACTIVATIONS_H_
