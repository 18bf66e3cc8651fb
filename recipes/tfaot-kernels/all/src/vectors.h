// vectors.h: vectors of the target that is being compiled for, and their operations.
#ifndef TFAOT_KERNELS_VECTORS_H_
#define TFAOT_KERNELS_VECTORS_H_

#include "target.h"
#include "targets/portable.h"
#include "vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kVectors = static_cast<int>(kPanel) / kLanes;  ///< vectors of one row of a panel

/// The number of vectors that hold so many floats.
template <class Size>
constexpr Size vectorsOf(Size floats) {
  return (floats + kLanes - 1) / kLanes;
}

/// Whether a dense layer's sums are computed in chains (chains.h): it has too few columns to keep the units busy for one
/// row. With fewer inputs, adding the chains up costs more than a single row gains.
constexpr bool isChained(std::size_t inputs, std::size_t outputs) { return outputs <= 2 * kPanel && inputs >= 128; }

// Sums along a row consist of kPartial partial sums, element i in sum i % kPartial, which are added in a tree (sum i and sum
// i + kPartial / 2, and so on): the same for every target, whatever the length of its vectors.
inline constexpr int kPartial = 16;
inline constexpr int kPartialVectors = kPartial / kLanes;

TFAOT_INLINE Vector multiplyAdd(Vector a, Vector b, float c) { return multiplyAdd(a, b, broadcast(c)); }
TFAOT_INLINE Vector multiplyAdd(float a, Vector b, float c) { return multiplyAdd(broadcast(a), b, broadcast(c)); }

/// c - a * b.
TFAOT_INLINE Vector subtractProduct(Vector c, Vector a, Vector b) { return multiplyAdd(a, -b, c); }

// As in HLO: NaN if one of them is NaN.
TFAOT_INLINE Vector maximum(Vector a, Vector b) { return a != a ? a : larger(a, b); }
TFAOT_INLINE Vector minimum(Vector a, Vector b) { return a != a ? a : smaller(a, b); }

/// The two vectors of a pair exchange the halves on the other side of the diagonal.
template <int kStep, bool kUpper>
TFAOT_INLINE Vector mixedLanes(Vector a, Vector b) {
  return permuted(a, b, [](int lane) {
    const bool isSecond = (lane & kStep) != 0;
    return (isSecond ? kLanes : 0) + (isSecond == kUpper ? lane : lane ^ kStep);
  });
}

/// Swaps lane j of vector i and lane i of vector j, among the first kCount lanes.
template <int kCount, int kStep = kCount / 2>
TFAOT_INLINE void transpose(Vector (&rows)[kCount]) {
  if constexpr (kStep > 0) {
    TFAOT_UNROLL
    for (int i = 0; i < kCount; ++i) {
      if ((i & kStep) != 0) continue;
      const Vector a = rows[i], b = rows[i + kStep];
      rows[i] = mixedLanes<kStep, false>(a, b);
      rows[i + kStep] = mixedLanes<kStep, true>(a, b);
    }
    transpose<kCount, kStep / 2>(rows);
  }
}

inline constexpr int kHalfLanes = kLanes / 2;

/// The upper half of `a` in both halves.
TFAOT_INLINE Vector upperHalf(Vector a) { return halvesOf(exchanged<kHalfLanes>(a), a); }

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_VECTORS_H_
