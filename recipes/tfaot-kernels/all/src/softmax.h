// softmax.h: exp(x) over the sum of all exp(x) of a row.
#ifndef TFAOT_KERNELS_SOFTMAX_H_
#define TFAOT_KERNELS_SOFTMAX_H_

#include <limits>

#include "activations.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();  // whose exponential is zero

/// Combines every lane with the others of its group of `kGroup` lanes, a power of two; each gets the same result.
template <int kGroup, class Combine>
TFAOT_INLINE Vector reduceGroups(Vector x, Combine combine) {
  if constexpr (kGroup > 1) {
    x = combine(x, exchanged<kGroup / 2>(x));
    x = reduceGroups<kGroup / 2>(x, combine);
  }
  return x;
}

// The order passes over NaN, as XLA does; it comes back where the largest value is subtracted.
struct Largest {
  template <class T>
  TFAOT_INLINE T operator()(T known, T value) const {
    return larger(value, known);
  }
};

struct Sum {
  template <class T>
  TFAOT_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};

/// Rows of at most kGroup floats, as many at a time as fit into a vector.
template <int kGroup>
void softmaxShort(std::size_t rows, std::size_t size, const float* in, float* out) {
  constexpr std::size_t kRows = static_cast<std::size_t>(kLanes / kGroup);
  for (std::size_t row = 0; row < rows; row += kRows, in += kRows * size, out += kRows * size) {
    const std::size_t count = rows - row < kRows ? rows - row : kRows;
    const bool whole = size == kGroup && count == kRows;
    Vector x;
    if (whole) {
      x = load(in);
    } else {
      x = broadcast(kLowest);
      float padded[kLanes];
      store(padded, x);
      for (std::size_t r = 0; r < count; ++r) {
        for (std::size_t i = 0; i < size; ++i) padded[r * kGroup + i] = in[r * size + i];
      }
      x = load(padded);
    }
    // A row of padding alone has no largest value; what becomes of it is not stored.
    const Vector largest = reduceGroups<kGroup>(larger(x, broadcast(kLowest)), Largest{});
    const Vector e = exponential(x - largest, Vector{}).value();
    const Vector result = e / reduceGroups<kGroup>(e, Sum{});
    if (whole) {
      store(out, result);
    } else {
      float padded[kLanes];
      store(padded, result);
      for (std::size_t r = 0; r < count; ++r) {
        for (std::size_t i = 0; i < size; ++i) out[r * size + i] = padded[r * kGroup + i];
      }
    }
  }
}

/// One vector of a row, the last one of it beside minus infinity.
TFAOT_INLINE Vector loadPart(const float* from, std::size_t count) {
  if (count >= kLanes) return load(from);
  float padded[kLanes];
  store(padded, broadcast(kLowest));
  std::memcpy(padded, from, count * sizeof(float));
  return load(padded);
}

TFAOT_INLINE void storePart(float* to, std::size_t count, Vector value) {
  if (count >= kLanes) return store(to, value);
  float padded[kLanes];
  store(padded, value);
  std::memcpy(to, padded, count * sizeof(float));
}

/// One row of any length.
inline void softmaxLong(std::size_t size, const float* in, float* out) {
  Vector most = broadcast(kLowest);
  for (std::size_t i = 0; i < size; i += kLanes) most = Largest{}(most, loadPart(in + i, size - i));
  most = reduceGroups<kLanes>(most, Largest{});
  Vector sum = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    const Vector e = exponential(loadPart(in + i, size - i) - most, Vector{}).value();
    storePart(out + i, size - i, e);
    sum += e;
  }
  sum = reduceGroups<kLanes>(sum, Sum{});
  for (std::size_t i = 0; i < size; i += kLanes) storePart(out + i, size - i, loadPart(out + i, size - i) / sum);
}

/// The shortest group that holds a row.
template <int kGroup = 1>
TFAOT_INLINE void softmaxRows(std::size_t rows, std::size_t size, const float* in, float* out) {
  if (size <= kGroup) return softmaxShort<kGroup>(rows, size, in, out);
  if constexpr (kGroup < kLanes) {
    softmaxRows<2 * kGroup>(rows, size, in, out);
  } else {
    for (std::size_t row = 0; row < rows; ++row) softmaxLong(size, in + row * size, out + row * size);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_SOFTMAX_H_
