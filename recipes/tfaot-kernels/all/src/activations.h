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
// (log(1 + e) - e) / e^2, 0 <= e <= 1; relative error of log(1 + e) below 2^-26.
inline constexpr float kLog[] = {-0.499999315f, 0.333301961f, -0.249532163f, 0.196592912f,  -0.152310729f,
                                 0.104407415f,  -0.0550434403f, 0.0186882466f, -0.00295770168f};
// exp(t^2 / 2) * Phi(-t) * (kTailSlope * t + kTailStart) - 1, where Phi is the normal distribution, as a function of
// w - kTailMiddle, with w = t / (kTailSlope * t + kTailStart), 0.6 <= t <= 15; relative error of the sum with 1 below 2^-27.1.
inline constexpr float kTail[] = {0.134348333f, -1.81450486f, -0.47109735f, 3.96365809f, 4.45412016f,
                                  -8.83023739f, -32.4086151f, -17.8584805f, 121.952927f, 259.916016f};
inline constexpr float kTailSlope = 1.9f, kTailStart = 3.154f, kTailMiddle = 0.306801796f;
inline constexpr float kTailLimit = 14.8f;  // gelu of -14.8 is rounded to zero
// (Phi(x) - 1/2) / x as a function of x^2, |x| <= kCentre; error of Phi(x) below 2^-27.
inline constexpr float kCentralPhi[] = {0.398942173f, -0.0664869398f, 0.00994333439f, -0.00108705892f};
inline constexpr float kCentre = 0.62f;
// The same for |x| <= kNearLimit; error of Phi(x) below 2^-16.2. At the ends Phi(x) is 0 and 1 or beyond.
inline constexpr float kNearPhi[] = {0.3988965f,    -0.066326566f, 0.009800354f,   -0.0011025401f, 9.220202e-05f,
                                     -5.4882717e-06f, 2.1667827e-07f, -5.0279585e-09f, 5.1497234e-11f};
inline constexpr float kNearLimit = 4.3f;

// (tanh(r) / r - 1) / r^2 as a function of r^2, |r| <= log(2) / 4; relative error of tanh(r) below 2^-23.3, and below 2^-25 from 0.13 on,
// where tanh of 0.17 to 0.25 comes from.
inline constexpr float kTanh[] = {-0.333305687f, 0.130833238f};
inline constexpr float kTanhLimit = 10.0f;  // tanh of it is rounded to 1

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

// CPUs of Intel take some 150 cycles for a result that is denormal before it is rounded, also if it becomes zero. So where a function is
// zero, its last steps are given zeros, or zero is selected after steps on harmless numbers. Scores that a mask of attention hides
// are hardly anything else.

inline constexpr float kNoExponential = -104.0f;  ///< exp of anything below is zero

/// exp(x) for x <= 0.
TFAOT_INLINE Vector exponentialOfNegative(Vector x) {
  const Vector limited = x < kNoExponential ? zeros() : x;
  const Power power = nearestPower(limited);
  const Vector r = reducedBy(power, limited);
  const Vector mantissa = 1.0f + multiplyAdd(r * r, polynomial(r, kExp), r);
  const Vector value = timesFractionOfTwo(mantissa, power.n, power.biased);
  return x < kNoExponential ? zeros() : value;
}

/// exp(-|x|) - 1 is at least x for x <= 0, and negative for x > 0, so the larger one of both is elu(x). For zeros it is x,
/// with its sign.
TFAOT_INLINE Vector elu(Vector x) { return larger(expMinusOne(negativeMagnitude(x, kExpLimit)), x); }

TFAOT_INLINE Vector selu(Vector x) {
  const Vector below = larger(broadcast(-kExpLimit), negativePart(x));
  return withSignOf(multiplyAdd(positivePart(x), broadcast(1.05070099f), expMinusOne(below) * 1.75809934f), x);
}

/// With 2 s * exp(2 r) = exp(-2 |x|), h = tanh(r), a = 1/2 - s and b = 1/2 + s, tanh(|x|) is the quotient of 2 a - 2 b h and 2 b - 2 a h.
/// This is a plus the quotient of a^2 - (b - a^2) h and b - a h, which is at most 1/2, so its roundings count half. For |x| below
/// log(2) / 4, where a is 0 and b is 1, it is -h, without a rounding. Decision 078 compares it with others.
TFAOT_INLINE Vector hyperbolicTangent(Vector x) {
  constexpr float kHalfRounder = kRounder - 1.0f;  // s is 2^(n - 1)
  const Vector below = larger(broadcast(-kTanhLimit), bitsAs<Vector>(bitsAs<Unsigned>(x) | 0x80000000u));
  const Vector rounded = multiplyAdd(below, broadcast(2.0f * kLog2OfE), broadcast(kHalfRounder));
  const Vector r = subtractProduct(below, rounded - broadcast(kHalfRounder), broadcast(0.5f * kLn2));
  const Vector s = bitsAs<Vector>(bitsAs<Unsigned>(rounded) << 23), square = r * r;
  const Vector h = multiplyAdd(square * r, polynomial(square, kTanh), r);
  const Vector a = 0.5f - s, b = 0.5f + s;
  return withSignOf(a + subtractProduct(a * a, subtractProduct(b, a, a), h) / subtractProduct(b, a, h), x);
}

/// exp(-x) as 2^n * (1 - less), with 2^(n - 64) as `scaled`.
struct Inverse {
  Vector scaled, less;
};

inline constexpr float kScaled = 0x1p-64f;  // nothing overflows or becomes denormal that is multiplied by it
/// kRounder, for 2^(n - 64).
inline constexpr float kScaledRounder = 12582912.0f + 127.0f - 64.0f;

inline constexpr float kExpOfMinus[] = {-kExp[0], kExp[1], -kExp[2], kExp[3], -kExp[4]};

/// exp(-x) for -110 <= x <= 20.
TFAOT_INLINE Inverse inverseExponential(Vector x) {
  const Vector rounded = multiplyAdd(x, broadcast(-kLog2OfE), broadcast(kScaledRounder));
  const Vector n = rounded - broadcast(kScaledRounder);
  const Vector r = multiplyAdd(n, broadcast(kLn2Low), multiplyAdd(n, broadcast(kLn2High), x));
  return {bitsAs<Vector>(bitsAs<Unsigned>(rounded) << 23), multiplyAdd(r * r, polynomial(r, kExpOfMinus), r)};
}
/// (1 + exp(-x)) * 2^-64. If exp(-x) was added to 1 before it was multiplied, 1 would be lost at 2^24.
TFAOT_INLINE Vector scaledDenominator(Inverse inverse) {
  return inverse.scaled + subtractProduct(broadcast(kScaled), inverse.scaled, inverse.less);
}

/// `value` * 2^-64 for x up to `limit`, x beyond it. A denormal result is rounded once more, which is nothing beside its last
/// place. For minus infinity it is NaN, as a product with zero.
TFAOT_INLINE Vector scaledUpTo(float limit, Vector x, Vector value) {
  return x > limit ? x : multiplyAdd(value, broadcast(kScaled), x * 0.0f);
}

/// x * sigmoid(x), which is zero below -109.
TFAOT_INLINE Vector swish(Vector x) {
  const Vector limited = smaller(broadcast(20.0f), larger(broadcast(-110.0f), x));
  const Vector numerator = x < -109.0f ? x * 0.0f : limited;
  return scaledUpTo(20.0f, x, numerator / scaledDenominator(inverseExponential(limited)));
}

/// 1 / (1 + exp(-x)), numerator and denominator divided by 2^64: so nothing overflows if the result is denormal, at the cost
/// of no instruction. Beyond the limits it is 1 or 0.
TFAOT_INLINE Vector sigmoid(Vector x) {
  const Vector limited = smaller(broadcast(20.0f), larger(broadcast(-110.0f), x));
  return (x < kNoExponential ? zeros() : broadcast(kScaled)) / scaledDenominator(inverseExponential(limited));
}

TFAOT_INLINE Vector softplus(Vector x) {
  const Vector e = exponentialOfNegative(-magnitude(x));
  // The square of a smaller number is lost beside it.
  const Vector large = e < 0x1p-30f ? zeros() : e;
  return positivePart(x) + multiplyAdd(large * large, polynomial(large, kLog), e);
}

/// A square that is rounded, and what the rounding lost.
struct Square {
  Vector rounded, lost;
};
TFAOT_INLINE Square minusHalfSquare(Vector t) {
  if constexpr (kFuses) {
    const Vector half = -0.5f * t, square = half * t;
    return {square, multiplyAdd(half, t, -square)};
  } else {
    // The first part is exact, because its root has 12 bits.
    const Vector root = bitsAs<Vector>(bitsAs<Unsigned>(t) & 0xfffff000u);
    return {-0.5f * root * root, -0.5f * (t - root) * (t + root)};
  }
}

/// x * Phi(x) near zero; elsewhere max(x, 0) - t * Phi(-t), t = |x|, where t * Phi(-t) is the product of w, exp(-t^2 / 2) and 1 + q. Both
/// of these are added to 1 only in the last step, so that their roundings count little: the slope and start of w are such that q is
/// small, and that w and its divisor are not just above powers of two, where roundings count most, for results just below them.
/// exp(-t^2 / 2) is scaled by 2^64 until the end. Decision 078 has the errors of others.
TFAOT_INLINE Vector geluErf(Vector x) {
  constexpr float kRounderUp = kRounder + 64.0f;
  const Vector t = smaller(broadcast(kTailLimit), magnitude(x));
  const Vector w = t / multiplyAdd(broadcast(kTailSlope), t, broadcast(kTailStart));
  const Square square = minusHalfSquare(t);
  const Vector rounded = multiplyAdd(square.rounded, broadcast(kLog2OfE), broadcast(kRounderUp)), n = rounded - broadcast(kRounderUp);
  const Vector high = subtractProduct(square.rounded, n, broadcast(kLn2High)), low = subtractProduct(square.lost, n, broadcast(kLn2Low));
  const Vector r = high + low, rest = high + multiplyAdd(r * r, polynomial(r, kExp), low);  // of 2^n * (1 + rest)
  const Vector q = polynomial(w - kTailMiddle, kTail), more = multiplyAdd(q, rest, q + rest);
  const Vector scaled = multiplyAdd(w, more, w) * bitsAs<Vector>(bitsAs<Unsigned>(rounded) << 23);
  const Vector far = subtractProduct(x < 0.0f ? x * 0.0f : x, scaled, broadcast(kScaled));
  return t < kCentre ? x * multiplyAdd(x, polynomial(x * x, kCentralPhi), 0.5f) : far;
}

/// The same with an error of up to 2^-16 of |x|, by a quarter of the instructions: for results that are stored as bfloat16, which rounds
/// them by up to 2^-8.
TFAOT_INLINE Vector nearGeluErf(Vector x) {
  const Vector limited = smaller(broadcast(kNearLimit), larger(broadcast(-kNearLimit), x));
  const Vector phi = multiplyAdd(limited, polynomial(limited * limited, kNearPhi), broadcast(0.5f));
  return x * smaller(broadcast(1.0f), positivePart(phi));
}

/// x * sigmoid(y), y = 2 * sqrt(2 / pi) * 0.044715 * x * (x^2 + 1 / 0.044715). The error of y, which exp would multiply by up to 110, is
/// computed and added.
TFAOT_INLINE Vector geluTanh(Vector x) {
  // The two factors in two parts each; kAddend has so few bits that its distance from a sum is exact.
  constexpr float kSlope = 0.0713548163f, kSlopeLow = 2.3988324e-09f, kAddend = 22.375f, kAddendLow = -0.0111399978f;
  const Vector limited = smaller(broadcast(6.0f), larger(broadcast(-11.0f), x));
  const Vector slope = limited * kSlope, sum = multiplyAdd(limited, limited, kAddend);
  const Vector slopeLow = multiplyAdd(broadcast(kSlopeLow), limited, multiplyAdd(broadcast(kSlope), limited, -slope));
  const Vector sumLow = multiplyAdd(limited, limited, kAddend - sum) + kAddendLow;
  const Vector rounded = multiplyAdd(slope * sum, broadcast(-kLog2OfE), broadcast(kScaledRounder));
  const Vector n = rounded - broadcast(kScaledRounder);
  const Vector low = multiplyAdd(n, broadcast(kLn2Low), multiplyAdd(slope, sumLow, slopeLow * sum));
  // The sum of both is rounded only where this is multiplied by itself.
  const Vector high = multiplyAdd(slope, sum, n * kLn2High), r = high + low;
  const Vector less = high + multiplyAdd(r * r, polynomial(r, kExpOfMinus), low);
  const Vector numerator = x < -11.0f ? x * 0.0f : limited;  // the result is zero there
  return scaledUpTo(6.0f, x, numerator / scaledDenominator({bitsAs<Vector>(bitsAs<Unsigned>(rounded) << 23), less}));
}

/// min(max(x, low), high).
TFAOT_INLINE Vector clipped(Vector x, float low, float high) {
  return smaller(broadcast(high), larger(broadcast(low), x));
}

/// x + 3 is exact if it is small. 1/6 is the sum of two floats, so its product is rounded once, and 1 for 6.
TFAOT_INLINE Vector hardSwish(Vector x) {
  constexpr float kSixth = 1.0f / 6.0f, kSixthLow = static_cast<float>(1.0 / 6.0 - kSixth);
  const Vector sum = clipped(x + 3.0f, 0.0f, 6.0f);
  return x * multiplyAdd(sum, broadcast(kSixth), sum * kSixthLow);
}

TFAOT_INLINE Vector leakyRelu(Vector x, float slope) { return x > 0.0f ? x : x * slope; }

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ACTIVATIONS_H_
