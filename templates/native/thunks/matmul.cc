// XLA's matrix products of one type: TFAOT_SCALAR for both operands, TFAOT_RESULT for the result.

#include <complex>

#include "runtime/matmul.h"
#include "xla/backends/cpu/runtime/dot_lib.h"

namespace xla::cpu::internal {

template <typename LhsType, typename RhsType, typename OutType>
void TypedMatMul(const Eigen::ThreadPoolDevice*, void* out, void* lhs, void* rhs, std::int64_t m, std::int64_t n,
                 std::int64_t k, bool transpose_lhs, bool transpose_rhs, absl::AnyInvocable<void()> done) {
  tfaot_native::multiply(static_cast<OutType*>(out), static_cast<const LhsType*>(lhs),
                         static_cast<const RhsType*>(rhs), m, n, k, transpose_lhs, transpose_rhs);
  done();
}

template void TypedMatMul<TFAOT_SCALAR, TFAOT_SCALAR, TFAOT_RESULT>(const Eigen::ThreadPoolDevice*, void*, void*,
                                                                    void*, std::int64_t, std::int64_t, std::int64_t,
                                                                    bool, bool, absl::AnyInvocable<void()>);

}  // namespace xla::cpu::internal
