// finish_rows.h: the last step of dense layers whose sums are in memory: bias and activation.
#ifndef TFAOT_KERNELS_FINISH_ROWS_H_
#define TFAOT_KERNELS_FINISH_ROWS_H_

#include "activating.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The last step of rows, whose results lie `apart` numbers apart: bias, what lies in `beside` as results lie in `out` unless it is null,
/// and activation.
class FinishRows {
 public:
  FinishRows(const Dispatch& dispatch, std::size_t apart, const float* bias, Activation activation)
      : dispatch_(dispatch), apart_(apart), bias_(bias), activation_(activation) {}

  /// Of `columns` sums of columns from `column` on; sums of rows lie `stride` floats apart.
  void operator()(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, float* out,
                  const float* beside = nullptr) const {
    finish<StoredFloats>(sums, stride, rows, column, columns, out, beside);
    if (isBounded()) return;
    for (; rows > 0; --rows, out += apart_) activateRow(dispatch_, activation_, out + column, columns);
  }

  /// The same with results in the form `Stored`, of bfloat16 and up to kMostColumns columns.
  template <class Stored>
  void storeAs(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns,
               typename Stored::Element* out, const float* beside) const {
    if (isBounded()) return finish<Stored>(sums, stride, rows, column, columns, out, beside);
    if (activation_ == Activation::gelu_erf) {
      return add<Stored>(sums, stride, rows, column, columns, out, beside, [](Vector x) { return nearGeluErf(x); });
    }
    alignas(64) float row[kMostColumns];
    for (; rows > 0; --rows, sums += stride, out += apart_) {
      finish<StoredFloats>(sums, stride, 1, column, columns, row - column, beside);
      if (beside != nullptr) beside += apart_;
      activateRow(dispatch_, activation_, row, columns);
      std::size_t i = 0;
      for (; i + kLanes <= columns; i += kLanes) Stored::put(load(row + i), out + column + i);
      if (i < columns) Stored::put(loadFirst(row + i, columns - i), columns - i, out + column + i);
    }
  }

  static constexpr std::size_t kMostColumns = 4 * kPanel;

 private:
  struct StoredFloats {
    using Element = float;
    static TFAOT_INLINE void put(Vector x, float* to) { store(to, x); }
    static TFAOT_INLINE void put(Vector x, std::size_t count, float* to) { storeFirst(to, count, x); }
  };

  /// Whether the activation only bounds, or there is none.
  bool isBounded() const { return activation_ == Activation::relu || activation_ == Activation::clip || activation_ == Activation::none; }

  /// All but activations that do more than bound.
  template <class Stored>
  TFAOT_INLINE void finish(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns,
                           typename Stored::Element* out, const float* beside) const {
    const Activation activation = activation_;
    if (activation == Activation::relu) {
      add<Stored>(sums, stride, rows, column, columns, out, beside, [](Vector x) { return positivePart(x); });
    } else if (activation == Activation::clip) {
      add<Stored>(sums, stride, rows, column, columns, out, beside, [&](Vector x) { return clipped(x, activation.low, activation.high); });
    } else {
      add<Stored>(sums, stride, rows, column, columns, out, beside, [](Vector x) { return x; });
    }
  }

  /// Without a bias zeros are added, which makes zero of -0.
  template <class Stored, class Bounded>
  TFAOT_INLINE void add(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns,
                        typename Stored::Element* out, const float* beside, Bounded bounded) const {
    const float* const bias = bias_;
    for (std::size_t i = 0; i < columns; i += kLanes) {
      const std::size_t rest = columns - i, place = column + i;
      const bool isWhole = rest >= kLanes;
      const Vector term = bias == nullptr ? Vector{} : isWhole ? load(bias + place) : loadFirst(bias + place, rest);
      const float* from = sums + i;
      const float* more = beside + place;
      auto* to = out + place;
      if (beside != nullptr && isWhole) {
        for (std::size_t r = rows; r > 0; --r, from += stride, to += apart_, more += apart_) {
          Stored::put(bounded(load(from) + term + load(more)), to);
        }
      } else if (beside != nullptr) {
        for (std::size_t r = rows; r > 0; --r, from += stride, to += apart_, more += apart_) {
          Stored::put(bounded(load(from) + term + loadFirst(more, rest)), rest, to);
        }
      } else if (isWhole) {
        for (std::size_t r = rows; r > 0; --r, from += stride, to += apart_) Stored::put(bounded(load(from) + term), to);
      } else {
        for (std::size_t r = rows; r > 0; --r, from += stride, to += apart_) Stored::put(bounded(load(from) + term), rest, to);
      }
    }
  }

  const Dispatch& dispatch_;
  const std::size_t apart_;
  const float* const bias_;
  const Activation activation_;
};

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_FINISH_ROWS_H_
