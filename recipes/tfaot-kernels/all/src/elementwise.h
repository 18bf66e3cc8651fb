// elementwise.h: the element-wise operations and reductions of generated programs.
//
// A loop's body is written once, for a place that is a whole vector or the first lanes of one: `each` calls it for all
// elements of a row. Values are Vector (f32), Integers (s32) and Mask (pred).
#ifndef TFAOT_KERNELS_ELEMENTWISE_H_
#define TFAOT_KERNELS_ELEMENTWISE_H_

#include <algorithm>
#include <cmath>
#include <limits>

#include "activations.h"
#include "double_functions.h"
#include "float_via_double.h"
#include "softmax.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE Integers filled(std::int32_t x) { return bitsAs<Integers>(broadcast(bitsAs<float>(x))); }
TFAOT_INLINE Vector filled(float x) { return broadcast(x); }
TFAOT_INLINE Mask filled(bool x) { return filled(-static_cast<std::int32_t>(x)); }

/// A vector's elements that lie `stride` apart are in `stride` vectors. This is where each begins: the last one ends with
/// the last element, so that nothing beyond it is read.
constexpr int startOf(int vector, int stride) { return vector < stride - 1 ? vector * kLanes : (stride - 1) * (kLanes - 1); }
constexpr int laneOf(int lane, int vector, int stride) {
  const int element = lane * stride, holder = element / kLanes < stride - 1 ? element / kLanes : stride - 1;
  if (holder == vector) return kLanes + element - startOf(vector, stride);
  return vector == 1 && holder == 0 ? element : lane;
}
template <int kStride, int kVector = 1>
TFAOT_INLINE Vector loadEvery(const float* row, Vector found) {
  if constexpr (kVector < kStride) {
    const Vector next = load(row + startOf(kVector, kStride));
    found = permuted(found, next, [](int lane) { return laneOf(lane, kVector, kStride); });
    return loadEvery<kStride, kVector + 1>(row, found);
  }
  return found;
}
/// kLanes floats that lie kStride apart, by shuffles instead of loads of single floats.
template <int kStride>
TFAOT_INLINE Vector loadEvery(const float* row) {
  return loadEvery<kStride>(row, load(row));
}
/// The first `count` floats, at least one, that lie kStride apart, and zeros. Nothing beyond the last one is read.
template <int kStride, int kVector = 0>
TFAOT_INLINE Vector loadEveryFirst(const float* row, std::size_t count, Vector found = Vector{}) {
  if constexpr (kVector < kStride) {
    const std::size_t all = (count - 1) * kStride + 1, before = kVector * kLanes;
    const std::size_t left = all <= before ? 0 : all - before < kLanes ? all - before : kLanes;
    const Vector next = loadFirst(row + (left == 0 ? 0 : before), left);
    if constexpr (kVector > 0) {
      found = permuted(found, next, [](int lane) {
        const int element = lane * kStride;
        if (element / kLanes == kVector) return kLanes + element % kLanes;
        return kVector == 1 && element < kLanes ? element : lane;
      });
    } else {
      found = next;
    }
    return loadEveryFirst<kStride, kVector + 1>(row, count, found);
  }
  return found;
}
TFAOT_INLINE Vector turnedAround(Vector x) {
  return permuted(x, [](int lane) { return kLanes - 1 - lane; });
}

/// Truth values as bytes.
TFAOT_INLINE const std::int8_t* bytesOf(const bool* row) { return reinterpret_cast<const std::int8_t*>(row); }
TFAOT_INLINE std::int8_t* bytesOf(bool* row) { return reinterpret_cast<std::int8_t*>(row); }

/// Integers that are loaded into lanes of 32 bits, and stored from them.
template <class Integer>
using IfNarrow = std::enable_if_t<std::is_same_v<Integer, std::uint16_t> || std::is_same_v<Integer, std::uint8_t> ||
                                  std::is_same_v<Integer, std::int8_t>>;

/// The members that whole vectors and parts of them share: access to elements that are not adjacent, and equal lanes.
template <class Place>
struct Lanes {
  template <class Element>
  TFAOT_INLINE auto fill(Element x) const {
    return filled(x);
  }

  /// Elements that lie `stride` apart; zeros in unused lanes.
  TFAOT_INLINE Vector load(const float* row, std::ptrdiff_t stride) const {
    const float* const first = row + static_cast<std::ptrdiff_t>(self().start) * stride;
    if constexpr (Place::kIsWhole) {
      // Most strides are constants once this function is inlined into a loop.
      if (__builtin_constant_p(stride == -1) && stride == -1) {
        return turnedAround(tfaot_kernels::load(first - (kLanes - 1)));
      }
      if (__builtin_constant_p(stride == 2) && stride == 2) return loadEvery<2>(first);
      if (__builtin_constant_p(stride == 3) && stride == 3) return loadEvery<3>(first);
      if (__builtin_constant_p(stride == 4) && stride == 4) return loadEvery<4>(first);
    }
    if constexpr (!Place::kIsWhole && kLoadsParts<float>) {
      if (__builtin_constant_p(stride == 2) && stride == 2) return loadEveryFirst<2>(first, self().count());
      if (__builtin_constant_p(stride == 3) && stride == 3) return loadEveryFirst<3>(first, self().count());
      if (__builtin_constant_p(stride == 4) && stride == 4) return loadEveryFirst<4>(first, self().count());
    }
    // Whole vectors in the portable way: a gather takes longer for them.
    if constexpr (Place::kIsWhole) return loadApart<float>(first, kLanes, stride);
    return loadApart(first, self().count(), stride);
  }
  TFAOT_INLINE Integers load(const std::int32_t* row, std::ptrdiff_t stride) const {
    return bitsAs<Integers>(load(reinterpret_cast<const float*>(row), stride));
  }
  TFAOT_INLINE Mask load(const bool* row, std::ptrdiff_t stride = 1) const {
    if (Place::kIsWhole && stride == 1) return -widened(bytesOf(row) + self().start);
    if (stride == 1) return -widened(bytesOf(row) + self().start, self().count());
    if (Place::kIsWhole && stride == -1) {
      const Vector turned = bitsAs<Vector>(-widened(bytesOf(row) - static_cast<std::ptrdiff_t>(self().start) - (kLanes - 1)));
      return bitsAs<Mask>(turnedAround(turned));
    }
    std::int32_t values[kLanes] = {};
    for (std::size_t i = 0; i < self().count(); ++i) {
      values[i] = -std::int32_t{row[static_cast<std::ptrdiff_t>(self().start + i) * stride]};
    }
    return bitsAs<Mask>(tfaot_kernels::load(reinterpret_cast<const float*>(values)));
  }
  template <class Narrow, class = IfNarrow<Narrow>>
  TFAOT_INLINE Integers load(const Narrow* row, std::ptrdiff_t stride = 1) const {
    if (Place::kIsWhole && stride == 1) return widened(row + self().start);
    if (stride == 1) return widened(row + self().start, self().count());
    std::int32_t values[kLanes] = {};
    for (std::size_t i = 0; i < self().count(); ++i) {
      values[i] = row[(static_cast<std::ptrdiff_t>(self().start) + static_cast<std::ptrdiff_t>(i)) * stride];
    }
    return bitsAs<Integers>(tfaot_kernels::load(reinterpret_cast<const float*>(values)));
  }

  TFAOT_INLINE void store(float* row, Vector value, std::ptrdiff_t stride) const {
    float values[kLanes];
    tfaot_kernels::store(values, value);
    for (std::size_t i = 0; i < self().count(); ++i) row[static_cast<std::ptrdiff_t>(self().start + i) * stride] = values[i];
  }
  TFAOT_INLINE void store(std::int32_t* row, Integers value, std::ptrdiff_t stride) const {
    store(reinterpret_cast<float*>(row), bitsAs<Vector>(value), stride);
  }
  TFAOT_INLINE void store(bool* row, Mask value, std::ptrdiff_t stride = 1) const {
    if (Place::kIsWhole && stride == 1) return storeNarrowed(bytesOf(row) + self().start, value & 1);
    if (stride == 1) return storeNarrowed(bytesOf(row) + self().start, self().count(), value & 1);
    for (std::size_t i = 0; i < self().count(); ++i) {
      row[static_cast<std::ptrdiff_t>(self().start + i) * stride] = value[i] != 0;
    }
  }
  template <class Narrow, class = IfNarrow<Narrow>>
  TFAOT_INLINE void store(Narrow* row, Integers value, std::ptrdiff_t stride = 1) const {
    if (Place::kIsWhole && stride == 1) return storeNarrowed(row + self().start, value);
    if (stride == 1) return storeNarrowed(row + self().start, self().count(), value);
    for (std::size_t i = 0; i < self().count(); ++i) {
      row[(static_cast<std::ptrdiff_t>(self().start) + static_cast<std::ptrdiff_t>(i)) * stride] = static_cast<Narrow>(value[i]);
    }
  }

  /// start + step * i for element i.
  TFAOT_INLINE Integers count(std::int32_t start, std::int32_t step) const {
    const Integers lanes = laneNumbers();
    return filled(start) + (filled(static_cast<std::int32_t>(self().start)) + lanes) * step;
  }

  TFAOT_INLINE const Place& self() const { return static_cast<const Place&>(*this); }
};

/// kLanes elements of a row, the first of them at `start`.
struct WholeVector : Lanes<WholeVector> {
  static constexpr bool kIsWhole = true;
  std::size_t start;
  TFAOT_INLINE explicit WholeVector(std::size_t first) : start(first) {}
  using Lanes::count, Lanes::load, Lanes::store;
  TFAOT_INLINE Vector load(const float* row) const { return tfaot_kernels::load(row + start); }
  TFAOT_INLINE Integers load(const std::int32_t* row) const { return bitsAs<Integers>(load(reinterpret_cast<const float*>(row))); }
  TFAOT_INLINE void store(float* row, Vector value) const { tfaot_kernels::store(row + start, value); }
  TFAOT_INLINE void store(std::int32_t* row, Integers value) const { store(reinterpret_cast<float*>(row), bitsAs<Vector>(value)); }
  static constexpr std::size_t count() { return kLanes; }
};

/// The last elements of a row, fewer than kLanes; the other lanes are zero.
struct PartOfVector : Lanes<PartOfVector> {
  static constexpr bool kIsWhole = false;
  std::size_t start;
  std::size_t number;
  TFAOT_INLINE PartOfVector(std::size_t first, std::size_t size) : start(first), number(size) {}
  using Lanes::count, Lanes::load, Lanes::store;
  TFAOT_INLINE Vector load(const float* row) const { return loadFirst(row + start, number); }
  TFAOT_INLINE Integers load(const std::int32_t* row) const { return bitsAs<Integers>(load(reinterpret_cast<const float*>(row))); }
  TFAOT_INLINE void store(float* row, Vector value) const { storeFirst(row + start, number, value); }
  TFAOT_INLINE void store(std::int32_t* row, Integers value) const { store(reinterpret_cast<float*>(row), bitsAs<Vector>(value)); }
  TFAOT_INLINE std::size_t count() const { return number; }
};

/// The last kCount elements of a row, fewer than kLanes; the other lanes are zero.
template <std::size_t kCount>
struct KnownPart : Lanes<KnownPart<kCount>> {
  static constexpr bool kIsWhole = false;
  /// What a mask stores is not forwarded to a gather or to a load of one element, which wait for it; two parts are.
  static constexpr bool kIsTwoParts = (kCount & (kCount - 1) & ((kCount & (kCount - 1)) - 1)) == 0;
  std::size_t start;
  TFAOT_INLINE explicit KnownPart(std::size_t first) : start(first) {}
  using Lanes<KnownPart>::count, Lanes<KnownPart>::load, Lanes<KnownPart>::store;
  TFAOT_INLINE Vector load(const float* row) const {
    if constexpr (kCount == kHalfLanes) return loadHalf(row + start);
    return loadFirst(row + start, kCount);
  }
  TFAOT_INLINE Integers load(const std::int32_t* row) const { return bitsAs<Integers>(load(reinterpret_cast<const float*>(row))); }
  TFAOT_INLINE void store(float* row, Vector value) const {
    if constexpr (kCount == kHalfLanes) return storeHalf(row + start, value);
    if constexpr (kIsTwoParts) return storeFirst<kCount>(row + start, value);
    storeFirst(row + start, kCount, value);
  }
  TFAOT_INLINE void store(std::int32_t* row, Integers value) const { store(reinterpret_cast<float*>(row), bitsAs<Vector>(value)); }
  static constexpr std::size_t count() { return kCount; }
};

/// One element, for types without vectors.
struct OneElement {
  std::size_t start;
  template <class Element>
  Element fill(Element x) const {
    return x;
  }
  template <class Element>
  Element load(const Element* row, std::ptrdiff_t stride = 1) const {
    return row[static_cast<std::ptrdiff_t>(start) * stride];
  }
  template <class Element>
  void store(Element* row, Element value, std::ptrdiff_t stride = 1) const {
    row[static_cast<std::ptrdiff_t>(start) * stride] = value;
  }
  std::int32_t count(std::int32_t first, std::int32_t step) const { return first + static_cast<std::int32_t>(start) * step; }
};

/// Calls `body` for the last of `size` elements, a multiple of kMultiple, if they are fewer than a vector has lanes.
template <std::size_t kMultiple, class Body>
TFAOT_INLINE void lastPart(std::size_t i, std::size_t size, [[maybe_unused]] Body body) {
  if constexpr (kMultiple % kLanes == kLanes / 2) {
    if (i < size) body(KnownPart<kLanes / 2>{i});
  } else if constexpr (kMultiple % kLanes != 0) {
    if (i < size) body(PartOfVector{i, size - i});
  }
}

/// Calls `body` for `size` elements, a multiple of kMultiple.
template <std::size_t kMultiple = 1, class Body>
TFAOT_INLINE void each(std::size_t size, Body body) {
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) body(WholeVector{i});
  lastPart<kMultiple>(i, size, body);
}
/// The same for kSize elements.
template <std::size_t kSize, class Body>
TFAOT_INLINE void eachOf(Body body) {
  constexpr std::size_t kRest = kSize % kLanes;
  for (std::size_t i = 0; i < kSize - kRest; i += kLanes) body(WholeVector{i});
  if constexpr (kRest != 0) body(KnownPart<kRest>{kSize - kRest});
}
/// The same for bodies that do not read what they write: the last vector may overlap the one before.
template <class Body>
TFAOT_INLINE void eachWhole(std::size_t size, Body body) {
  if (size < kLanes) return each(size, body);
  for (std::size_t i = 0; i < size; i += kLanes) body(WholeVector{i + kLanes <= size ? i : size - kLanes});
}
/// The same for bodies that take one place or four: their steps wait for one another, so four places overlap.
template <std::size_t kMultiple = 1, class Body>
TFAOT_INLINE void eachTogether(std::size_t size, Body body) {
  std::size_t i = 0;
  for (; i + 4 * kLanes <= size; i += 4 * kLanes) {
    body(WholeVector{i}, WholeVector{i + kLanes}, WholeVector{i + 2 * kLanes}, WholeVector{i + 3 * kLanes});
  }
  for (; i + kLanes <= size; i += kLanes) body(WholeVector{i});
  lastPart<kMultiple>(i, size, body);
}
template <class Body>
TFAOT_INLINE void eachAlone(std::size_t size, Body body) {
  // No element is read where another one was written: no loop has to look whether arrays overlap.
  TFAOT_INDEPENDENT
  for (std::size_t i = 0; i < size; ++i) body(OneElement{i});
}

/// A truth value as a byte, of which compilers make vectors; of `bool` they do not.
struct Truth {
  std::uint8_t bits;
};
TFAOT_INLINE Truth operator&(Truth a, Truth b) { return {static_cast<std::uint8_t>(a.bits & b.bits)}; }
TFAOT_INLINE Truth operator|(Truth a, Truth b) { return {static_cast<std::uint8_t>(a.bits | b.bits)}; }
TFAOT_INLINE Truth operator^(Truth a, Truth b) { return {static_cast<std::uint8_t>(a.bits ^ b.bits)}; }
TFAOT_INLINE Truth negated(Truth x) { return x ^ Truth{1}; }
TFAOT_INLINE Truth operator!=(Truth a, Truth b) { return a ^ b; }
TFAOT_INLINE Truth operator==(Truth a, Truth b) { return negated(a ^ b); }
TFAOT_INLINE Truth chosen(Truth which, Truth yes, Truth no) { return (which & yes) | (negated(which) & no); }

/// One of them.
struct OneTruth {
  std::size_t start;
  TFAOT_INLINE Truth fill(bool x) const { return {x}; }
  TFAOT_INLINE Truth load(const bool* row, std::ptrdiff_t stride = 1) const {
    return {reinterpret_cast<const std::uint8_t*>(row)[static_cast<std::ptrdiff_t>(start) * stride]};
  }
  TFAOT_INLINE void store(bool* row, Truth value, std::ptrdiff_t stride = 1) const {
    reinterpret_cast<std::uint8_t*>(row)[static_cast<std::ptrdiff_t>(start) * stride] = value.bits;
  }
};
template <class Body>
TFAOT_INLINE void eachTruth(std::size_t size, Body body) {
  TFAOT_INDEPENDENT
  for (std::size_t i = 0; i < size; ++i) body(OneTruth{i});
}

TFAOT_INLINE Vector chosen(Mask which, Vector yes, Vector no) { return which ? yes : no; }
TFAOT_INLINE Integers chosen(Mask which, Integers yes, Integers no) { return which ? yes : no; }
template <class Element>
TFAOT_INLINE Element chosen(bool which, Element yes, Element no) {
  return which ? yes : no;
}

// Conversions as in HLO: floats are rounded towards zero and limited to the range of integers; NaN becomes 0.
TFAOT_INLINE Vector f32OfS32(Integers x) { return __builtin_convertvector(x, Vector); }
TFAOT_INLINE Vector f32OfPred(Mask x) { return bitsAs<Vector>(x & bitsAs<Integers>(broadcast(1.0f))); }
TFAOT_INLINE Integers s32OfPred(Mask x) { return x & 1; }
TFAOT_INLINE Mask predOfS32(Integers x) { return x != 0; }
TFAOT_INLINE Mask predOfF32(Vector x) { return x != 0.0f; }
TFAOT_INLINE Integers s32OfF32(Vector x) {
  const Vector inside = chosen(x >= 2147483648.0f, broadcast(0.0f), x == x ? x : broadcast(0.0f));
  const Integers whole = __builtin_convertvector(inside, Integers);
  return chosen(x >= 2147483648.0f, filled(std::int32_t{2147483647}), whole);
}
template <class To, class From>
TFAOT_INLINE To converted(From x);
TFAOT_INLINE float f32OfS32(std::int32_t x) { return static_cast<float>(x); }
TFAOT_INLINE float f32OfPred(bool x) { return x; }
TFAOT_INLINE std::int32_t s32OfPred(bool x) { return x; }
TFAOT_INLINE bool predOfS32(std::int32_t x) { return x != 0; }
TFAOT_INLINE bool predOfF32(float x) { return x != 0.0f; }
TFAOT_INLINE std::int32_t s32OfF32(float x) { return converted<std::int32_t>(x); }
template <class To, class From>
TFAOT_INLINE To converted(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    // Without branches, for vectors of 64 bits.
    constexpr To kMost = std::numeric_limits<To>::max(), kLeast = std::numeric_limits<To>::min();
    constexpr From kEnd = static_cast<From>(kMost), kStart = static_cast<From>(kLeast);
    const From above = x > kStart ? x : kStart;
    const To whole = static_cast<To>(x < kEnd ? above : From{0});
    return x >= kEnd ? kMost : whole;
  } else {
    return static_cast<To>(x);
  }
}

// As in HLO. Those of vectors of floats are in vectors.h.
TFAOT_INLINE Integers maximum(Integers a, Integers b) { return chosen(a > b, a, b); }
TFAOT_INLINE Integers minimum(Integers a, Integers b) { return chosen(a < b, a, b); }

template <class Element, class = std::enable_if_t<std::is_arithmetic_v<Element>>>
TFAOT_INLINE Element maximum(Element a, Element b) {
  return ((a != a) | (a > b)) ? a : b;  // without a branch, for vectors of doubles
}
template <class Element, class = std::enable_if_t<std::is_arithmetic_v<Element>>>
TFAOT_INLINE Element minimum(Element a, Element b) {
  return ((a != a) | (a < b)) ? a : b;
}
TFAOT_INLINE Integers negated(Integers x) { return ~x; }
TFAOT_INLINE bool negated(bool x) { return !x; }
template <class Element, class = std::enable_if_t<std::is_integral_v<Element> && !std::is_same_v<Element, bool>>>
TFAOT_INLINE Element negated(Element x) {
  return static_cast<Element>(~x);
}

/// Conversions of integers, also of bytes in lanes of 32 bits, and to bytes.
template <class To>
TFAOT_INLINE auto converted(Integers x) {
  if constexpr (std::is_same_v<To, float>) {
    return f32OfS32(x);
  } else if constexpr (std::is_same_v<To, bool>) {
    return predOfS32(x);
  } else if constexpr (std::is_same_v<To, std::uint8_t>) {
    return x & 255;
  } else if constexpr (std::is_same_v<To, std::int8_t>) {
    return (x << 24) >> 24;
  } else {
    static_assert(std::is_same_v<To, std::int32_t>);
    return x;
  }
}
template <class Byte>
TFAOT_INLINE Integers converted(Vector x) {
  using Limits = std::numeric_limits<Byte>;
  return minimum(maximum(s32OfF32(x), filled(std::int32_t{Limits::min()})), filled(std::int32_t{Limits::max()}));
}

/// How floats become bytes: over `divisor`, rounded half to even, plus `zero`, between `low` and `high`. Two products,
/// fma(x, factor, x * rest), are rounded to the same whole numbers as the quotient, unless `factor` is zero (compiler/quotients.py).
struct Quantizing {
  float divisor, factor, rest;
  std::int32_t zero, low, high;
};
template <class Values, class Fill>
TFAOT_INLINE Values quotientBy(const Quantizing& by, Values x, Fill fill) {
  if (by.factor == 0.0f || (!kFuses && by.rest != 0.0f)) return x / fill(by.divisor);
  return by.rest == 0.0f ? x * fill(by.factor) : multiplyAdd(x, fill(by.factor), x * fill(by.rest));
}
template <class Byte>
TFAOT_INLINE Integers quantized(Vector x, const Quantizing& by) {
  const Vector quotient = quotientBy(by, x, [](float number) { return filled(number); });
  // The second operand if the first one is NaN.
  const Vector above = larger(quotient, filled(static_cast<float>(by.low - by.zero)));
  return nearest(smaller(above, filled(static_cast<float>(by.high - by.zero)))) + by.zero;
}
template <class Byte>
TFAOT_INLINE Byte quantized(float x, const Quantizing& by) {
  const float quotient = quotientBy(by, x, [](float number) { return number; });
  const float low = static_cast<float>(by.low - by.zero), high = static_cast<float>(by.high - by.zero);
  const float above = quotient > low ? quotient : low;
  return static_cast<Byte>(static_cast<std::int32_t>(roundedToEven(above < high ? above : high)) + by.zero);
}

inline constexpr float kLargestExponent = 88.8f;  // exp of it is infinity

/// exp(x) for any x.
TFAOT_INLINE Vector exponentialOf(Vector x) {
  const Vector limited = smaller(broadcast(kLargestExponent), chosen(x < kNoExponential, zeros(), x));
  const Power power = nearestPower(limited);
  const Vector r = reducedBy(power, limited);
  const Vector mantissa = 1.0f + multiplyAdd(r * r, polynomial(r, kExp), r);
  const Vector value = timesPowerOfTwo(mantissa, power.n, power.biased);
  return chosen(x != x, x, chosen(x < kNoExponential, zeros(), value));
}

TFAOT_INLINE Vector logistic(Vector x) { return sigmoid(x); }

/// exp(x) - 1 for any x: twice 2^(n - 1) * (1 + rest) - 1/2, because 2^128 is not a float.
TFAOT_INLINE Vector exponentialMinusOne(Vector x) {
  const Vector limited = smaller(broadcast(kLargestExponent), larger(broadcast(-20.0f), x));
  const Power power = nearestPower(limited);
  const Vector r = reducedBy(power, limited);
  const Vector half = bitsAs<Vector>((power.biased - 1u) << 23);
  const Vector value = multiplyAdd(half, multiplyAdd(r * r, polynomial(r, kExp), r), half - 0.5f);
  return magnitude(x) < 0x1p-25f ? x : value + value;  // the half of a denormal number may not be one
}

// erf(x) / x - 1 as a function of x^2, |x| <= kErfNear; relative error of the sum with 1 below 2^-27.6.
inline constexpr float kErf[] = {0.128379166f, -0.376126111f, 0.112833641f, -0.026843518f,
                                 0.00516773108f, -0.000782473944f, 7.23606863e-05f};
inline constexpr float kErfNear = 1.1f, kErfLimit = 3.95f;
// erfc(x)^(-1/8), kErfNear <= x <= kErfLimit; error of erf(x) below 2^-26.9.
inline constexpr float kErfRoot[] = {0.993645668f, 0.171730429f, 0.0261369031f, 0.0974013582f,
                                     -0.0472258776f, 0.022772016f, -0.00497160107f, 0.000622437452f};

TFAOT_INLINE Vector errorFunction(Vector x) {
  const Vector size = smaller(broadcast(kErfLimit), magnitude(x));
  const Vector root = polynomial(size, kErfRoot), square = root * root, fourth = square * square;
  const Vector far = withSignOf(1.0f - 1.0f / (fourth * fourth), x);
  return size > kErfNear ? far : multiplyAdd(x, polynomial(size * size, kErf), x);
}

TFAOT_INLINE float remainderOf(float a, float b) { return __builtin_fmodf(a, b); }
TFAOT_INLINE double remainderOf(double a, double b) { return __builtin_fmod(a, b); }
/// For integers: x % 0 is x.
template <class Element, class = std::enable_if_t<std::is_integral_v<Element>>>
TFAOT_INLINE Element remainderOf(Element a, Element b) {
  if (b == 0) return a;
  // The most negative number divided by -1 overflows.
  return std::is_signed_v<Element> && b == static_cast<Element>(-1) ? Element{0} : static_cast<Element>(a % b);
}

TFAOT_INLINE float powerOf(float a, float b) { return static_cast<float>(powerByDoubles(a, b)); }
TFAOT_INLINE double powerOf(double a, double b) { return std::pow(a, b); }

template <class Element, class Values, class Function>
TFAOT_INLINE Values byLanes(Values x, Values y, Function function) {
  Element first[kLanes], second[kLanes];
  std::memcpy(first, &x, sizeof x);
  std::memcpy(second, &y, sizeof y);
  for (int i = 0; i < kLanes; ++i) first[i] = function(first[i], second[i]);
  std::memcpy(&x, first, sizeof x);
  return x;
}
/// As of one float, exactly. If a quotient is larger, each lane is computed alone.
TFAOT_INLINE Vector remainderOf(Vector a, Vector b) {
  const Vector size = magnitude(a), divisor = magnitude(b), ratio = size / divisor;
  if (!kFuses || __builtin_expect(isAny(ratio >= 0x1p+24f), false)) {
    return byLanes<float>(a, b, [](float x, float y) { return remainderOf(x, y); });
  }
  // A ratio that was rounded to the next integer gives a negative rest. Both rests are multiples of the last place of one of
  // the numbers, and smaller than the divisor: so nothing is rounded.
  const Vector rest = multiplyAdd(-roundedDown(ratio), divisor, size);
  const Vector found = chosen(size < divisor, size, chosen(rest < 0.0f, rest + divisor, rest));
  return withSignOf(found, a);
}

// One float is computed as in vectors; one double by double_functions.h, exactly, or by the C library.
#define TFAOT_OF_ONE(ours) \
  TFAOT_INLINE float ours(float x) { return ours(broadcast(x))[0]; }
TFAOT_OF_ONE(exponentialOf)
TFAOT_OF_ONE(exponentialMinusOne)
TFAOT_OF_ONE(logistic)
TFAOT_OF_ONE(hyperbolicTangent)
TFAOT_OF_ONE(errorFunction)
TFAOT_OF_ONE(geluErf)
TFAOT_OF_ONE(geluTanh)
TFAOT_OF_ONE(swish)
TFAOT_OF_ONE(hardSwish)
TFAOT_OF_ONE(squareRoot)
TFAOT_OF_ONE(roundedDown)
TFAOT_OF_ONE(roundedUp)
TFAOT_OF_ONE(roundedToEven)
TFAOT_INLINE double errorFunction(double x) { return std::erf(x); }
TFAOT_INLINE double squareRoot(double x) { return std::sqrt(x); }
TFAOT_INLINE double roundedDown(double x) { return std::floor(x); }
TFAOT_INLINE double roundedUp(double x) { return std::ceil(x); }
TFAOT_INLINE double roundedToEven(double x) { return std::nearbyint(x); }
#undef TFAOT_OF_ONE
template <class Element, class = std::enable_if_t<std::is_arithmetic_v<Element>>>
TFAOT_INLINE Element magnitude(Element x) {
  if constexpr (std::is_floating_point_v<Element>) return std::fabs(x);  // without a branch, for vectors of doubles
  return x < 0 ? static_cast<Element>(-x) : x;
}
TFAOT_INLINE Integers magnitude(Integers x) { return chosen(x < 0, -x, x); }

// Reductions, with kPartial partial results for each row.

struct Adding {
  static constexpr float kStart = -0.0f;
  TFAOT_INLINE Vector operator()(Vector a, Vector b) const { return a + b; }
  TFAOT_INLINE float operator()(float a, float b) const { return a + b; }
};
struct Multiplying {
  static constexpr float kStart = 1.0f;
  TFAOT_INLINE Vector operator()(Vector a, Vector b) const { return a * b; }
  TFAOT_INLINE float operator()(float a, float b) const { return a * b; }
};
struct TakingLargest {
  static constexpr float kStart = -__builtin_inff();
  TFAOT_INLINE Vector operator()(Vector a, Vector b) const { return maximum(a, b); }
  TFAOT_INLINE float operator()(float a, float b) const { return a != a ? a : larger(a, b); }
};
struct TakingSmallest {
  static constexpr float kStart = __builtin_inff();
  TFAOT_INLINE Vector operator()(Vector a, Vector b) const { return minimum(a, b); }
  TFAOT_INLINE float operator()(float a, float b) const { return a != a ? a : (a < b ? a : b); }
};
/// For truth values.
struct Either {
  static constexpr bool kStart = false;
  template <class Values>
  TFAOT_INLINE Values operator()(Values a, Values b) const {
    return a | b;
  }
};
struct Both {
  static constexpr bool kStart = true;
  template <class Values>
  TFAOT_INLINE Values operator()(Values a, Values b) const {
    return a & b;
  }
};

/// Combines `size` elements, which `body` gives by place.
template <class Combine, class Body>
TFAOT_INLINE auto reduced(std::size_t size, Body body) {
  using Values = decltype(body(WholeVector{0}));
  // With few elements the first steps of the tree would only combine them with the start value, which changes nothing.
  if (__builtin_constant_p(size <= kLanes) && size <= kLanes) {
    const Values value = size == kLanes ? body(WholeVector{0})
                                        : chosen(firstLanes(size), body(PartOfVector{0, size}), filled(Combine::kStart));
    if (size <= kLanes / 2) return reduceGroups<kLanes / 2>(value, Combine{})[0];
    return reduceGroups<kLanes>(value, Combine{})[0];
  }
  Values partial[kPartialVectors];
  for (Values& each : partial) each = filled(Combine::kStart);
  std::size_t i = 0;
  for (; i + kPartial <= size; i += kPartial) {
    TFAOT_UNROLL
    for (int v = 0; v < kPartialVectors; ++v) partial[v] = Combine{}(partial[v], body(WholeVector{i + static_cast<std::size_t>(v) * kLanes}));
  }
  for (int v = 0; i < size; ++v, i += kLanes) {
    if (i + kLanes <= size) {
      partial[v] = Combine{}(partial[v], body(WholeVector{i}));
    } else {
      const Values value = body(PartOfVector{i, size - i});
      partial[v] = chosen(firstLanes(size - i), Combine{}(partial[v], value), partial[v]);
    }
  }
  // The tree, vector by vector: it adds the same pairs as it would element by element.
  for (int v = kPartialVectors / 2; v > 0; v /= 2) {
    for (int low = 0; low < v; ++low) partial[low] = Combine{}(partial[low], partial[low + v]);
  }
  return reduceGroups<kLanes>(partial[0], Combine{})[0];
}

/// The same for rows of kSize elements, at most kPartial, with a row in each lane. `element(i)` gives element i of all rows.
template <class Combine, int kSize, int kFirst = 0, int kWidth = 1, class Element>
TFAOT_INLINE auto reducedOfFew(Element element) {
  if constexpr (kWidth == kPartial) {
    return element(std::integral_constant<std::ptrdiff_t, kFirst>{});
  } else {
    const auto first = reducedOfFew<Combine, kSize, kFirst, 2 * kWidth>(element);
    if constexpr (kFirst + kWidth >= kSize) {
      return first;
    } else {
      return Combine{}(first, reducedOfFew<Combine, kSize, kFirst + kWidth, 2 * kWidth>(element));
    }
  }
}

// Order

/// Integers in the order of floats: -NaN, -infinity, ..., -0, 0, ..., infinity, NaN.
TFAOT_INLINE std::int32_t inOrder(float x) {
  const auto bits = bitsAs<std::int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

TFAOT_INLINE Integers inOrder(Vector x) {
  const auto bits = bitsAs<Integers>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

/// Whether 0 and -0 are equal, as for a framework, or in HLO's total order.
enum class Zeros { kEqual, kSigned };

/// Integers in the order of floats, with one 0: the magnitude with the float's sign.
TFAOT_INLINE std::int32_t inOrderOfEqualZeros(float x) {
  const auto bits = bitsAs<std::int32_t>(x), sign = bits >> 31;
  return ((bits & 0x7fffffff) ^ sign) - sign;
}

TFAOT_INLINE Integers inOrderOfEqualZeros(Vector x) {
  const auto bits = bitsAs<Integers>(x);
  return withSign(bits & 0x7fffffff, bits);
}

template <bool kLargest, Zeros kZeros, class Value>
TFAOT_INLINE auto rankOf(Value x) {
  if constexpr (kZeros == Zeros::kSigned) {
    return kLargest ? inOrder(x) : ~inOrder(x);
  } else {
    return kLargest ? inOrderOfEqualZeros(x) : -inOrderOfEqualZeros(x);
  }
}

/// Inserts one float after the other into the sorted ones. Until the end, `values` holds ranks.
template <bool kLargest, Zeros kZeros>
inline void topKOneByOne(std::size_t size, std::size_t k, const float* in, float* values, std::int32_t* indices) {
  std::size_t count = 0;
  std::int32_t last = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t mine = rankOf<kLargest, kZeros>(in[i]);
    if (count == k && mine <= last) continue;
    std::size_t at = count < k ? count++ : k - 1;
    for (; at > 0 && bitsAs<std::int32_t>(values[at - 1]) < mine; --at) {
      values[at] = values[at - 1];
      indices[at] = indices[at - 1];
    }
    values[at] = bitsAs<float>(mine);
    indices[at] = static_cast<std::int32_t>(i);
    last = bitsAs<std::int32_t>(values[count - 1]);
  }
  for (std::size_t i = 0; i < count; ++i) values[i] = in[indices[i]];
}

/// Shifts lanes by one: lane i gets lane i - 1 of `x`, the first one the last lane of `before`.
TFAOT_INLINE Integers later(Integers before, Integers x) {
  return permuted(before, x, [](int lane) { return lane + kLanes - 1; });
}

/// Inserts a rank and its place into the kCount * kLanes highest ones, which are in descending order; equal ones stay in
/// the order of insertion.
template <int kCount>
TFAOT_INLINE void insert(Integers rank, Integers place, Integers (&ranks)[kCount], Integers (&places)[kCount]) {
  TFAOT_UNROLL
  for (int v = kCount - 1; v >= 0; --v) {
    const Integers above = later(v > 0 ? ranks[v - 1] : rank, ranks[v]);
    const Integers from = later(v > 0 ? places[v - 1] : place, places[v]);
    const Mask stays = ranks[v] >= rank, here = above >= rank;
    ranks[v] = chosen(stays, ranks[v], chosen(here, rank, above));
    places[v] = chosen(stays, places[v], chosen(here, place, from));
  }
}

/// Writes the first `k` of a row of `size` floats. If fewer than `k` were above the lowest rank, which is that of a NaN,
/// they are sorted one by one instead.
template <bool kLargest, Zeros kZeros, int kCount>
TFAOT_INLINE void writeFirst(std::size_t size, std::size_t k, const Integers (&places)[kCount], const float* in, float* values,
                             std::int32_t* indices) {
  std::int32_t all[kCount * kLanes];
  std::memcpy(all, places, sizeof all);
  if (all[k - 1] < 0) return topKOneByOne<kLargest, kZeros>(size, k, in, values, indices);
  for (std::size_t i = 0; i < k; ++i) {
    indices[i] = all[i];
    values[i] = in[all[i]];
  }
}

/// The same for `kRows` rows without branches: the sorted floats stay in registers, and a row's steps, which wait for one
/// another, overlap with those of the other rows.
template <bool kLargest, Zeros kZeros, int kCount, int kRows>
TFAOT_INLINE void topKInRegisters(std::size_t size, std::size_t k, const float* in, float* values, std::int32_t* indices) {
  Integers ranks[kRows][kCount], places[kRows][kCount];
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kCount; ++v) {
      ranks[r][v] = filled(std::numeric_limits<std::int32_t>::min());
      places[r][v] = filled(std::int32_t{-1});
    }
  }
  for (std::size_t i = 0; i < size; ++i) {
    const Integers place = filled(static_cast<std::int32_t>(i));
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      insert(filled(rankOf<kLargest, kZeros>(in[static_cast<std::size_t>(r) * size + i])), place, ranks[r], places[r]);
    }
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r, in += size, values += k, indices += k) {
    writeFirst<kLargest, kZeros>(size, k, places[r], in, values, indices);
  }
}

/// The same for one row, whose steps would wait: of most vectors no float is among the first `k` so far, and all are left
/// out at once.
template <bool kLargest, Zeros kZeros, int kCount>
TFAOT_INLINE void topKOfOne(std::size_t size, std::size_t k, const float* in, float* values, std::int32_t* indices) {
  Integers ranks[kCount], places[kCount];
  TFAOT_UNROLL
  for (int v = 0; v < kCount; ++v) {
    ranks[v] = filled(std::numeric_limits<std::int32_t>::min());
    places[v] = filled(std::int32_t{-1});
  }
  std::int32_t last = std::numeric_limits<std::int32_t>::min();
  for (std::size_t i = 0; i < size; i += kLanes) {
    const std::size_t count = size - i < kLanes ? size - i : kLanes;
    const Integers here = rankOf<kLargest, kZeros>(loadFirst(in + i, count));
    if (!isAny((here > last) & firstLanes(count))) continue;
    for (std::size_t j = i; j < i + count; ++j) {
      const std::int32_t rank = rankOf<kLargest, kZeros>(in[j]);
      if (rank <= last) continue;
      insert(filled(rank), filled(static_cast<std::int32_t>(j)), ranks, places);
      std::int32_t all[kCount * kLanes];
      std::memcpy(all, ranks, sizeof all);
      last = all[k - 1];
    }
  }
  writeFirst<kLargest, kZeros>(size, k, places, in, values, indices);
}

template <int kStep, class Take>
TFAOT_INLINE void takeAcross(Take take, const Integers& ranks, const Integers& places) {
  if constexpr (kStep > 0) {
    take(exchanged<kStep>(ranks), exchanged<kStep>(places));
    takeAcross<kStep / 2>(take, ranks, places);
  }
}
/// The first of one row, and the first of equal ones.
template <bool kLargest, Zeros kZeros>
TFAOT_INLINE void topOne(std::size_t size, const float* in, float* value, std::int32_t* index) {
  Integers best = filled(std::numeric_limits<std::int32_t>::min()), place = filled(std::int32_t{0});
  const auto take = [&](Integers rank, Integers here) {
    const Mask isBetter = (rank > best) | ((rank == best) & (here < place));
    best = chosen(isBetter, rank, best);
    place = chosen(isBetter, here, place);
  };
  each(size, [&](auto at) {
    const Integers rank = rankOf<kLargest, kZeros>(at.load(in)), here = at.count(0, 1);
    const Mask isBetter = at.kIsWhole ? rank > best : (rank > best) & firstLanes(at.count());
    best = chosen(isBetter, rank, best);
    place = chosen(isBetter, here, place);
  });
  takeAcross<kLanes / 2>(take, best, place);
  *index = place[0];
  *value = in[place[0]];
}

template <bool kLargest, Zeros kZeros, int kCount>
TFAOT_ALONE void topKOfSeveral(std::size_t rows, std::size_t size, std::size_t k, const float* in, float* values,
                          std::int32_t* indices) {
  constexpr std::size_t kTogether = kCount == 1 ? 4 : 2;
  std::size_t row = 0;
  for (; row + kTogether <= rows; row += kTogether) {
    topKInRegisters<kLargest, kZeros, kCount, kTogether>(size, k, in + row * size, values + row * k, indices + row * k);
  }
  for (; row < rows; ++row) topKOfOne<kLargest, kZeros, kCount>(size, k, in + row * size, values + row * k, indices + row * k);
}

/// The first `k` of each of `rows` rows of `size` floats in descending (kLargest) or ascending order, and their indices;
/// equal ones by index. Zeros have the signs that they have in `in`.
template <bool kLargest, Zeros kZeros>
inline void topK(std::size_t rows, std::size_t size, std::size_t k, const float* in, float* values,
                 std::int32_t* indices) {
  if (k == 1 && rows > 1) {  // of one row, most vectors are left out below
    for (std::size_t row = 0; row < rows; ++row) topOne<kLargest, kZeros>(size, in + row * size, values + row, indices + row);
    return;
  }
  if (k <= kLanes) return topKOfSeveral<kLargest, kZeros, 1>(rows, size, k, in, values, indices);
  if (k <= 2 * kLanes) return topKOfSeveral<kLargest, kZeros, 2>(rows, size, k, in, values, indices);
  for (std::size_t row = 0; row < rows; ++row) {
    topKOneByOne<kLargest, kZeros>(size, k, in + row * size, values + row * k, indices + row * k);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ELEMENTWISE_H_
