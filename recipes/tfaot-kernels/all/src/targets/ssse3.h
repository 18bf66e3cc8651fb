// ssse3.h: x86-64-v2.
#ifndef TFAOT_KERNELS_TARGETS_SSSE3_H_
#define TFAOT_KERNELS_TARGETS_SSSE3_H_

#include "sse.h"

#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE Mask withSign(Mask magnitude, Mask sign) {
  return reinterpret_cast<Mask>(_mm_sign_epi32(reinterpret_cast<__m128i>(magnitude), reinterpret_cast<__m128i>(sign)));
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_SSSE3_H_
