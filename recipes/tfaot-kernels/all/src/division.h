// division.h: how a product is divided into blocks of rows and strips of columns; known at compile time.
#ifndef TFAOT_KERNELS_DIVISION_H_
#define TFAOT_KERNELS_DIVISION_H_

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The size of a right-hand side.
struct Extent {
  std::size_t inputs, columns;
  bool chained;  ///< whether sums are computed in kChains chains, see `sumChains`
};

inline constexpr std::size_t kLeastSums = 8;  // two units with a latency of 4 cycles
inline constexpr std::size_t kMostWidth = 8;  // most vectors of a strip
inline constexpr std::size_t kChains = 4;
inline constexpr std::size_t kChainRows = kChainSums / kChains;
inline constexpr std::size_t kChainWidth = 2;  // most vectors of a strip whose sums are computed in chains

/// Floats of packed weights: from this size on, reading them twice costs more than narrow strips.
inline constexpr std::size_t kLargeWeights = 1 << 17;

/// Strips of nearly equal width: first `wider` ones of `width` + 1 vectors, then others of `width`; `count` in all.
struct Strips {
  std::size_t count, width, wider;

  /// Strips of at most `most` vectors.
  constexpr Strips(std::size_t columns, std::size_t most) : count(0), width(0), wider(0) {
    const std::size_t vectors = vectorsOf(columns);
    count = (vectors + most - 1) / most;
    if (count == 0) return;
    width = vectors / count;
    wider = vectors % count;
  }
};

/// The number of blocks into which `count` rows are divided. With three vectors of columns 4 x 3 is faster than 6 x 2 and
/// 6 x 1, which waits for its own sums: 20 x 20 pixels of 24 channels take 0.89 of the time (AVX2, benchmarks/kernels.py).
/// With more vectors, the others in strips of two are as fast as with 6 rows.
constexpr std::size_t blocksOf(const Extent& extent, std::size_t count) {
  const std::size_t vectors = vectorsOf(extent.columns);
  if (!extent.chained && vectors == 1) return (count + kRowsOfOne - 1) / kRowsOfOne;
  if (!extent.chained && vectors % 2 == 1 && vectors < 8) return (count + kRowsOfFewOdd - 1) / kRowsOfFewOdd;
  return (count + kRowsOfMany - 1) / kRowsOfMany;
}

/// The most vectors of a strip for blocks of `rows` rows.
constexpr std::size_t widestOf(const Extent& extent, std::size_t rows) {
  return extent.chained ? kChainWidth : kBlockWidth[rows];
}

/// Whether the rows of a block share the vectors of the last columns, two rows each: at most a half of these columns exists.
/// There must be enough sums left to keep the units busy.
constexpr bool isShared(std::size_t columns, std::size_t rows, std::size_t width) {
  const std::size_t last = (columns + kLanes - 1) % kLanes + 1;
  return kHasMasks<float> && last <= kHalfLanes && rows >= width && rows * (width - 1) + (rows + 1) / 2 >= kLeastSums;
}

/// Divides `count` rows into blocks of nearly equal size: 8 into 4 and 4 rather than 6 and 2, which would take longer.
/// Calls visit(first, size, more, blocks, most): from row `first` on there are `more` blocks of `size` + 1 rows and then
/// `blocks` of `size` rows, times strips of `most` vectors at most.
template <class Visit>
constexpr void divideRows(const Extent& extent, std::size_t count, Visit visit) {
  const std::size_t blocks = blocksOf(extent, count);
  const std::size_t size = count / blocks;
  const std::size_t more = count % blocks;
  const std::size_t most = widestOf(extent, size);
  if (more == 0) return visit(0, size, 0, blocks, most);
  const std::size_t others = widestOf(extent, size + 1);
  if (others == most || extent.inputs * extent.columns >= kLargeWeights) {
    // Blocks of 5 rows may be wider than those of 4.
    return visit(0, size, more, blocks - more, others < most ? others : most);
  }
  visit(0, size + 1, 0, more, others);
  visit(more * (size + 1), size, 0, blocks - more, most);
}

/// Whether `rows` times `width` vectors are enough to keep the units busy with one chain after the other.
constexpr bool isChainByChain(std::size_t rows, std::size_t width) { return rows * width > 2 * kChains; }

/// Divides `count` rows into blocks that compute all chains at a time. Calls visit(first, size).
template <class Visit>
constexpr void divideChains(std::size_t count, std::size_t width, Visit visit) {
  const std::size_t most = kChainRows / width;
  std::size_t groups = (count + most - 1) / most;
  for (std::size_t done = 0; done < count; --groups) {
    const std::size_t size = (count - done + groups - 1) / groups;
    visit(done, size);
    done += size;
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_DIVISION_H_
