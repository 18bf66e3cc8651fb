// tfaot/tensor.h: inputs and outputs, as programs know them at compile time.
#ifndef TFAOT_TENSOR_H_
#define TFAOT_TENSOR_H_

#include <tfaot/version.h>

#include <cstddef>
#include <cstdint>

#include <tfaot/abi.h>
#include <tfaot/half.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

static_assert(sizeof(bool) == 1 && sizeof(float) == 4 && sizeof(double) == 8, "the C ABI's element types");

/// Element types, by NumPy's names; the values are the C ABI's.
enum class DType : std::int32_t {
  boolean = TFAOT_BOOL,
  int8 = TFAOT_INT8,
  int16 = TFAOT_INT16,
  int32 = TFAOT_INT32,
  int64 = TFAOT_INT64,
  uint8 = TFAOT_UINT8,
  uint16 = TFAOT_UINT16,
  uint32 = TFAOT_UINT32,
  uint64 = TFAOT_UINT64,
  float32 = TFAOT_FLOAT32,
  float64 = TFAOT_FLOAT64,
  float16 = TFAOT_FLOAT16,
  bfloat16 = TFAOT_BFLOAT16,
  complex64 = TFAOT_COMPLEX64,
  complex128 = TFAOT_COMPLEX128,
};

namespace detail {
template <class Element>
struct NoElementType {
  static_assert(sizeof(Element) == 0, "tfaot: this type is no element type of a tensor: bool, std::int8_t to std::uint64_t, float, double, tfaot::float16, tfaot::bfloat16, std::complex<float> and std::complex<double> (tfaot/complex.h)");
  static constexpr DType value{};
};
}  // namespace detail

/// The element type of the C++ type `Element` (`dtype_of<float> == DType::float32`); defined only for element types.
template <class Element>
inline constexpr DType dtype_of = detail::NoElementType<Element>::value;
/// \cond
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::int8;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::int16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::uint16;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::uint32;
template <>
inline constexpr DType dtype_of<std::uint64_t> = DType::uint64;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<float16> = DType::float16;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bfloat16;
/// \endcond

/// NumPy's name of an element type, "float32"; "bfloat16", which NumPy lacks.
constexpr const char* dtype_name(DType dtype) noexcept {
  constexpr const char* names[] = {"bool",   "int8",    "int16",   "int32",   "int64",    "uint8",     "uint16",   "uint32",
                                   "uint64", "float32", "float64", "float16", "bfloat16", "complex64", "complex128"};
  const std::int32_t number = static_cast<std::int32_t>(dtype);
  return number >= TFAOT_BOOL && number <= TFAOT_COMPLEX128 ? names[number - TFAOT_BOOL] : "unknown";
}

/// Name, element type and size of an input or output.
struct TensorInfo {
  const char* name;       ///< as in the model's signature
  DType dtype;            ///< element type
  std::size_t row_size;   ///< elements of one row: the product of all axes but the batch axis
  bool has_batch_axis;    ///< false: one row, whatever the batch size

  /// Number of elements at `batch_size`.
  constexpr std::size_t size_at(std::size_t batch_size) const noexcept {
    return has_batch_axis ? batch_size * row_size : row_size;
  }
};

/// A variable of a model, which tfaot::State (tfaot/state.h) keeps.
struct StateInfo {
  const char* name;     ///< as in the model
  DType dtype;          ///< element type
  std::size_t size;     ///< elements
  std::size_t input;    ///< the input that takes its value
  std::size_t output;   ///< the output that has its next value, if it is updated
  bool is_updated;      ///< whether steps change it
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_TENSOR_H_
