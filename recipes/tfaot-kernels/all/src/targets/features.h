// features.h: instructions that x86-64 CPUs have beyond their level.
#ifndef TFAOT_KERNELS_TARGETS_FEATURES_H_
#define TFAOT_KERNELS_TARGETS_FEATURES_H_

#include <cpuid.h>

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

enum class Register : int { kEax, kEbx, kEcx, kEdx };

/// Whether a bit of leaf 7 is set. The CPU is asked once, because the question takes microseconds on virtual machines; a
/// library must have no constructor, which `__builtin_cpu_supports` needs.
template <unsigned kSubleaf, Register kRegister, int kBit>
inline bool hasFeature() {
  enum : int { kUnknown, kNo, kYes };
  static int known;
  int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (answer == kUnknown) {
    unsigned words[4] = {};
    const bool isKnown = __get_cpuid_count(7, kSubleaf, &words[0], &words[1], &words[2], &words[3]) != 0;
    answer = isKnown && (words[static_cast<int>(kRegister)] >> kBit & 1) != 0 ? kYes : kNo;
    __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
  }
  return answer == kYes;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TARGETS_FEATURES_H_
