// sixteen.h: targets with vectors of 16 floats and 32 registers; by itself, with portable operations only.
#ifndef TFAOT_KERNELS_TARGETS_SIXTEEN_H_
#define TFAOT_KERNELS_TARGETS_SIXTEEN_H_

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kLanes = 16;
inline constexpr int kRegisters = 32;
inline constexpr int kBlockRows = 12;
inline constexpr int kRowsOfOne = 12, kRowsOfFewOdd = 8, kRowsOfMany = 8;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 8, 4, 4, 5, 4, 3, 3, 2, 2, 2, 2};
inline constexpr int kSteps[kBlockRows + 1] = {0, 4, 4, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2};
inline constexpr int kChainSums = 24;
inline constexpr int kAskingRows = 4;
inline constexpr int kAskingSteps = 1;
inline constexpr std::size_t kAhead = 384;
inline constexpr bool kAsksAlong = true;
inline constexpr std::size_t kFewRows = 4, kFewRowsOfOne = 8;
inline constexpr std::size_t kFewPanels[kFewRows + 1] = {0, 16, 12, 8, 6};
inline constexpr std::size_t kRanks = 32;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_SIXTEEN_H_
