// neon.h: AArch64.
#ifndef TFAOT_KERNELS_TARGETS_NEON_H_
#define TFAOT_KERNELS_TARGETS_NEON_H_

#include <arm_neon.h>

#include <cstddef>

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kLanes = 4;
inline constexpr int kRegisters = 32;
inline constexpr int kBlockRows = 4;
inline constexpr int kRowsOfOne = 4, kRowsOfFewOdd = 4, kRowsOfMany = 4;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 8, 4, 4};
inline constexpr int kSteps[kBlockRows + 1] = {0, 1, 1, 1, 3};
inline constexpr int kChainSums = 16;
inline constexpr int kAskingRows = 4;
inline constexpr int kAskingSteps = 3;
inline constexpr std::size_t kAhead = 4096;
inline constexpr bool kAsksAlong = false;
inline constexpr std::size_t kFewRows = 4, kFewRowsOfOne = 4;
inline constexpr std::size_t kFewPanels[kFewRows + 1] = {0, 4, 3, 2, 1};
inline constexpr std::size_t kRanks = 16;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#include "../vector_types.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
TFAOT_INLINE Doubles multiplyAdd(Doubles a, Doubles b, Doubles c) { return vfmaq_f64(c, a, b); }

TFAOT_INLINE Integers nearest(Vector x) { return vcvtnq_s32_f32(x); }
TFAOT_INLINE VectorOf<std::uint8_t> bytesOf(Integers a, Integers b, Integers c, Integers d) {
  const int16x8_t first = vcombine_s16(vqmovn_s32(a), vqmovn_s32(b)), second = vcombine_s16(vqmovn_s32(c), vqmovn_s32(d));
  return vcombine_u8(vqmovun_s16(first), vqmovun_s16(second));
}
TFAOT_INLINE Integers sumsOfPairs(Integers a, Integers b) {
  const int16x8_t first = vreinterpretq_s16_s32(a), second = vreinterpretq_s16_s32(b);
  return vpaddq_s32(vmull_s16(vget_low_s16(first), vget_low_s16(second)), vmull_high_s16(first, second));
}

/// Zeros that Clang cannot recognize as such: it would turn a comparison with zero into an instruction for which 0 is larger
/// than -0.
TFAOT_INLINE Vector zeros() {
  Vector value{};
  TFAOT_OPAQUE_TO_CLANG("+w", value);
  return value;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_NEON_H_
