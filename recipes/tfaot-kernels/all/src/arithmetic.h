// arithmetic.h: integers as HLO computes them, and the rarer functions of floats.
//
// No operation is undefined: sums and products wrap, x / 0 is -1 (the largest number if unsigned), x % 0 is x, and a shift
// by at least the width of the type gives zero, or copies of the sign bit.
#ifndef TFAOT_KERNELS_ARITHMETIC_H_
#define TFAOT_KERNELS_ARITHMETIC_H_

#include "elementwise.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

template <class Element>
using IfInteger = std::enable_if_t<std::is_integral_v<Element> && !std::is_same_v<Element, bool>>;

/// An unsigned type that is wide enough not to be promoted to a signed one.
template <class Element>
using Wide = std::conditional_t<(sizeof(Element) < sizeof(std::uint64_t)), std::uint32_t, std::uint64_t>;

template <class Element>
inline constexpr int kBits = 8 * static_cast<int>(sizeof(Element));

template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element sumOf(Element a, Element b) {
  return static_cast<Element>(static_cast<Wide<Element>>(a) + static_cast<Wide<Element>>(b));
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element differenceOf(Element a, Element b) {
  return static_cast<Element>(static_cast<Wide<Element>>(a) - static_cast<Wide<Element>>(b));
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element productOf(Element a, Element b) {
  return static_cast<Element>(static_cast<Wide<Element>>(a) * static_cast<Wide<Element>>(b));
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element oppositeOf(Element a) {
  return differenceOf(Element{0}, a);
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element magnitudeOf(Element a) {
  return a < Element{0} ? oppositeOf(a) : a;
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element quotientOf(Element a, Element b) {
  if (b == Element{0}) return static_cast<Element>(-1);
  // The most negative number has no negation.
  if (std::is_signed_v<Element> && b == static_cast<Element>(-1)) return oppositeOf(a);
  return static_cast<Element>(a / b);
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element signOf(Element a) {
  return static_cast<Element>((a > Element{0}) - (a < Element{0}));
}
/// For a negative exponent, the fraction is truncated.
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element powerOf(Element base, Element exponent) {
  if (exponent < Element{0}) {
    if (base == static_cast<Element>(-1)) return exponent % 2 == 0 ? Element{1} : base;
    return base == Element{1} ? base : Element{0};
  }
  Element result{1};
  for (; exponent != Element{0}; exponent = static_cast<Element>(exponent / 2)) {
    if (exponent % 2 != 0) result = productOf(result, base);
    base = productOf(base, base);
  }
  return result;
}

template <class Element, class = IfInteger<Element>>
TFAOT_INLINE bool isBelow(Element a, Element b) {
  return a < b;
}
TFAOT_INLINE Mask isBelow(Integers a, Integers b) { return a < b; }
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE bool isWithin(Element places) {
  return static_cast<std::make_unsigned_t<Element>>(places) < static_cast<unsigned>(kBits<Element>);
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element shiftedLeft(Element a, Element places) {
  return isWithin(places) ? static_cast<Element>(static_cast<Wide<Element>>(a) << places) : Element{0};
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element shiftedRight(Element a, Element places) {  // logical
  using Plain = std::make_unsigned_t<Element>;
  return isWithin(places) ? static_cast<Element>(static_cast<Plain>(a) >> places) : Element{0};
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element shiftedWithSign(Element a, Element places) {  // arithmetic
  using Signed = std::make_signed_t<Element>;
  return static_cast<Element>(static_cast<Signed>(a) >> (isWithin(places) ? static_cast<int>(places) : kBits<Element> - 1));
}
/// The number of ones among 32 bits, of an integer or a vector: sums of two bits, of four, of eight, and of all bytes.
template <class Plain>
TFAOT_INLINE Plain onesOfBits(Plain x) {
  x = x - ((x >> 1) & 0x55555555u);
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0fu;
  x = x + (x >> 8);  // not by a product: compilers would take the instruction for one integer, and make no vectors
  return (x + (x >> 16)) & 0x3fu;
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element onesOf(Element a) {
  const auto plain = static_cast<std::make_unsigned_t<Element>>(a);
  if constexpr (sizeof(Element) <= sizeof(std::uint32_t)) return static_cast<Element>(onesOfBits(std::uint32_t{plain}));
  return static_cast<Element>(__builtin_popcountll(plain));
}
template <class Element, class = IfInteger<Element>>
TFAOT_INLINE Element leadingZerosOf(Element a) {
  const auto plain = static_cast<std::make_unsigned_t<Element>>(a);
  return static_cast<Element>(plain == 0 ? kBits<Element> : __builtin_clzll(plain) - (64 - kBits<Element>));
}

// Vectors: sums in the unsigned type, which wraps; other operations lane by lane.
TFAOT_INLINE Integers sumOf(Integers a, Integers b) { return bitsAs<Integers>(bitsAs<Unsigned>(a) + bitsAs<Unsigned>(b)); }
TFAOT_INLINE Integers differenceOf(Integers a, Integers b) { return bitsAs<Integers>(bitsAs<Unsigned>(a) - bitsAs<Unsigned>(b)); }
TFAOT_INLINE Integers productOf(Integers a, Integers b) { return bitsAs<Integers>(bitsAs<Unsigned>(a) * bitsAs<Unsigned>(b)); }
TFAOT_INLINE Integers oppositeOf(Integers a) { return differenceOf(Integers{}, a); }
TFAOT_INLINE Integers magnitudeOf(Integers a) { return chosen(a < 0, oppositeOf(a), a); }
TFAOT_INLINE Integers signOf(Integers a) { return (a < 0) - (a > 0); }
#define TFAOT_BY_LANES(name)                                                                           \
  TFAOT_INLINE Integers name(Integers a, Integers b) {                                                 \
    return byLanes<std::int32_t>(a, b, [](std::int32_t x, std::int32_t y) { return name(x, y); });     \
  }
TFAOT_BY_LANES(powerOf)
#undef TFAOT_BY_LANES

/// Rounded towards zero, in doubles, which hold all quotients except that of the most negative number and -1.
TFAOT_INLINE Integers plainQuotient(Integers a, Integers b) {
  using HalfOfIntegers = VectorType<std::int32_t, kLanes / 2>::Type;
  HalfOfIntegers above[2], below[2];
  std::memcpy(above, &a, sizeof a);
  std::memcpy(below, &b, sizeof b);
  TFAOT_UNROLL
  for (int half = 0; half < 2; ++half) {
    // The result exceeds the quotient by less than the distance to the next integer. This margin is necessary, because
    // compilers multiply by the reciprocal of a constant, which may be too small.
    const Doubles reciprocal = (1.0 + 0x1p-50) / __builtin_convertvector(below[half], Doubles);
    const Doubles ratio = __builtin_convertvector(above[half], Doubles) * reciprocal;
    above[half] = __builtin_convertvector(ratio, HalfOfIntegers);
  }
  std::memcpy(&a, above, sizeof a);
  return a;
}
TFAOT_INLINE Integers quotientOf(Integers a, Integers b) {
  // The most negative number has no negation.
  const Integers found = plainQuotient(a, chosen((b == 0) | (b == -1), filled(std::int32_t{1}), b));
  return chosen(b == 0, filled(std::int32_t{-1}), chosen(b == -1, oppositeOf(a), found));
}
TFAOT_INLINE Integers remainderOf(Integers a, Integers b) {
  const Integers divisor = chosen((b == 0) | (b == -1), filled(std::int32_t{1}), b);
  const Integers found = differenceOf(a, productOf(plainQuotient(a, divisor), divisor));
  return chosen(b == 0, a, found);
}
/// By a constant whose magnitude is above 1: compilers multiply by its reciprocal.
template <std::int32_t kDivisor, int... kLane>
TFAOT_INLINE Integers quotientBy(Integers a, std::integer_sequence<int, kLane...>) {
  return a / Integers{((void)kLane, kDivisor)...};
}
template <std::int32_t kDivisor>
TFAOT_INLINE Integers quotientBy(Integers a) {
  return quotientBy<kDivisor>(a, std::make_integer_sequence<int, kLanes>{});
}
template <std::int32_t kDivisor>
TFAOT_INLINE Integers remainderBy(Integers a) {
  return differenceOf(a, productOf(quotientBy<kDivisor>(a), filled(kDivisor)));
}
template <std::int32_t kDivisor>
TFAOT_INLINE std::int32_t quotientBy(std::int32_t a) {
  return a / kDivisor;
}
template <std::int32_t kDivisor>
TFAOT_INLINE std::int32_t remainderBy(std::int32_t a) {
  return a % kDivisor;
}
TFAOT_INLINE Mask isWithin(Integers places) { return bitsAs<Unsigned>(places) < 32u; }
TFAOT_INLINE Integers shiftedLeft(Integers a, Integers places) {
  return isWithin(places) & bitsAs<Integers>(bitsAs<Unsigned>(a) << (bitsAs<Unsigned>(places) & 31u));
}
TFAOT_INLINE Integers shiftedRight(Integers a, Integers places) {
  return isWithin(places) & bitsAs<Integers>(bitsAs<Unsigned>(a) >> (bitsAs<Unsigned>(places) & 31u));
}
TFAOT_INLINE Integers shiftedWithSign(Integers a, Integers places) {
  return a >> chosen(isWithin(places), places, filled(std::int32_t{31}));
}
TFAOT_INLINE Integers onesOf(Integers a) { return bitsAs<Integers>(onesOfBits(bitsAs<Unsigned>(a))); }
TFAOT_INLINE Integers leadingZerosOf(Integers a) {
  Unsigned x = bitsAs<Unsigned>(a);
  TFAOT_UNROLL
  for (int step = 1; step < 32; step *= 2) x |= x >> step;  // all bits below the first one are set
  return onesOf(bitsAs<Integers>(~x));
}

template <class Value>
TFAOT_INLINE Value copyOf(Value x) {
  return x;
}

// Floats. The sign of NaN or of a zero is the number itself.
TFAOT_INLINE Vector signOf(Vector x) { return chosen(x > 0.0f, broadcast(1.0f), chosen(x < 0.0f, broadcast(-1.0f), x)); }
TFAOT_INLINE float signOf(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x; }
TFAOT_INLINE double signOf(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
TFAOT_INLINE Mask isFinite(Vector x) { return magnitude(x) < std::numeric_limits<float>::infinity(); }
TFAOT_INLINE bool isFinite(float x) { return __builtin_fabsf(x) < std::numeric_limits<float>::infinity(); }
TFAOT_INLINE bool isFinite(double x) { return __builtin_fabs(x) < std::numeric_limits<double>::infinity(); }

/// Replaces each NaN by a positive one: operations return negative NaNs on x86-64 and positive ones on AArch64.
TFAOT_INLINE Vector oneNan(Vector x) { return chosen(x == x, x, broadcast(std::numeric_limits<float>::quiet_NaN())); }
TFAOT_INLINE float oneNan(float x) { return x == x ? x : std::numeric_limits<float>::quiet_NaN(); }
TFAOT_INLINE double oneNan(double x) { return x == x ? x : std::numeric_limits<double>::quiet_NaN(); }

/// Integers in the same order as the doubles; those of floats: elementwise.h.
TFAOT_INLINE std::int64_t inOrder(double x) {
  const auto bits = bitsAs<std::int64_t>(x);
  return bits ^ ((bits >> 63) & 0x7fffffffffffffff);
}

// For float by the functions of this project; for double by double_functions.h, or by the C library.
#define TFAOT_BY_DOUBLES(name, ours)                                                 \
  TFAOT_INLINE float name(float x) { return static_cast<float>(ours(x)); }           \
  TFAOT_INLINE Vector name(Vector x) {                                               \
    return byLane(x, [](float value) { return name(value); });                       \
  }
TFAOT_BY_DOUBLES(cubeRootOf, cubeRootByDoubles)
TFAOT_BY_DOUBLES(roundedAway, std::round)  // exact
#undef TFAOT_BY_DOUBLES

inline constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN(), kNoEnd = std::numeric_limits<float>::infinity();

// (log(1 + f) - f + f^2 / 2) / f^3 for 1 + f between the roots of 1/2 and of 2; relative error of log(1 + f) below 2^-30.
inline constexpr float kLogarithm[] = {0.33333313f,  -0.25000009f, 0.20002124f,  -0.16668005f, 0.14219452f,
                                       -0.1240534f, 0.11888698f, -0.11677516f, 0.067477286f};

/// x as (1 + f) * 2^e, for a positive number that is not denormal.
struct PartsOfFloat {
  Vector f, e;
  Integers exponent;
};
TFAOT_INLINE PartsOfFloat partsOf(Vector x) {
  const Unsigned bits = bitsAs<Unsigned>(x);
  const Integers e = bitsAs<Integers>(bits - 0x3f3504f3u) >> 23;
  return {bitsAs<Vector>(bits - (bitsAs<Unsigned>(e) << 23)) - 1.0f, f32OfS32(e), e};
}

/// e * log(2) + log(1 + f) + `lost`, where the first two terms are added without an error.
TFAOT_INLINE Vector logarithmOfParts(Vector f, Vector e, Vector lost) {
  const Vector whole = e * kLn2High, high = whole + f, low = (whole - high) + f;
  const Vector square = f * f;
  const Vector rest = multiplyAdd(f * square, polynomial(f, kLogarithm), multiplyAdd(e, broadcast(kLn2Low), low + lost));
  return high + multiplyAdd(broadcast(-0.5f), square, rest);
}

/// Within 1 unit in the last place.
TFAOT_INLINE Vector logarithmOf(Vector x) {
  const Mask denormal = x < 0x1p-126f;
  const PartsOfFloat parts = partsOf(chosen(denormal, x * 0x1p+23f, x));
  const Vector found = logarithmOfParts(parts.f, parts.e - chosen(denormal, broadcast(23.0f), Vector{}), Vector{});
  const Vector other = chosen(x == 0.0f, broadcast(-kNoEnd), chosen(x < 0.0f, broadcast(kNoNumber), x));
  return chosen((x > 0.0f) & (x < kNoEnd), found, other);
}
/// Within 1 unit in the last place.
TFAOT_INLINE Vector logarithmOfOnePlus(Vector x) {
  const Vector sum = 1.0f + x;
  const PartsOfFloat parts = partsOf(sum);
  // The rounding error of the sum, on the scale of f. It is nothing beside the largest numbers, whose exponent is 128.
  const Vector gone = chosen(magnitude(x) < 1.0f, x - (sum - 1.0f), 1.0f - (sum - x));
  const Integers scale = 0x3f800000 - bitsAs<Integers>(bitsAs<Unsigned>(parts.exponent) << 23);
  const Vector scaled = gone * bitsAs<Vector>(scale > 0 ? scale : Integers{}), f = parts.f + scaled;
  const Vector found = logarithmOfParts(f, parts.e, (parts.f - f) + scaled);
  const Vector other = chosen(x == -1.0f, broadcast(-kNoEnd), chosen(x < -1.0f, broadcast(kNoNumber), x));
  return chosen((x > -1.0f) & (x < kNoEnd) & (x != 0.0f), found, other);
}

/// `function` computes vectors of doubles whose numbers are below 2^22; other vectors go lane by lane through `alone`.
template <class Function, class Alone>
TFAOT_INLINE Vector ofAngle(Vector x, Function function, Alone alone) {
  const Vector size = magnitude(x);
  if (__builtin_expect(isAny((size >= 0x1p+22f) & (size < kNoEnd)), false)) {
    return byLane(x, [&](float each) { return static_cast<float>(alone(each)); });
  }
  return chosen(size < kNoEnd, byHalves(function, size), broadcast(kNoNumber));
}
TFAOT_INLINE Vector withSignsOf(Vector x, Vector value) {  // of -0, too
  return bitsAs<Vector>(bitsAs<Unsigned>(value) ^ (bitsAs<Unsigned>(x) & 0x80000000u));
}
TFAOT_INLINE Vector cosineOf(Vector x) {
  return ofAngle(x, [](Doubles size) {
    const QuartersOfVector angle = quartersOf(size);
    return sineOf(QuartersOfVector{angle.count + 1, angle.rest});
  }, cosineByDoubles);
}
TFAOT_INLINE Vector sineOf(Vector x) {
  const Vector value = ofAngle(magnitude(x), [](Doubles size) { return sineOf(quartersOf(size)); }, sineByDoubles);
  return withSignsOf(x, value);
}
TFAOT_INLINE Vector tangentOf(Vector x) {
  const Vector value = ofAngle(magnitude(x), [](Doubles size) {
    const QuartersOfVector angle = quartersOf(size);
    return sineOf(angle) / sineOf(QuartersOfVector{angle.count + 1, angle.rest});
  }, tangentByDoubles);
  return withSignsOf(x, value);
}
TFAOT_INLINE double cosineOf(double x) { return std::cos(x); }
TFAOT_INLINE double sineOf(double x) { return std::sin(x); }
TFAOT_INLINE double tangentOf(double x) { return std::tan(x); }
TFAOT_INLINE double cubeRootOf(double x) { return std::cbrt(x); }
TFAOT_INLINE double roundedAway(double x) { return std::round(x); }
TFAOT_INLINE double angleOf(double y, double x) { return std::atan2(y, x); }
TFAOT_INLINE float angleOf(float y, float x) { return static_cast<float>(angleByDoubles(y, x)); }
TFAOT_INLINE Vector angleOf(Vector y, Vector x) {
  return byHalves([](Doubles up, Doubles across) { return angleByDoubles(up, across); }, y, x);
}

/// As `powerByDoubles`.
TFAOT_INLINE Vector powerOf(Vector a, Vector b) {
  const Vector base = magnitude(a), size = magnitude(b);
  const Vector found = byHalves([](Doubles x, Doubles y) { return exponentialByDoubles(y * naturalLogarithm(x)); }, base, b);
  const Mask whole = (size >= 0x1p+24f) | (roundedToEven(size) == size);
  const Mask odd = whole & (size < 0x1p+24f) & ((s32OfF32(size) & 1) == 1);
  const Vector limit = chosen((base == 0.0f) == (b > 0.0f), Vector{}, broadcast(kNoEnd));
  Vector value = chosen((base == 0.0f) | (base == kNoEnd), limit, found);
  value = chosen(base == 1.0f, broadcast(1.0f), value);
  value = chosen(odd, withSignsOf(a, value), value);
  value = chosen((a < 0.0f) & (base < kNoEnd) & ~whole, broadcast(kNoNumber), value);
  value = chosen((a == a) & (b == b), value, broadcast(kNoNumber));
  return chosen((a == 1.0f) | (b == 0.0f), broadcast(1.0f), value);
}

// Half-precision and bfloat16 numbers are held as floats: each operation rounds its result to nearest, ties to even.

TFAOT_INLINE Vector roundedToBrain(Vector x) {
  const Unsigned bits = bitsAs<Unsigned>(x);
  return chosen(x == x, bitsAs<Vector>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u), x);
}
TFAOT_INLINE Vector roundedToHalf(Vector x) {
  const Vector size = magnitude(x);
  const Unsigned bits = bitsAs<Unsigned>(size);
  const Vector rounded = bitsAs<Vector>((bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u);
  // Subnormal numbers are multiples of 2^-24, like floats from 0.5 to 1.
  const Vector small = chosen(size < 0x1p-14f, (size + 0.5f) - 0.5f, rounded);
  const Vector value = chosen(rounded >= 0x1p+16f, broadcast(__builtin_inff()), small);
  return chosen(x == x, withSignOf(value, x), x);
}
TFAOT_INLINE Vector brainOfBits(Integers bits) { return bitsAs<Vector>(bitsAs<Unsigned>(bits) << 16); }
TFAOT_INLINE Vector halfOfBits(Integers bits) {
  const Integers size = bits & 0x7fff;
  const Unsigned exponents = bitsAs<Unsigned>(chosen(size >= 0x7c00, filled(224 << 23), filled(112 << 23)));
  const Vector normal = bitsAs<Vector>((bitsAs<Unsigned>(size) << 13) + exponents);
  const Vector value = chosen(size < 0x400, f32OfS32(size) * 0x1p-24f, normal);
  return bitsAs<Vector>(bitsAs<Unsigned>(value) | (bitsAs<Unsigned>(bits & 0x8000) << 16));
}
TFAOT_INLINE float brainOfBits(std::uint16_t bits) { return bitsAs<float>(std::uint32_t{bits} << 16); }
TFAOT_INLINE float halfOfBits(std::uint16_t bits) {
  const std::uint32_t size = bits & 0x7fffu, sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponents = (size >= 0x7c00u ? 224u : 112u) << 23;  // exponents' other bias; twice for infinity and NaN
  const float value = size < 0x400u ? static_cast<float>(size) * 0x1p-24f : bitsAs<float>((size << 13) + exponents);
  return bitsAs<float>(bitsAs<std::uint32_t>(value) | sign);
}
// For rounded numbers; NaN has the same bits on every target.
TFAOT_INLINE Integers bitsOfBrain(Vector x) {
  return chosen(x == x, bitsAs<Integers>(bitsAs<Unsigned>(x) >> 16), filled(0x7fc0));
}
TFAOT_INLINE Integers bitsOfHalf(Vector x) {
  const Vector value = magnitude(x);
  const Integers sign = bitsAs<Integers>(bitsAs<Unsigned>(x) >> 31 << 15);
  const Integers normal = bitsAs<Integers>((bitsAs<Unsigned>(value) >> 13) - (112u << 10));
  const Integers small = __builtin_convertvector(chosen(value < 0x1p-14f, value, Vector{}) * 0x1p+24f, Integers);
  const Integers size = chosen(value < 0x1p-14f, small, chosen(value >= 0x1p+16f, filled(0x7c00), normal));
  return chosen(x == x, sign | size, filled(0x7e00));
}
TFAOT_INLINE std::uint16_t bitsOfBrain(float x) {
  return x == x ? static_cast<std::uint16_t>(bitsAs<std::uint32_t>(x) >> 16) : std::uint16_t{0x7fc0};
}
TFAOT_INLINE std::uint16_t bitsOfHalf(float x) {
  const std::uint32_t bits = bitsAs<std::uint32_t>(x), sign = bits >> 31 << 15, size = bits & 0x7fffffffu;
  const float value = bitsAs<float>(size);
  if (!(x == x)) return 0x7e00;
  if (value >= 0x1p+16f) return static_cast<std::uint16_t>(sign | 0x7c00u);
  const std::uint32_t small = value < 0x1p-14f ? static_cast<std::uint32_t>(value * 0x1p+24f) : (size >> 13) - (112u << 10);
  return static_cast<std::uint16_t>(sign | small);
}

#define TFAOT_OF_ONE(name) \
  TFAOT_INLINE float name(float x) { return name(broadcast(x))[0]; }
TFAOT_OF_ONE(roundedToBrain)
TFAOT_OF_ONE(roundedToHalf)
TFAOT_OF_ONE(logarithmOf)
TFAOT_OF_ONE(logarithmOfOnePlus)
TFAOT_OF_ONE(cosineOf)
TFAOT_OF_ONE(sineOf)
TFAOT_OF_ONE(tangentOf)
#undef TFAOT_OF_ONE

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ARITHMETIC_H_
