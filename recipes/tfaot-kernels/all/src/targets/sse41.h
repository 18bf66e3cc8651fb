// sse41.h: x86-64-v2.
#ifndef TFAOT_KERNELS_TARGETS_SSE41_H_
#define TFAOT_KERNELS_TARGETS_SSE41_H_

#include <cstring>

#include "sse.h"

#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE Mask withSign(Mask magnitude, Mask sign) {
  return reinterpret_cast<Mask>(_mm_sign_epi32(reinterpret_cast<__m128i>(magnitude), reinterpret_cast<__m128i>(sign)));
}

TFAOT_INLINE Integers widened(const std::int8_t* from) {
  int four;
  std::memcpy(&four, from, sizeof four);
  return reinterpret_cast<Integers>(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
}
TFAOT_INLINE Integers widened(const std::uint8_t* from) {
  int four;
  std::memcpy(&four, from, sizeof four);
  return reinterpret_cast<Integers>(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
}
TFAOT_INLINE void storeNarrowed(std::int8_t* to, Integers wide) {
  const __m128i words = _mm_packs_epi32(reinterpret_cast<__m128i>(wide), reinterpret_cast<__m128i>(wide));
  const int four = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
  std::memcpy(to, &four, sizeof four);
}
TFAOT_INLINE void storeNarrowed(std::uint8_t* to, Integers wide) {
  const __m128i words = _mm_packs_epi32(reinterpret_cast<__m128i>(wide), reinterpret_cast<__m128i>(wide));
  const int four = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  std::memcpy(to, &four, sizeof four);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_SSE41_H_
