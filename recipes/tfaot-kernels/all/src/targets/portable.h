// portable.h: each operation that some target has a better form of, for any vectors.
//
// These are templates, so that a target's function for the same vectors is preferred. Kernels get that choice from vectors.h.
#ifndef TFAOT_KERNELS_TARGETS_PORTABLE_H_
#define TFAOT_KERNELS_TARGETS_PORTABLE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../target.h"
#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// Parts of vectors

/// The first `count` elements, and zeros.
template <class Element>
TFAOT_INLINE VectorOf<Element> loadFirst(const Element* from, std::size_t count) {
  Element padded[kLanesOf<Element>];
  for (std::size_t i = 0; i < kLanesOf<Element>; ++i) padded[i] = i < count ? from[i] : Element{};
  return load(padded);
}
template <class Element>
TFAOT_INLINE void storeFirst(Element* to, std::size_t count, VectorOf<Element> value) {
  Element padded[kLanesOf<Element>];
  store(padded, value);
  // Up to the constant, not to `count`, because GCC warns that `padded` might be too short.
  for (std::size_t i = 0; i < kLanesOf<Element>; ++i) {
    if (i < count) to[i] = padded[i];
  }
}
/// The same for a known number, without masks.
template <std::size_t kCount, class Element>
TFAOT_INLINE void storeFirst(Element* to, VectorOf<Element> value) {
  if constexpr (kCount >= kLanesOf<Element>) return store(to, value);
  storeFirst(to, kCount, value);
}
/// Half a vector, and zeros; without a mask.
template <class Element>
TFAOT_INLINE VectorOf<Element> loadHalf(const Element* from) {
  return loadFirst(from, kLanesOf<Element> / 2);
}
template <class Element>
TFAOT_INLINE void storeHalf(Element* to, VectorOf<Element> value) {
  storeFirst(to, kLanesOf<Element> / 2, value);
}
/// The first kCount elements; other lanes may hold anything.
template <int kCount, class Element>
TFAOT_INLINE VectorOf<Element> loadAtLeast(const Element* from) {
  return loadFirst(from, kCount);
}
/// The first `count` elements that lie `stride` apart, and zeros.
template <class Element>
TFAOT_INLINE VectorOf<Element> loadApart(const Element* from, std::size_t count, std::ptrdiff_t stride) {
  Element values[kLanesOf<Element>] = {};
  TFAOT_UNROLL
  for (std::size_t i = 0; i < kLanesOf<Element>; ++i) {
    if (i < count) values[i] = from[static_cast<std::ptrdiff_t>(i) * stride];
  }
  return load(values);
}
/// Lane i is from[i] if bit i of `lanes` is set, and otherwise that of `others`. Only if kHasMasks.
template <class Element>
VectorOf<Element> loadLanes(VectorOf<Element> others, std::uint32_t lanes, const Element* from);
template <class Element>
void storeLanes(Element* to, std::uint32_t lanes, VectorOf<Element> value);

// Narrower integers. GCC 12 does not use vector instructions for conversions between such widths.

/// kLanes of them as integers.
template <class Narrow>
TFAOT_INLINE Integers widened(const Narrow* from) {
  Narrow narrow[kLanes];
  std::memcpy(narrow, from, sizeof narrow);
  std::int32_t wide[kLanes];
  for (int i = 0; i < kLanes; ++i) wide[i] = narrow[i];
  return load(wide);
}
/// The first `count`, fewer than kLanes, and zeros.
template <class Narrow>
TFAOT_INLINE Integers widened(const Narrow* from, std::size_t count) {
  Narrow narrow[kLanes] = {};
  std::memcpy(narrow, from, count * sizeof *from);
  return widened(narrow);
}
template <class Narrow>
TFAOT_INLINE void storeNarrowed(Narrow* to, Integers wide) {
  Narrow narrow[kLanes];
  for (int i = 0; i < kLanes; ++i) narrow[i] = static_cast<Narrow>(wide[i]);
  std::memcpy(to, narrow, sizeof narrow);
}
template <class Narrow>
TFAOT_INLINE void storeNarrowed(Narrow* to, std::size_t count, Integers wide) {
  Narrow narrow[kLanes];
  storeNarrowed(narrow, wide);
  std::memcpy(to, narrow, count * sizeof *to);
}
/// The nearest integers, half to even; of numbers below -2^22 any that are as low, and none may be 2^22 or above.
template <class Numbers>
TFAOT_INLINE Integers nearest(Numbers x) {
  // Beside a number so large a float has no bits for fractions; its last bits are then the whole number.
  const Numbers large = broadcast(0x1.8p+23f), least = broadcast(-0x1p+22f);
  return bitsAs<Integers>((x > least ? x : least) + large) - bitsAs<Integers>(large);
}
/// Integers of 16 bits as bytes, vector by vector: those below 0 as 0, those above 255 as 255.
template <class Values>
TFAOT_INLINE VectorOf<std::uint8_t> bytesOf(Values a, Values b, Values c, Values d) {
  const Values wide[] = {a, b, c, d};
  std::uint8_t narrow[4 * kLanes];
  for (int v = 0; v < 4; ++v) {
    for (int i = 0; i < kLanes; ++i) {
      const std::int32_t x = wide[v][i];
      narrow[v * kLanes + i] = static_cast<std::uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x);
    }
  }
  return load(narrow);
}

/// A vector in equal parts that lie `apart` bytes apart.
template <int kParts, class Bytes>
TFAOT_INLINE void storeParts(std::uint8_t* to, std::size_t apart, Bytes bytes) {
  constexpr std::size_t kSize = sizeof bytes / kParts;
  for (int i = 0; i < kParts; ++i) std::memcpy(to + i * apart, reinterpret_cast<const char*>(&bytes) + i * kSize, kSize);
}

// Registers

/// Makes GCC load a value once that is used several times: it would make it a memory operand of each use, which costs more
/// than it saves. Generates no instruction, and may be empty.
template <class Values>
TFAOT_INLINE void keepInRegister(Values&) {}
/// The same for an address: GCC would keep each address that a loop computes from it in a register of its own.
template <class Element>
TFAOT_INLINE void keepInRegister(Element*& address) {
  TFAOT_OPAQUE_TO_GCC("+r", address);
}

// Arithmetic

/// a * b + c, as target.h says.
template <class Values>
TFAOT_INLINE Values multiplyAdd(Values a, Values b, Values c) {
  if constexpr (!kFuses) {
    return a * b + c;
  } else if constexpr (std::is_same_v<Values, float>) {
    return __builtin_fmaf(a, b, c);
  } else if constexpr (std::is_same_v<Values, double>) {
    return __builtin_fma(a, b, c);
  } else {
    for (std::size_t i = 0; i < sizeof(Values) / sizeof a[0]; ++i) c[i] = multiplyAdd(a[i], b[i], c[i]);
    return c;
  }
}

/// `magnitude`, or what it is below 0 if `sign` is; of a `magnitude` of 0, which has no sign, 0.
template <class Values>
TFAOT_INLINE Values withSign(Values magnitude, Values sign) {
  const Values below = sign >> 31;
  return (magnitude ^ below) - below;
}

/// Of each lane the products of its lower and of its upper 16 bits, added. Not of -2^15 by -2^15 twice.
template <class Values>
TFAOT_INLINE Values sumsOfPairs(Values a, Values b) {
  return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
}
/// `sums`, plus in each lane the products of four bytes without a sign and four with one, modulo 2^32. Only if kMayAddDots.
template <class Values>
Unsigned addDots(Unsigned sums, Unsigned bytes, Values others);
bool addsDots();
/// The same of two times four bytes, if in each lane the sum of the products of the first two of both is in 16 bits, and so is that of the
/// last two. Only if kMayAddShortDots.
template <class Values>
Unsigned addShortDots(Unsigned sums, Unsigned bytes, Values others, Unsigned moreBytes, Values moreOthers);
/// Byte i is byte from[i] of the same 16, or 0 if from[i] is 128 or above; others are below 16. Only if kMayAddShortDots.
template <class Values>
Values bytesFrom(Values bytes, Values from);
/// For each of `places` below 128 the byte there: of `low`, and of `high` from the size of a vector on. Only if kMayLookUp.
template <class Bytes>
Bytes lookedUp(Bytes places, Bytes low, Bytes high);
bool looksUp();

/// a > b ? a : b and a < b ? a : b in each lane: `b` if one of them is NaN or both are zero. x86 has instructions that do
/// exactly this, but GCC does not use them for the expression.
template <class Values>
TFAOT_INLINE Values larger(Values a, Values b) {
  return a > b ? a : b;
}
template <class Values>
TFAOT_INLINE Values smaller(Values a, Values b) {
  return a < b ? a : b;
}

template <class Element = float>
TFAOT_INLINE VectorOf<Element> zeros() {
  return VectorOf<Element>{};
}

/// The number between -limit and 0 that is nearest to -|x|, for a positive limit; for NaN, any number.
template <class Values>
TFAOT_INLINE Values negativeMagnitude(Values x, float limit) {
  return larger(broadcast(-limit), bitsAs<Values>(bitsAs<Unsigned>(x) | 0x80000000u));
}

template <class Values, class Function>
TFAOT_INLINE Values byLane(Values x, Function function) {
  for (std::size_t i = 0; i < sizeof(Values) / sizeof x[0]; ++i) x[i] = function(x[i]);
  return x;
}
template <class Values>
TFAOT_INLINE Values squareRoot(Values x) {
  return byLane(x, [](auto value) { return std::sqrt(value); });
}
template <class Values>
TFAOT_INLINE Values roundedDown(Values x) {
  return byLane(x, [](auto value) { return std::floor(value); });
}
template <class Values>
TFAOT_INLINE Values roundedUp(Values x) {
  return byLane(x, [](auto value) { return std::ceil(value); });
}
template <class Values>
TFAOT_INLINE Values roundedToEven(Values x) {
  return byLane(x, [](auto value) { return std::rint(value); });
}

/// x * 2^n for -190 <= n <= 128: `n`, and its last 9 bits plus 127.
template <class Values>
TFAOT_INLINE Values timesPowerOfTwo(Values x, Values, Unsigned biased) {
  const Mask whole = bitsAs<Mask>(biased & 0x1ffu) - 127, half = whole >> 1;
  return x * bitsAs<Values>((half + 127) << 23) * bitsAs<Values>((whole - half + 127) << 23);
}
/// The same for -190 <= n <= 0.
template <class Values>
TFAOT_INLINE Values timesFractionOfTwo(Values x, Values, Unsigned biased) {
  const Unsigned minus = (127u - biased) & 0xffu, half = minus >> 1;
  return x * bitsAs<Values>((127u - half) << 23) * bitsAs<Values>((127u - (minus - half)) << 23);
}

// Lanes

/// The lower half of `a` and the upper half of `b`.
template <class Values>
TFAOT_INLINE Values halvesOf(Values a, Values b) {
  constexpr int kCount = sizeof(Values) / sizeof a[0];
  for (int i = kCount / 2; i < kCount; ++i) a[i] = b[i];
  return a;
}
/// Half as many elements as there are lanes, in both halves.
template <class Element>
TFAOT_INLINE VectorOf<Element> loadTwice(const Element* from) {
  const auto once = loadFirst(from, kLanes / 2);
  return halvesOf(once, exchanged<kLanes / 2>(once));
}

template <class Values>
TFAOT_INLINE bool isAny(Values which) {
  std::int32_t all = 0;
  for (int i = 0; i < kLanes; ++i) all |= which[i];
  return all != 0;
}

/// How many of a vector of ascending numbers are not above `x`. Only if kCountsNotAbove.
template <class Element>
int notAbove(const Element* boundaries, Element x);

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_PORTABLE_H_
