// tfaot/half.h: float16 and bfloat16, for which C++17 has no types, as their bits.
//
//     tfaot::float16 half(0.1f);            // rounded to nearest, ties to even
//     float number = half;                  // exact
//     tfaot::bfloat16 same{bfloat16::from_bits(0x3f80)};  // 1
//
// They hold inputs and outputs of models. They have no arithmetic: convert them to float for that.
#ifndef TFAOT_HALF_H_
#define TFAOT_HALF_H_

#include <tfaot/version.h>

#include <cstdint>
#include <cstring>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

inline std::uint32_t bits_of(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(std::uint32_t bits) noexcept {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// `value` without its `places` lowest bits, rounded to nearest, ties to even.
constexpr std::uint32_t without(std::uint32_t value, std::uint32_t places) noexcept {
  const std::uint32_t half = std::uint32_t{1} << (places - 1);
  return (value + (half - 1) + ((value >> places) & 1u)) >> places;
}

}  // namespace detail

/// A binary16 number of IEEE 754: 11 bits of precision, at most 65504.
struct float16 {
  std::uint16_t bits = 0;  ///< sign, 5 bits of exponent, 10 of the significand

  float16() = default;

  /// The nearest number; infinity from 65520 on. NaN stays NaN.
  explicit float16(float value) noexcept {
    const std::uint32_t all = detail::bits_of(value), sign = (all >> 16) & 0x8000u, size = all & 0x7fffffffu;
    std::uint32_t made = 0;
    if (size > 0x7f800000u) {
      made = 0x7e00u | ((size >> 13) & 0x1ffu);
    } else if (size >= 0x47800000u) {  // 65536
      made = 0x7c00u;
    } else if (size >= 0x38800000u) {  // 2^-14, the smallest normal number; rounding up may reach infinity
      made = detail::without(size - 0x38000000u, 13);
    } else if (size >= 0x33000000u) {  // 2^-25, half of the smallest number
      made = detail::without((size & 0x7fffffu) | 0x800000u, 126 - (size >> 23));
    }
    bits = static_cast<std::uint16_t>(sign | made);
  }

  /// The number with these bits.
  static float16 from_bits(std::uint16_t bits) noexcept {
    float16 made;
    made.bits = bits;
    return made;
  }

  /// The same number.
  operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16, size = bits & 0x7fffu;
    if (size >= 0x7c00u) return detail::float_of(sign | 0x7f800000u | ((size & 0x3ffu) << 13));
    if (size >= 0x0400u) return detail::float_of(sign | ((size << 13) + 0x38000000u));
    const float tiny = static_cast<float>(size) * 0x1p-24f;  // subnormal numbers, and 0
    return detail::float_of(sign | detail::bits_of(tiny));
  }
};

/// The upper half of a float: the range of float with 8 bits of precision.
struct bfloat16 {
  std::uint16_t bits = 0;  ///< sign, 8 bits of exponent, 7 of the significand

  bfloat16() = default;

  /// The nearest number. NaN stays NaN.
  explicit bfloat16(float value) noexcept {
    const std::uint32_t all = detail::bits_of(value);
    const bool is_nan = (all & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(is_nan ? (all >> 16) | 0x40u : detail::without(all, 16));
  }

  /// The number with these bits.
  static bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 made;
    made.bits = bits;
    return made;
  }

  /// The same number.
  operator float() const noexcept { return detail::float_of(std::uint32_t{bits} << 16); }
};

static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2, "the C ABI's element types");

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_HALF_H_
