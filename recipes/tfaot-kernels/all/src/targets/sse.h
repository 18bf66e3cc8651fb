// sse.h: x86-64, whatever the CPU.
#ifndef TFAOT_KERNELS_TARGETS_SSE_H_
#define TFAOT_KERNELS_TARGETS_SSE_H_

#include <immintrin.h>

#include "four.h"

#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE void keepInRegister(Vector& value) { TFAOT_OPAQUE_TO_GCC("+v", value); }
TFAOT_INLINE void keepInRegister(Doubles& value) { TFAOT_OPAQUE_TO_GCC("+v", value); }

TFAOT_INLINE Integers nearest(Vector x) { return reinterpret_cast<Integers>(_mm_cvtps_epi32(x)); }
TFAOT_INLINE VectorOf<std::uint8_t> bytesOf(Integers a, Integers b, Integers c, Integers d) {
  const __m128i first = _mm_packs_epi32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b));
  const __m128i second = _mm_packs_epi32(reinterpret_cast<__m128i>(c), reinterpret_cast<__m128i>(d));
  return reinterpret_cast<VectorOf<std::uint8_t>>(_mm_packus_epi16(first, second));
}
TFAOT_INLINE Integers sumsOfPairs(Integers a, Integers b) {
  return reinterpret_cast<Integers>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
}
TFAOT_INLINE Vector larger(Vector a, Vector b) { return _mm_max_ps(a, b); }
TFAOT_INLINE Vector smaller(Vector a, Vector b) { return _mm_min_ps(a, b); }

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_SSE_H_
