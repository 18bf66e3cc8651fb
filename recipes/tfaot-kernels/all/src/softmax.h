// softmax.h: exp(x) over the sum of all exp(x) of a row.
#ifndef TFAOT_KERNELS_SOFTMAX_H_
#define TFAOT_KERNELS_SOFTMAX_H_

#include "activations.h"
#include "dispatch.h"
#include "pooling.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Combines every lane with the others of its group of `kGroup` lanes, a power of two; each gets the same result.
template <int kGroup, class Combine>
TFAOT_INLINE Vector reduceGroups(Vector x, [[maybe_unused]] Combine combine) {
  if constexpr (kGroup > 1) {
    x = combine(x, exchanged<kGroup / 2>(x));
    x = reduceGroups<kGroup / 2>(x, combine);
  }
  return x;
}

// The largest value passes over NaN, as in XLA; it comes back where that value is subtracted.

/// Rows of kGroup floats, as many at a time as fit into a vector.
template <int kGroup>
void softmaxShort(std::size_t rows, const float* in, float* out) {
  for (std::size_t left = rows * kGroup; left > 0;) {
    const std::size_t count = left < kLanes ? left : kLanes;
    const Vector x = count == kLanes ? load(in) : loadFirst(in, count);
    const Vector largest = reduceGroups<kGroup>(larger(x, broadcast(kLowest)), Largest{});
    const Vector e = exponential(x - largest).value();
    const Vector result = e / reduceGroups<kGroup>(e, Sum{});
    if (count == kLanes) {
      store(out, result);
    } else {
      storeFirst(out, count, result);
    }
    left -= count;
    in += count;
    out += count;
  }
}

/// One vector of a row, the last one of it beside minus infinity.
TFAOT_INLINE Vector loadPart(const float* from, std::size_t count) {
  if (count >= kLanes) return load(from);
  return firstLanes(count) ? loadFirst(from, count) : broadcast(kLowest);
}

TFAOT_INLINE void storePart(float* to, std::size_t count, Vector value) {
  if (count >= kLanes) return store(to, value);
  storeFirst(to, count, value);
}

/// One row of any length.
TFAOT_INLINE void softmaxRow(std::size_t size, const float* in, float* out) {
  Vector most = broadcast(kLowest);
  for (std::size_t i = 0; i < size; i += kLanes) most = Largest{}(most, loadPart(in + i, size - i));
  most = reduceGroups<kLanes>(most, Largest{});
  // The partial sums turn: what is added next comes first. The tree adds the same pairs, wherever the turning ends.
  Vector partial[kPartialVectors] = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Vector e = exponential(loadPart(in + i, size - i) - most).value();
    storePart(out + i, size - i, e);
    const Vector added = partial[0] + e;
    TFAOT_UNROLL
    for (int v = 1; v < kPartialVectors; ++v) partial[v - 1] = partial[v];
    partial[kPartialVectors - 1] = added;
  }
  TFAOT_UNROLL
  for (int count = kPartialVectors / 2; count > 0; count /= 2) {
    TFAOT_UNROLL
    for (int v = 0; v < count; ++v) partial[v] += partial[v + count];
  }
  // Rows of fewer than kPartial floats, which `softmaxShort` may do, have zeros for the others.
  const Vector sum = reduceGroups<kLanes>(partial[0], Sum{});
  for (std::size_t i = 0; i < size; i += kLanes) storePart(out + i, size - i, loadPart(out + i, size - i) / sum);
}

/// Rows of any length: a group of lanes each if they fill one, or vector by vector.
template <int kGroup = 1>
TFAOT_INLINE void softmaxRows(std::size_t rows, std::size_t size, const float* in, float* out) {
  if (size == kGroup) return softmaxShort<kGroup>(rows, in, out);
  if constexpr (kGroup < kLanes) {
    softmaxRows<2 * kGroup>(rows, size, in, out);
  } else {
    softmaxLong(rows, size, in, out);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_SOFTMAX_H_
