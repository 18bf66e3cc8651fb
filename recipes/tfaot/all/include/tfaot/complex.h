// tfaot/complex.h: complex numbers as elements of tensors. Only headers of models with complex tensors include it, because
// <complex> includes the headers of streams.
#ifndef TFAOT_COMPLEX_H_
#define TFAOT_COMPLEX_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <complex>

#include <tfaot/macros_on.h>

#include <tfaot/arrays.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

static_assert(sizeof(std::complex<float>) == 8 && sizeof(std::complex<double>) == 16, "the C ABI's element types");

/// \cond
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::complex64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::complex128;
/// \endcond

using ComplexArrays = Arrays<std::complex<float>>;         ///< `std::complex<float>`
using DoubleComplexArrays = Arrays<std::complex<double>>;  ///< `std::complex<double>`

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_COMPLEX_H_
