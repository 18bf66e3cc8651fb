// softmax.h: exp(x) over the sum of all exp(x) of a row.
#ifndef TFAOT_KERNELS_SOFTMAX_H_
#define TFAOT_KERNELS_SOFTMAX_H_

#include "activations.h"
#include "dispatch.h"
#include "pooling.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Combines the lanes of each group of `kGroup` lanes, a power of two; all lanes of a group get the result.
template <int kGroup, class Values, class Combine>
TFAOT_INLINE Values reduceGroups(Values x, [[maybe_unused]] Combine combine) {
  if constexpr (kGroup > 1) {
    x = combine(x, exchanged<kGroup / 2>(x));
    x = reduceGroups<kGroup / 2>(x, combine);
  }
  return x;
}

// The largest value ignores NaN, as in XLA; a row with NaN becomes NaN when the largest value is subtracted.

/// Rows of kGroup floats, as many at a time as fit into a vector.
template <int kGroup>
void softmaxShort(std::size_t rows, const float* in, float* out) {
  for (std::size_t left = rows * kGroup; left > 0;) {
    const std::size_t count = left < kLanes ? left : kLanes;
    const Vector x = count == kLanes ? load(in) : loadFirst(in, count);
    const Vector largest = reduceGroups<kGroup>(larger(x, broadcast(kLowest)), Largest{});
    const Vector e = exponentialOfNegative(x - largest);
    const Vector result = e * (1.0f / reduceGroups<kGroup>(e, Sum{}));
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

/// One vector of a row; the last one is filled up with minus infinity.
TFAOT_INLINE Vector loadPart(const float* from, std::size_t count) {
  if (count >= kLanes) return load(from);
  return firstLanes(count) ? loadFirst(from, count) : broadcast(kLowest);
}

TFAOT_INLINE void storePart(float* to, std::size_t count, Vector value) {
  if (count >= kLanes) return store(to, value);
  storeFirst(to, count, value);
}

/// The sum of partial sums; they may be rotated.
TFAOT_INLINE Vector sumOfPartial(Vector (&partial)[kPartialVectors]) {
  TFAOT_UNROLL
  for (int count = kPartialVectors / 2; count > 0; count /= 2) {
    TFAOT_UNROLL
    for (int v = 0; v < count; ++v) partial[v] += partial[v + count];
  }
  return reduceGroups<kLanes>(partial[0], Sum{});
}

/// `kRows` rows of kSize floats. Each row waits for its own largest value and sum, so several rows overlap.
template <int kSize, int kRows>
TFAOT_INLINE void softmaxTogether(const float* in, float* out) {
  constexpr int kCount = vectorsOf(kSize), kLast = kSize - (kCount - 1) * kLanes;
  Vector x[kRows][kCount], most[kRows];
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    most[r] = broadcast(kLowest);
    TFAOT_UNROLL
    for (int v = 0; v < kCount; ++v) {
      x[r][v] = loadPart(in + r * kSize + v * kLanes, v + 1 < kCount ? kLanes : kLast);
      most[r] = Largest{}(most[r], x[r][v]);
    }
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) most[r] = reduceGroups<kLanes>(most[r], Largest{});
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kCount; ++v) x[r][v] = exponentialOfNegative(x[r][v] - most[r]);
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    Vector partial[kPartialVectors] = {};
    TFAOT_UNROLL
    for (int v = 0; v < kCount; ++v) partial[v % kPartialVectors] += x[r][v];
    const Vector inverse = 1.0f / sumOfPartial(partial);
    TFAOT_UNROLL
    for (int v = 0; v < kCount; ++v) {
      storePart(out + r * kSize + v * kLanes, v + 1 < kCount ? kLanes : kLast, x[r][v] * inverse);
    }
  }
}

template <int kSize>
TFAOT_ALONE void softmaxInRegisters(std::size_t rows, const float* in, float* out) {
  constexpr int kTogether = kSize <= 2 * kLanes ? 4 : kSize <= 4 * kLanes ? 2 : 1;
  std::size_t row = 0;
  for (; row + kTogether <= rows; row += kTogether) softmaxTogether<kSize, kTogether>(in + row * kSize, out + row * kSize);
  for (; row < rows; ++row) softmaxTogether<kSize, 1>(in + row * kSize, out + row * kSize);
}

/// One row of any length.
TFAOT_INLINE void softmaxRow(std::size_t size, const float* in, float* out) {
  Vector most = broadcast(kLowest);
  for (std::size_t i = 0; i < size; i += kLanes) most = Largest{}(most, loadPart(in + i, size - i));
  most = reduceGroups<kLanes>(most, Largest{});
  // The partial sums are rotated: the next one to be added to comes first. The tree adds the same pairs after any number of
  // rotations.
  Vector partial[kPartialVectors] = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Vector e = exponentialOfNegative(loadPart(in + i, size - i) - most);
    storePart(out + i, size - i, e);
    const Vector added = partial[0] + e;
    TFAOT_UNROLL
    for (int v = 1; v < kPartialVectors; ++v) partial[v - 1] = partial[v];
    partial[kPartialVectors - 1] = added;
  }
  // In rows of fewer than kPartial floats, which `softmaxShort` may compute, the other sums are zero.
  const Vector inverse = 1.0f / sumOfPartial(partial);
  for (std::size_t i = 0; i < size; i += kLanes) storePart(out + i, size - i, loadPart(out + i, size - i) * inverse);
}

/// The softmax of each column of `count` matrices of `size` rows; sums are in the order of the rows.
inline void softmaxOfColumns(std::size_t count, std::size_t size, std::size_t columns, const float* in, float* out) {
  const std::size_t all = size * columns;
  for (const float* const end = in + count * all; in != end; in += all, out += all) {
    for (std::size_t j = 0; j < columns; j += kLanes) {
      const std::size_t left = columns - j;
      Vector most = broadcast(kLowest), sum = {};
      for (std::size_t i = j; i < all; i += columns) most = Largest{}(most, loadPart(in + i, left));
      for (std::size_t i = j; i < all; i += columns) {
        const Vector e = exponentialOfNegative(loadPart(in + i, left) - most);
        storePart(out + i, left, e);
        sum += e;
      }
      const Vector inverse = 1.0f / sum;
      for (std::size_t i = j; i < all; i += columns) storePart(out + i, left, loadPart(out + i, left) * inverse);
    }
  }
}

/// Rows of any length: each in a group of lanes if it fills one, otherwise vector by vector.
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
