// permissions.h: what a process may use only after its operating system has permitted it.
#ifndef TFAOT_KERNELS_PERMISSIONS_H_
#define TFAOT_KERNELS_PERMISSIONS_H_

#include <cstdint>

#include "tfaot_kernels/kernels.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Products of tiles (AMX). The operating system permits all kinds of them together.
enum Permission : std::uint32_t { kTilesOfBytes = 1, kTilesOfBfloat16 = 2 };

/// What the process may use (`permitTiles`) and this CPU has.
extern std::uint32_t permissions;

inline bool isPermitted(Permission which) { return (__atomic_load_n(&permissions, __ATOMIC_RELAXED) & which) != 0; }

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_PERMISSIONS_H_
