// target.h: the target that is being compiled for: the only place that asks for it.
//
// Each file of targets/ has the constants of a family of targets, and those operations on vectors for which it has something
// better than portable code (targets/portable.h). The constants:
//
// The shape of a block of sums:
//
//   kLanes       floats in a vector
//   kRegisters   registers for vectors
//   kBlockRows   most rows of a block
//   kRowsOfOne, kRowsOfFewOdd, kRowsOfMany
//                most rows of a block if there is one vector of columns, if there are 3, 5 or 7, and otherwise
//   kBlockWidth  most vectors of columns, for each number of rows
//   kSteps       inputs per iteration of the inner loop, for each number of rows
//   kChainSums   most sums of a block whose sums are computed in four chains
//
// The registers must hold the sums and, in addition, one row's weights and one input, or the inputs of all rows and one
// weight. At least 8 sums keep two units with a latency of 4 cycles busy. Of the shapes that fit, those with fewer loads
// per multiply-add are faster. Several steps are unrolled only if the loop overhead was measurable.
//
// What a block prefetches (`askedBy` in blocks.h):
//
//   kAskingRows  blocks up to that many rows prefetch all weights, larger ones only those that they use first
//   kAskingSteps most inputs per iteration of the larger blocks that prefetch; these are few, and their code is large
//   kAhead       bytes between a prefetch and the use
//   kAsksAlong   if weights are large, each larger block also prefetches a part of the next strip's; otherwise the second
//                block prefetches all of them
//
// All were chosen by benchmarks/kernels.py; docs/decisions/024 has the figures.
//
// Dense layers of few rows (small_dense.h) and forests (trees.h):
//
//   kFewRows     most rows that there is code for
//   kFewRowsOfOne rows at a time of layers of one vector of columns, if there are many
//   kFewPanels   panels of columns at a time, for each number of rows
//   kRanks       rows whose ranks are in a vector
#ifndef TFAOT_KERNELS_TARGET_H_
#define TFAOT_KERNELS_TARGET_H_

#include <cstddef>

#include "tfaot_kernels/kernels.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// Each operation gives the same bits for every target, except those for which the target's arithmetic units have no fused
// multiply-add (x86-64 and x86-64-v2): there it is a multiplication and an addition, because the C library's function takes
// a hundred times as long. Compilers must not fuse by themselves (-ffp-contract=off): which operations they fuse depends on
// the target.
#if defined(__FMA__) || defined(__aarch64__)
inline constexpr bool kFuses = true;
#else
inline constexpr bool kFuses = false;
#endif

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

// With TFAOT_KERNELS_SIXTEEN vectors have 16 floats on any target, so that a machine without AVX-512 can show that
// results do not depend on the width.
#if defined(TFAOT_KERNELS_SIXTEEN)
#include "targets/sixteen.h"
#elif defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include "targets/avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "targets/avx2.h"
#elif defined(__SSE4_1__)
#include "targets/sse41.h"
#elif defined(__x86_64__)
#include "targets/sse.h"
#elif defined(__aarch64__)
#include "targets/neon.h"
#else
#include "targets/four.h"
#endif

#endif  // TFAOT_KERNELS_TARGET_H_
