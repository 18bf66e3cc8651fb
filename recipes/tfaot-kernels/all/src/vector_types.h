// vector_types.h: vectors of a target's registers, by the vector extensions of GCC and Clang, and what is the same for all
// targets. The file of a target includes it after its constants.
#ifndef TFAOT_KERNELS_VECTOR_TYPES_H_
#define TFAOT_KERNELS_VECTOR_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "compiler.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

template <class Element, std::size_t kCount>
struct VectorType {
  using Type [[gnu::vector_size(kCount * sizeof(Element))]] = Element;  // GCC ignores other places of the attribute in templates
};
/// As many elements as fit into a register.
template <class Element>
inline constexpr int kLanesOf = kLanes * static_cast<int>(sizeof(float)) / static_cast<int>(sizeof(Element));
template <class Element>
using VectorOf = typename VectorType<Element, kLanesOf<Element>>::Type;

using Vector = VectorOf<float>;
using Mask = VectorOf<std::int32_t>;
using Integers = Mask;
using Unsigned = VectorOf<std::uint32_t>;
using Shorts = VectorOf<std::int16_t>;
using Doubles = VectorOf<double>;
using Longs = VectorOf<std::int64_t>;

// What a target has for vectors of an element type.

/// Masks: the first lanes of a vector, and any others, are loaded and stored by one instruction that is no slower than that
/// for all lanes.
template <class Element>
inline constexpr bool kHasMasks = false;
/// An instruction that loads the first lanes only.
template <class Element>
inline constexpr bool kLoadsParts = false;
/// `notAbove`.
template <class Element>
inline constexpr bool kCountsNotAbove = false;
/// Some CPUs have an instruction for `addDots`; `addsDots` says which.
template <class Values>
inline constexpr bool kMayAddDots = false;
/// Some CPUs have an instruction for `lookedUp`; `looksUp` says which.
template <class Bytes>
inline constexpr bool kMayLookUp = false;
/// `addShortDots` and `bytesFrom`.
template <class Values>
inline constexpr bool kMayAddShortDots = false;
/// Tiles of the CPU (targets/amx.h), if assemblers know them.
template <class Values>
struct TilesOf {
  static constexpr bool kMayExist = false;
  static std::uint32_t known() { return 0; }
};

template <class To, class From>
TFAOT_INLINE To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <class Element>
TFAOT_INLINE VectorOf<Element> load(const Element* from) {
  VectorOf<Element> value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class Element>
TFAOT_INLINE void store(Element* to, VectorOf<Element> value) {
  std::memcpy(to, &value, sizeof value);
}

template <class Element, int... kLane>
TFAOT_INLINE VectorOf<Element> broadcast(Element x, std::integer_sequence<int, kLane...>) {
  return VectorOf<Element>{(static_cast<void>(kLane), x)...};
}
/// `x` in all lanes.
template <class Element>
TFAOT_INLINE VectorOf<Element> broadcast(Element x) {
  return broadcast(x, std::make_integer_sequence<int, kLanesOf<Element>>{});
}

template <class Of, int... kLane>
TFAOT_INLINE Mask perLane(Of of, std::integer_sequence<int, kLane...>) {
  return Mask{of(kLane)...};
}
/// Lane i holds of(i); `of` is a lambda that captures nothing.
template <class Of>
TFAOT_INLINE Mask perLane(Of of) {
  return perLane(of, std::make_integer_sequence<int, kLanes>{});
}
/// 0, 1, 2 and so on.
TFAOT_INLINE Mask laneNumbers() {
  return perLane([](int lane) { return lane; });
}
/// A mask that is set in the first `count` lanes.
TFAOT_INLINE Mask firstLanes(std::size_t count) {
  return laneNumbers() < static_cast<std::int32_t>(count);
}

template <class Values, class From, int... kLane>
TFAOT_INLINE Values permuted(Values a, Values b, From from, std::integer_sequence<int, kLane...>) {
  return TFAOT_SHUFFLE(Mask, a, b, from(kLane)...);
}
/// Lane i gets the value of lane from(i) of `a`, or of lane from(i) - kLanes of `b`; `from` is a lambda that captures nothing.
template <class Values, class From>
TFAOT_INLINE Values permuted(Values a, Values b, From from) {
  return permuted(a, b, from, std::make_integer_sequence<int, kLanes>{});
}
template <class From>
TFAOT_INLINE Vector permuted(Vector x, From from) {
  return permuted(x, x, from);
}

/// Lane i gets the value of lane i ^ kStep; kStep is a power of two below kLanes.
template <int kStep>
TFAOT_INLINE Vector exchanged(Vector x) {
  return permuted(x, [](int lane) { return lane ^ kStep; });
}
template <int kStep>
TFAOT_INLINE Mask exchanged(Mask x) {
  return bitsAs<Mask>(exchanged<kStep>(bitsAs<Vector>(x)));
}

/// Prefetches the address `ahead` bytes after `from`, which need not exist, into the L1 or the L2 cache.
template <int kCache = 1>
TFAOT_INLINE void prefetch(const float* from, std::size_t ahead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + ahead), 0, 4 - kCache);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_VECTOR_TYPES_H_
