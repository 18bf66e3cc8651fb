// avx2.h: x86-64-v3.
#ifndef TFAOT_KERNELS_TARGETS_AVX2_H_
#define TFAOT_KERNELS_TARGETS_AVX2_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kLanes = 8;
inline constexpr int kRegisters = 16;
inline constexpr int kBlockRows = 8;
inline constexpr int kRowsOfOne = 8, kRowsOfFewOdd = 4, kRowsOfMany = 6;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 6, 4, 3, 2, 2, 1, 1};
inline constexpr int kSteps[kBlockRows + 1] = {0, 1, 1, 1, 1, 3, 3, 3, 3};
inline constexpr int kChainSums = 12;
inline constexpr int kAskingRows = 4;
inline constexpr int kAskingSteps = 3;
inline constexpr std::size_t kAhead = 2048;
inline constexpr bool kAsksAlong = false;
inline constexpr std::size_t kFewRows = 4, kFewRowsOfOne = 8;
inline constexpr std::size_t kFewPanels[kFewRows + 1] = {0, 6, 3, 2, 1};
inline constexpr std::size_t kRanks = 32;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#include "features.h"

#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE Vector loadFirst(const float* from, std::size_t count) {
  return _mm256_maskload_ps(from, reinterpret_cast<__m256i>(firstLanes(count)));
}
TFAOT_INLINE Doubles loadFirst(const double* from, std::size_t count) {
  return _mm256_maskload_pd(from, reinterpret_cast<__m256i>(Longs{0, 1, 2, 3} < static_cast<std::int64_t>(count)));
}
template <>
inline constexpr bool kLoadsParts<float> = true;

TFAOT_INLINE void storeFirst(float* to, std::size_t count, Vector value) {
  // AMD's masked stores are microcode, of 12 cycles each on Zen 3: benchmarks/kernels.py.
  if (count >= kLanes) return store(to, value);
  __m128 part = _mm256_castps256_ps128(value);
  if (count & 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if (count & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if (count & 1) _mm_store_ss(to, part);
}
TFAOT_INLINE void storeFirst(double* to, std::size_t count, Doubles value) { std::memcpy(to, &value, count * sizeof *to); }

TFAOT_INLINE Integers widened(const std::int8_t* from) {
  return reinterpret_cast<Integers>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
TFAOT_INLINE Integers widened(const std::uint8_t* from) {
  return reinterpret_cast<Integers>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}
TFAOT_INLINE Integers widened(const std::uint16_t* from) {
  return reinterpret_cast<Integers>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}
TFAOT_INLINE void storeNarrowed(std::int8_t* to, Integers wide) {
  const __m256i both = reinterpret_cast<__m256i>(wide);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
}
TFAOT_INLINE void storeNarrowed(std::uint8_t* to, Integers wide) {
  const __m256i both = reinterpret_cast<__m256i>(wide);
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}
TFAOT_INLINE void storeNarrowed(std::uint16_t* to, Integers wide) {
  const __m256i both = reinterpret_cast<__m256i>(wide);
  const __m128i low = _mm256_castsi256_si128(both), high = _mm256_extracti128_si256(both, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_packus_epi32(low, high));
}
TFAOT_INLINE Integers nearest(Vector x) { return reinterpret_cast<Integers>(_mm256_cvtps_epi32(x)); }
TFAOT_INLINE VectorOf<std::uint8_t> bytesOf(Integers a, Integers b, Integers c, Integers d) {
  const __m256i first = _mm256_packs_epi32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b));
  const __m256i second = _mm256_packs_epi32(reinterpret_cast<__m256i>(c), reinterpret_cast<__m256i>(d));
  // Each half of a register has a half of each vector.
  const Integers order = perLane([](int lane) { return lane / 2 + lane % 2 * 4; });
  const __m256i bytes = _mm256_packus_epi16(first, second);
  return reinterpret_cast<VectorOf<std::uint8_t>>(_mm256_permutevar8x32_epi32(bytes, reinterpret_cast<__m256i>(order)));
}
/// Compilers would store the whole vector first, and load its parts.
template <int kParts>
TFAOT_INLINE void storeParts(std::uint8_t* to, std::size_t apart, VectorOf<std::uint8_t> bytes) {
  const __m256i all = reinterpret_cast<__m256i>(bytes);
  const __m128i halves[] = {_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)};
  for (int i = 0; i < 2; ++i, to += kParts / 2 * apart) {
    if constexpr (kParts == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves[i]);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), halves[i]);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to + apart), _mm_unpackhi_epi64(halves[i], halves[i]));
    }
  }
}

TFAOT_INLINE void keepInRegister(Vector& value) { TFAOT_OPAQUE_TO_GCC("+v", value); }
TFAOT_INLINE void keepInRegister(Doubles& value) { TFAOT_OPAQUE_TO_GCC("+v", value); }

TFAOT_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
TFAOT_INLINE Doubles multiplyAdd(Doubles a, Doubles b, Doubles c) { return _mm256_fmadd_pd(a, b, c); }
TFAOT_INLINE Mask withSign(Mask magnitude, Mask sign) {
  return reinterpret_cast<Mask>(_mm256_sign_epi32(reinterpret_cast<__m256i>(magnitude), reinterpret_cast<__m256i>(sign)));
}
TFAOT_INLINE Integers sumsOfPairs(Integers a, Integers b) {
  return reinterpret_cast<Integers>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
}
template <>
inline constexpr bool kMayAddShortDots<Integers> = true;
TFAOT_INLINE Unsigned addShortDots(Unsigned sums, Unsigned bytes, Integers others, Unsigned moreBytes, Integers moreOthers) {
  const __m256i first = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(bytes), reinterpret_cast<__m256i>(others));
  const __m256i second = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(moreBytes), reinterpret_cast<__m256i>(moreOthers));
  return sums + reinterpret_cast<Unsigned>(_mm256_madd_epi16(_mm256_add_epi16(first, second), _mm256_set1_epi16(1)));
}
TFAOT_INLINE VectorOf<std::uint8_t> bytesFrom(VectorOf<std::uint8_t> bytes, VectorOf<std::uint8_t> from) {
  return reinterpret_cast<VectorOf<std::uint8_t>>(_mm256_shuffle_epi8(reinterpret_cast<__m256i>(bytes), reinterpret_cast<__m256i>(from)));
}
template <>
inline constexpr bool kMayAddDots<Integers> = TFAOT_KNOWS_AVX_VNNI;
/// Whether the CPU has AVX-VNNI, which is no part of x86-64-v3.
inline bool addsDots() { return hasFeature<1, Register::kEax, 4>(); }
TFAOT_INLINE Unsigned addDots(Unsigned sums, Unsigned bytes, Integers others) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(bytes), "x"(others));
  return sums;
}
TFAOT_INLINE Vector larger(Vector a, Vector b) { return _mm256_max_ps(a, b); }
TFAOT_INLINE Doubles larger(Doubles a, Doubles b) { return _mm256_max_pd(a, b); }
TFAOT_INLINE Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }
TFAOT_INLINE Doubles smaller(Doubles a, Doubles b) { return _mm256_min_pd(a, b); }
TFAOT_INLINE Vector squareRoot(Vector x) { return _mm256_sqrt_ps(x); }
TFAOT_INLINE Vector roundedDown(Vector x) { return _mm256_floor_ps(x); }
TFAOT_INLINE Vector roundedUp(Vector x) { return _mm256_ceil_ps(x); }
TFAOT_INLINE Vector roundedToEven(Vector x) { return _mm256_round_ps(x, _MM_FROUND_CUR_DIRECTION); }
TFAOT_INLINE bool isAny(Mask which) { return _mm256_movemask_ps(reinterpret_cast<__m256>(which)) != 0; }

TFAOT_INLINE int notAbove(const float* boundaries, float x) {
  const __m256 found = _mm256_cmp_ps(_mm256_set1_ps(x), _mm256_loadu_ps(boundaries), _CMP_GE_OQ);
  return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(found)));
}
TFAOT_INLINE int notAbove(const double* boundaries, double x) {
  const __m256d found = _mm256_cmp_pd(_mm256_set1_pd(x), _mm256_loadu_pd(boundaries), _CMP_GE_OQ);
  return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_pd(found)));
}
template <>
inline constexpr bool kCountsNotAbove<float> = true;
template <>
inline constexpr bool kCountsNotAbove<double> = true;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_AVX2_H_
