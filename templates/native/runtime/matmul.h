// Matrix products for compiled models: what XLA's code calls if a product is too large to be written out.
//
// XLA's own sources do this by Eigen's tensor contractions, whose templates take up to a minute to compile. These
// products of matrices use the same kernels of Eigen and compile in seconds.
#ifndef TFAOT_NATIVE_RUNTIME_MATMUL_H_
#define TFAOT_NATIVE_RUNTIME_MATMUL_H_

#include <cstdint>

#include "Eigen/Core"

namespace tfaot_native {

using Index = std::int64_t;

template <class Scalar>
using ColumnMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

// The type that a product is computed in: small types would overflow or lose digits.
template <class Scalar>
struct Accumulator {
  using type = Scalar;
};
template <>
struct Accumulator<Eigen::half> {
  using type = float;
};

template <class Out, class Lhs, class Rhs>
void assign_product(Eigen::Map<ColumnMajor<Out>> out, const Lhs& lhs, const Rhs& rhs) {
  using Type = typename Accumulator<Out>::type;
  if constexpr (std::is_same_v<Type, Out> && std::is_same_v<typename Lhs::Scalar, Out>) {
    out.noalias() = lhs * rhs;
  } else {
    const ColumnMajor<Type> a = lhs.template cast<Type>();
    const ColumnMajor<Type> b = rhs.template cast<Type>();
    ColumnMajor<Type> product;
    product.noalias() = a * b;
    out = product.template cast<Out>();
  }
}

// out (m x n) = lhs (m x k) * rhs (k x n), all column-major; a transposed operand is stored as its transpose.
template <class LhsScalar, class RhsScalar, class Out>
void multiply(Out* out, const LhsScalar* lhs, const RhsScalar* rhs, Index m, Index n, Index k, bool transpose_lhs,
              bool transpose_rhs) {
  const Eigen::Map<const ColumnMajor<LhsScalar>> a(lhs, transpose_lhs ? k : m, transpose_lhs ? m : k);
  const Eigen::Map<const ColumnMajor<RhsScalar>> b(rhs, transpose_rhs ? n : k, transpose_rhs ? k : n);
  Eigen::Map<ColumnMajor<Out>> c(out, m, n);
  if (transpose_lhs && transpose_rhs) {
    assign_product<Out>(c, a.transpose(), b.transpose());
  } else if (transpose_lhs) {
    assign_product<Out>(c, a.transpose(), b);
  } else if (transpose_rhs) {
    assign_product<Out>(c, a, b.transpose());
  } else {
    assign_product<Out>(c, a, b);
  }
}

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_RUNTIME_MATMUL_H_
