// avx512.h: x86-64-v4.
#ifndef TFAOT_KERNELS_TARGETS_AVX512_H_
#define TFAOT_KERNELS_TARGETS_AVX512_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "features.h"
#include "sixteen.h"

#include "amx.h"

#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr __mmask16 kAllLanes = 0xffff;  // GCC 12 warns of its own header if there is no mask
TFAOT_INLINE __mmask16 firstOf(std::size_t count) { return static_cast<__mmask16>((1u << count) - 1u); }

template <>
inline constexpr bool kHasMasks<float> = true;
template <>
inline constexpr bool kLoadsParts<float> = true;

TFAOT_INLINE Vector loadFirst(const float* from, std::size_t count) { return _mm512_maskz_loadu_ps(firstOf(count), from); }
TFAOT_INLINE Doubles loadFirst(const double* from, std::size_t count) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>((1u << count) - 1u), from);
}
TFAOT_INLINE void storeFirst(float* to, std::size_t count, Vector value) { _mm512_mask_storeu_ps(to, firstOf(count), value); }
TFAOT_INLINE void storeFirst(double* to, std::size_t count, Doubles value) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>((1u << count) - 1u), value);
}
TFAOT_INLINE __mmask64 firstBytesOf(std::size_t count) { return (std::uint64_t{1} << count) - 1u; }
template <class Byte>
TFAOT_INLINE VectorOf<Byte> loadFirstBytes(const Byte* from, std::size_t count) {
  return reinterpret_cast<VectorOf<Byte>>(_mm512_maskz_loadu_epi8(firstBytesOf(count), from));
}
TFAOT_INLINE auto loadFirst(const std::int8_t* from, std::size_t count) { return loadFirstBytes(from, count); }
TFAOT_INLINE auto loadFirst(const std::uint8_t* from, std::size_t count) { return loadFirstBytes(from, count); }
TFAOT_INLINE void storeFirst(std::int8_t* to, std::size_t count, VectorOf<std::int8_t> value) {
  _mm512_mask_storeu_epi8(to, firstBytesOf(count), reinterpret_cast<__m512i>(value));
}
TFAOT_INLINE void storeFirst(std::uint8_t* to, std::size_t count, VectorOf<std::uint8_t> value) {
  _mm512_mask_storeu_epi8(to, firstBytesOf(count), reinterpret_cast<__m512i>(value));
}
/// Without masks: in parts of 8, 4, 2 and 1 floats.
template <std::size_t kCount>
TFAOT_INLINE void storeFirst(float* to, Vector value) {
  if constexpr (kCount >= kLanes) return store(to, value);
  constexpr auto kAll = static_cast<__mmask8>(kAllLanes);
  __m256 half = reinterpret_cast<__m256>(_mm512_maskz_extractf64x4_pd(kAll, reinterpret_cast<__m512d>(value), 0));
  if constexpr ((kCount & 8) != 0) {
    _mm256_storeu_ps(to, half);
    half = reinterpret_cast<__m256>(_mm512_maskz_extractf64x4_pd(kAll, reinterpret_cast<__m512d>(value), 1));
    to += 8;
  }
  [[maybe_unused]] __m128 part = _mm256_castps256_ps128(half);
  if constexpr ((kCount & 4) != 0) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(half, 1);
    to += 4;
  }
  if constexpr ((kCount & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if constexpr ((kCount & 1) != 0) _mm_store_ss(to, part);
}
/// Without a mask, because what a mask stores is not forwarded to a load that follows, which waits for 2 ns more (Zen 5). Not
/// a case of `loadFirst` for a known count: GCC 12 left out code behind such a case.
TFAOT_INLINE Vector loadHalf(const float* from) {
  const __m256d half = _mm256_loadu_pd(reinterpret_cast<const double*>(from));
  return reinterpret_cast<Vector>(_mm512_maskz_insertf64x4(static_cast<__mmask8>(kAllLanes), __m512d{}, half, 0));
}
TFAOT_INLINE void storeHalf(float* to, Vector value) { std::memcpy(to, &value, kLanes / 2 * sizeof(float)); }
/// Short loads cross fewer cache lines.
template <int kCount>
TFAOT_INLINE Vector loadAtLeast(const float* from) {
  if constexpr (kCount <= 4) return _mm512_castps128_ps512(_mm_maskz_loadu_ps((1u << kCount) - 1u, from));
  if constexpr (kCount <= 8) return _mm512_castps256_ps512(_mm256_maskz_loadu_ps((1u << kCount) - 1u, from));
  return loadFirst(from, kCount);
}
TFAOT_INLINE Vector loadLanes(Vector others, std::uint32_t lanes, const float* from) {
  return _mm512_mask_loadu_ps(others, static_cast<__mmask16>(lanes), from);
}
TFAOT_INLINE void storeLanes(float* to, std::uint32_t lanes, Vector value) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(lanes), value);
}
/// Otherwise the numbers would be stored to memory one by one, and the load of all of them would wait for the last store.
TFAOT_INLINE Vector loadApart(const float* from, std::size_t count, std::ptrdiff_t stride) {
  const Integers places = laneNumbers() * static_cast<std::int32_t>(stride);
  return _mm512_mask_i32gather_ps(Vector{}, firstOf(count), reinterpret_cast<__m512i>(places), from, sizeof(float));
}

TFAOT_INLINE Integers widened(const std::int8_t* from) {
  __m128i narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepi8_epi32(kAllLanes, narrow));
}
TFAOT_INLINE Integers widened(const std::int8_t* from, std::size_t count) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepi8_epi32(kAllLanes, _mm_maskz_loadu_epi8(firstOf(count), from)));
}
TFAOT_INLINE Integers widened(const std::uint8_t* from) {
  return widened(reinterpret_cast<const std::int8_t*>(from)) & 255;
}
TFAOT_INLINE Integers widened(const std::uint8_t* from, std::size_t count) {
  return widened(reinterpret_cast<const std::int8_t*>(from), count) & 255;
}
TFAOT_INLINE Integers widened(const std::uint16_t* from) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepu16_epi32(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
}
TFAOT_INLINE Integers widened(const std::uint16_t* from, std::size_t count) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepu16_epi32(kAllLanes, _mm256_maskz_loadu_epi16(firstOf(count), from)));
}
TFAOT_INLINE void storeNarrowed(std::int8_t* to, Integers wide) {
  const __m128i narrow = _mm512_maskz_cvtepi32_epi8(kAllLanes, reinterpret_cast<__m512i>(wide));
  std::memcpy(to, &narrow, sizeof narrow);
}
TFAOT_INLINE void storeNarrowed(std::int8_t* to, std::size_t count, Integers wide) {
  _mm_mask_storeu_epi8(to, firstOf(count), _mm512_maskz_cvtepi32_epi8(kAllLanes, reinterpret_cast<__m512i>(wide)));
}
TFAOT_INLINE void storeNarrowed(std::uint8_t* to, Integers wide) { storeNarrowed(reinterpret_cast<std::int8_t*>(to), wide); }
TFAOT_INLINE void storeNarrowed(std::uint8_t* to, std::size_t count, Integers wide) {
  storeNarrowed(reinterpret_cast<std::int8_t*>(to), count, wide);
}
TFAOT_INLINE Integers nearest(Vector x) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtps_epi32(kAllLanes, reinterpret_cast<__m512>(x)));
}
TFAOT_INLINE VectorOf<std::uint8_t> bytesOf(Integers a, Integers b, Integers c, Integers d) {
  const __m512i first = _mm512_packs_epi32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b));
  const __m512i second = _mm512_packs_epi32(reinterpret_cast<__m512i>(c), reinterpret_cast<__m512i>(d));
  // Each quarter of a register has a quarter of each vector.
  const Integers order = perLane([](int lane) { return lane / 4 + lane % 4 * 4; });
  const __m512i bytes = _mm512_packus_epi16(first, second);
  return reinterpret_cast<VectorOf<std::uint8_t>>(_mm512_maskz_permutexvar_epi32(kAllLanes, reinterpret_cast<__m512i>(order), bytes));
}
/// Compilers would store the whole vector first, and load its parts.
template <int kParts>
TFAOT_INLINE void storeParts(std::uint8_t* to, std::size_t apart, VectorOf<std::uint8_t> bytes) {
  const __m512i all = reinterpret_cast<__m512i>(bytes);
  const __m256i halves[] = {_mm512_maskz_extracti64x4_epi64(0xff, all, 0), _mm512_maskz_extracti64x4_epi64(0xff, all, 1)};
  for (int i = 0; i < 2; ++i, to += kParts / 2 * apart) {
    if constexpr (kParts == 2) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves[i]);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(halves[i]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + apart), _mm256_extracti128_si256(halves[i], 1));
    }
  }
}
TFAOT_INLINE void storeNarrowed(std::uint16_t* to, Integers wide) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(kAllLanes, reinterpret_cast<__m512i>(wide)));
}
TFAOT_INLINE void storeNarrowed(std::uint16_t* to, std::size_t count, Integers wide) {
  const __m256i narrow = _mm512_maskz_cvtepi32_epi16(kAllLanes, reinterpret_cast<__m512i>(wide));
  _mm256_mask_storeu_epi16(to, firstOf(count), narrow);
}

TFAOT_INLINE void keepInRegister(Vector& value) { TFAOT_OPAQUE_TO_GCC("+v", value); }
TFAOT_INLINE void keepInRegister(Doubles& value) { TFAOT_OPAQUE_TO_GCC("+v", value); }

TFAOT_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
TFAOT_INLINE Doubles multiplyAdd(Doubles a, Doubles b, Doubles c) { return _mm512_fmadd_pd(a, b, c); }
TFAOT_INLINE Integers sumsOfPairs(Integers a, Integers b) {
  return reinterpret_cast<Integers>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
}
template <>
inline constexpr bool kMayAddDots<Integers> = true;
/// Whether the CPU has AVX512-VNNI.
inline bool addsDots() { return hasFeature<0, Register::kEcx, 11>(); }
/// By AVX512-VNNI, which is no part of x86-64-v4: compilers know no intrinsic of it here, assemblers do.
TFAOT_INLINE Unsigned addDots(Unsigned sums, Unsigned bytes, Integers others) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(bytes), "v"(others));
  return sums;
}
template <>
inline constexpr bool kMayLookUp<VectorOf<std::uint8_t>> = true;
/// Whether the CPU has AVX512-VBMI.
inline bool looksUp() { return hasFeature<0, Register::kEcx, 1>(); }
/// By AVX512-VBMI, which is no part of x86-64-v4, either.
TFAOT_INLINE VectorOf<std::uint8_t> lookedUp(VectorOf<std::uint8_t> places, VectorOf<std::uint8_t> low, VectorOf<std::uint8_t> high) {
  asm("vpermi2b %2, %1, %0" : "+v"(places) : "v"(low), "v"(high));
  return places;
}
TFAOT_INLINE Vector larger(Vector a, Vector b) { return _mm512_maskz_max_ps(kAllLanes, a, b); }
TFAOT_INLINE Doubles larger(Doubles a, Doubles b) { return _mm512_maskz_max_pd(0xff, a, b); }
TFAOT_INLINE Vector smaller(Vector a, Vector b) { return _mm512_maskz_min_ps(kAllLanes, a, b); }
TFAOT_INLINE Doubles smaller(Doubles a, Doubles b) { return _mm512_maskz_min_pd(0xff, a, b); }
TFAOT_INLINE Vector negativeMagnitude(Vector x, float limit) {
  constexpr int kSmallerMagnitude = 2, kMinus = 3;
  return _mm512_maskz_range_ps(kAllLanes, x, broadcast(limit), kMinus << 2 | kSmallerMagnitude);
}
TFAOT_INLINE Vector squareRoot(Vector x) { return _mm512_maskz_sqrt_ps(kAllLanes, x); }
TFAOT_INLINE Vector roundedDown(Vector x) { return _mm512_maskz_roundscale_ps(kAllLanes, x, _MM_FROUND_FLOOR); }
TFAOT_INLINE Vector roundedUp(Vector x) { return _mm512_maskz_roundscale_ps(kAllLanes, x, _MM_FROUND_CEIL); }
TFAOT_INLINE Vector roundedToEven(Vector x) { return _mm512_maskz_roundscale_ps(kAllLanes, x, _MM_FROUND_RINT); }
TFAOT_INLINE Vector timesPowerOfTwo(Vector x, Vector n, Unsigned) { return _mm512_maskz_scalef_ps(kAllLanes, x, n); }
TFAOT_INLINE Vector timesFractionOfTwo(Vector x, Vector n, Unsigned) { return _mm512_maskz_scalef_ps(kAllLanes, x, n); }
/// By a mask: GCC would load the upper half and insert it, by a unit that has more to do.
TFAOT_INLINE Vector halvesOf(Vector a, Vector b) { return _mm512_mask_mov_ps(a, 0xff00, b); }
TFAOT_INLINE Vector loadTwice(const float* from) { return _mm512_maskz_broadcast_f32x8(kAllLanes, _mm256_loadu_ps(from)); }
TFAOT_INLINE bool isAny(Mask which) {
  return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(which), reinterpret_cast<__m512i>(which)) != 0;
}

TFAOT_INLINE int notAbove(const float* boundaries, float x) {
  return __builtin_popcount(_mm512_cmp_ps_mask(_mm512_set1_ps(x), _mm512_loadu_ps(boundaries), _CMP_GE_OQ));
}
TFAOT_INLINE int notAbove(const double* boundaries, double x) {
  return __builtin_popcount(_mm512_cmp_pd_mask(_mm512_set1_pd(x), _mm512_loadu_pd(boundaries), _CMP_GE_OQ));
}
template <>
inline constexpr bool kCountsNotAbove<float> = true;
template <>
inline constexpr bool kCountsNotAbove<double> = true;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_AVX512_H_
