// order.h: sorting by an arbitrary comparison.
#ifndef TFAOT_KERNELS_ORDER_H_
#define TFAOT_KERNELS_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The numbers 0 ... size - 1 in the order of `before(left, right)`; equal ones in ascending order. The result is in
/// `order` or in `other`, which both have room for `size` numbers.
///
/// It ends, and stays within its memory, whatever `before` returns. std::sort guarantees neither if the comparison is not a
/// strict weak order, as with NaN.
template <class Before>
inline const std::int32_t* stableOrder(std::size_t size, std::int32_t* order, std::int32_t* other, Before before) {
  for (std::size_t i = 0; i < size; ++i) order[i] = static_cast<std::int32_t>(i);
  for (std::size_t width = 1; width < size; width *= 2) {
    for (std::size_t start = 0; start < size; start += 2 * width) {
      const std::size_t middle = start + width < size ? start + width : size;
      const std::size_t end = start + 2 * width < size ? start + 2 * width : size;
      std::size_t left = start, right = middle;
      for (std::size_t i = start; i < end; ++i) {
        const bool takesRight = right < end && (left == middle || before(order[right], order[left]));
        other[i] = order[takesRight ? right++ : left++];
      }
    }
    std::swap(order, other);
  }
  return order;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ORDER_H_
