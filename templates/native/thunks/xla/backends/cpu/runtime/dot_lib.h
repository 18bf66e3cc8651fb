// Stand-in for XLA's header of this name: declarations only; the definitions are runtime parts.
#ifndef TFAOT_STAND_IN_DOT_LIB_H_
#define TFAOT_STAND_IN_DOT_LIB_H_

#include <complex>
#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace Eigen {
struct ThreadPoolDevice;
struct half;
}  // namespace Eigen

namespace xla::cpu::internal {

template <typename LhsType, typename RhsType, typename OutType>
void TypedMatMul(const Eigen::ThreadPoolDevice* device, void* out, void* lhs, void* rhs, std::int64_t m,
                 std::int64_t n, std::int64_t k, bool transpose_lhs, bool transpose_rhs,
                 absl::AnyInvocable<void()> done);

}  // namespace xla::cpu::internal

#endif  // TFAOT_STAND_IN_DOT_LIB_H_
