// finish_rows.h: the last step of dense layers whose sums are in memory: bias and activation.
#ifndef TFAOT_KERNELS_FINISH_ROWS_H_
#define TFAOT_KERNELS_FINISH_ROWS_H_

#include "activating.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The last step of rows, whose results lie `apart` floats apart: bias and activation.
class FinishRows {
 public:
  FinishRows(const Dispatch& dispatch, std::size_t apart, const float* bias, Activation activation, bool isForBfloat16 = false)
      : dispatch_(dispatch), apart_(apart), bias_(bias), activation_(activation), isForBfloat16_(isForBfloat16) {}

  /// Of `columns` sums of columns from `column` on; sums of rows lie `stride` floats apart.
  void operator()(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, float* out) const {
    const Activation activation = activation_;
    if (activation == Activation::relu) {
      add(sums, stride, rows, column, columns, out, [](Vector x) { return positivePart(x); });
    } else if (activation == Activation::clip) {
      add(sums, stride, rows, column, columns, out, [&](Vector x) { return clipped(x, activation.low, activation.high); });
    } else if (isForBfloat16_ && activation == Activation::gelu_erf) {
      add(sums, stride, rows, column, columns, out, [](Vector x) { return nearGeluErf(x); });
    } else {
      add(sums, stride, rows, column, columns, out, [](Vector x) { return x; });
      if (activation == Activation::none) return;
      for (; rows > 0; --rows, out += apart_) activateRow(dispatch_, activation, out + column, columns);
    }
  }

 private:
  /// Without a bias zeros are added, which makes zero of -0.
  template <class Bounded>
  TFAOT_INLINE void add(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, float* out,
                        Bounded bounded) const {
    const float* const bias = bias_;
    std::size_t i = 0;
    for (; i + kLanes <= columns; i += kLanes) {
      const Vector term = bias == nullptr ? Vector{} : load(bias + column + i);
      const float* from = sums + i;
      float* to = out + column + i;
      for (std::size_t r = rows; r > 0; --r, from += stride, to += apart_) store(to, bounded(load(from) + term));
    }
    const std::size_t rest = columns - i;
    if (rest == 0) return;
    const Vector term = bias == nullptr ? Vector{} : loadFirst(bias + column + i, rest);
    const float* from = sums + i;
    float* to = out + column + i;
    for (std::size_t r = rows; r > 0; --r, from += stride, to += apart_) storeFirst(to, rest, bounded(load(from) + term));
  }

  const Dispatch& dispatch_;
  const std::size_t apart_;
  const float* const bias_;
  const Activation activation_;
  const bool isForBfloat16_;
};

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_FINISH_ROWS_H_
