// XLA's matrix products of one type: TFAOT_SCALAR, which XLA calls TFAOT_SUFFIX (xla/service/cpu/runtime_single_threaded_matmul.h).

#include <complex>

#include "runtime/matmul.h"

#define TFAOT_JOIN(a, b) a##b
#define TFAOT_NAME(suffix) TFAOT_JOIN(__xla_cpu_runtime_EigenSingleThreadedMatMul, suffix)

extern "C" void TFAOT_NAME(TFAOT_SUFFIX)(const void* run_options, TFAOT_SCALAR* out, const TFAOT_SCALAR* lhs,
                                         const TFAOT_SCALAR* rhs, std::int64_t m, std::int64_t n, std::int64_t k,
                                         std::int32_t transpose_lhs, std::int32_t transpose_rhs);

void TFAOT_NAME(TFAOT_SUFFIX)(const void*, TFAOT_SCALAR* out, const TFAOT_SCALAR* lhs, const TFAOT_SCALAR* rhs,
                              std::int64_t m, std::int64_t n, std::int64_t k, std::int32_t transpose_lhs,
                              std::int32_t transpose_rhs) {
  tfaot_native::multiply(out, lhs, rhs, m, n, k, transpose_lhs != 0, transpose_rhs != 0);
}
