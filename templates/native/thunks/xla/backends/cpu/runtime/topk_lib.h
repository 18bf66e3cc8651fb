// Stand-in for XLA's header of this name: the largest elements of each row.
#ifndef TFAOT_STAND_IN_TOPK_LIB_H_
#define TFAOT_STAND_IN_TOPK_LIB_H_

#include "runtime/sort.h"

namespace xla::cpu::internal {

inline void TopK(std::int64_t rows, std::int64_t length, std::int64_t k, const float* values, float* out_values,
                 std::int32_t* out_indices) {
  tfaot_native::largest(rows, length, k, values, out_values, out_indices);
}

}  // namespace xla::cpu::internal

#endif  // TFAOT_STAND_IN_TOPK_LIB_H_
