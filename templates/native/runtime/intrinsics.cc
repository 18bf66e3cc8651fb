// Functions that LLVM's code calls for conversions and powers, if the CPU has no instruction for them.
//
// Compilers' own libraries have some of these, but not all of them and not everywhere.

#include <cstdint>
#include <cstring>

namespace {

// Half and bfloat16 travel in the low 16 bits of a floating-point register: a float has the same register, and is known to
// every compiler (x86-64 psABI; AAPCS64).
float pack(std::uint16_t bits) {
  const std::uint32_t wide = bits;
  float result;
  std::memcpy(&result, &wide, sizeof result);
  return result;
}

std::uint16_t unpack(float packed) {
  std::uint32_t wide;
  std::memcpy(&wide, &packed, sizeof wide);
  return static_cast<std::uint16_t>(wide);
}

// A number as sign, exponent and a significand with one bit before the point: (-1)^sign * significand * 2^(exponent - 63).
struct Parts {
  bool negative, infinite, nan;
  int exponent;
  std::uint64_t significand;  // its highest bit is set, or the number is zero
};

Parts split(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const bool negative = bits >> 63 != 0;
  const int biased = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits << 12;
  if (biased == 0x7ff) return {negative, fraction == 0, fraction != 0, 0, fraction};
  if (biased == 0) return {negative, false, false, 0, 0};  // below 2^-1022: zero in every type here
  return {negative, false, false, biased - 1023, std::uint64_t{1} << 63 | fraction >> 1};
}

// Round to the nearest number of a 16-bit type, ties to even. `mantissa` is its number of fraction bits.
std::uint16_t round_to_16_bits(double value, int mantissa) {
  const int exponent_bits = 15 - mantissa;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int special = ((1 << exponent_bits) - 1) << mantissa;
  const Parts parts = split(value);
  const int sign = parts.negative ? 0x8000 : 0;
  if (parts.nan) return static_cast<std::uint16_t>(sign | special | 1 << (mantissa - 1));
  if (parts.infinite || parts.exponent > bias) return static_cast<std::uint16_t>(sign | special);
  const int below_normal = parts.exponent < 1 - bias ? 1 - bias - parts.exponent : 0;
  const int dropped = 63 - mantissa + below_normal;
  if (parts.significand == 0 || dropped > 64) return static_cast<std::uint16_t>(sign);
  std::uint64_t kept = dropped == 64 ? 0 : parts.significand >> dropped;
  const std::uint64_t rest = dropped == 64 ? parts.significand : parts.significand << (64 - dropped);
  const std::uint64_t tie = std::uint64_t{1} << 63;
  if (rest > tie || (rest == tie && (kept & 1) != 0)) ++kept;
  // A carry runs into the exponent, as it should: up to infinity.
  const int exponent = below_normal != 0 ? 0 : parts.exponent + bias - 1;
  return static_cast<std::uint16_t>(sign | ((exponent << mantissa) + static_cast<int>(kept)));
}

float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0x7f800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
  const std::uint32_t result = sign | wide;
  float value;
  std::memcpy(&value, &result, sizeof value);
  return value;
}

template <class T>
T power(T base, std::int32_t exponent) {
  std::uint32_t left = exponent < 0 ? 0u - static_cast<std::uint32_t>(exponent) : static_cast<std::uint32_t>(exponent);
  T result = 1;
  for (; left != 0; left >>= 1, base *= base) {
    if ((left & 1) != 0) result *= base;
  }
  return exponent < 0 ? 1 / result : result;
}

}  // namespace

extern "C" {

float __truncsfhf2(float value) { return pack(round_to_16_bits(value, 10)); }
float __truncdfhf2(double value) { return pack(round_to_16_bits(value, 10)); }
float __gnu_f2h_ieee(float value) { return pack(round_to_16_bits(value, 10)); }
float __extendhfsf2(float half) { return half_to_float(unpack(half)); }
double __extendhfdf2(float half) { return half_to_float(unpack(half)); }
float __gnu_h2f_ieee(float half) { return half_to_float(unpack(half)); }
float __truncsfbf2(float value) { return pack(round_to_16_bits(value, 7)); }
float __truncdfbf2(double value) { return pack(round_to_16_bits(value, 7)); }
float __powisf2(float base, std::int32_t exponent) { return power(base, exponent); }
double __powidf2(double base, std::int32_t exponent) { return power(base, exponent); }

}  // extern "C"
