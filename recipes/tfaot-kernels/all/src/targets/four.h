// four.h: targets with vectors of 4 floats and 16 registers; by itself, with portable operations only.
#ifndef TFAOT_KERNELS_TARGETS_FOUR_H_
#define TFAOT_KERNELS_TARGETS_FOUR_H_

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kLanes = 4;
inline constexpr int kRegisters = 16;
inline constexpr int kBlockRows = 2;
inline constexpr int kRowsOfOne = 2, kRowsOfFewOdd = 2, kRowsOfMany = 2;
inline constexpr int kBlockWidth[kBlockRows + 1] = {0, 8, 4};
inline constexpr int kSteps[kBlockRows + 1] = {0, 1, 3};
inline constexpr int kChainSums = 8;
inline constexpr int kAskingRows = 2;
inline constexpr int kAskingSteps = 3;
inline constexpr std::size_t kAhead = 4096;
inline constexpr bool kAsksAlong = false;
inline constexpr std::size_t kFewRows = 3, kFewRowsOfOne = 3;
inline constexpr std::size_t kFewPanels[kFewRows + 1] = {0, 3, 1, 1};
inline constexpr std::size_t kRanks = 16;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_FOUR_H_
