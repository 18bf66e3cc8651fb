// trees.h: forests of decision trees.
//
// Each number that trees compare is first replaced by its rank among the thresholds of its feature, a byte, so that a
// comparison takes a byte of a node, and a vector compares 16 or 32 rows. A missing value is a rank, too. With few rows,
// each walks down several trees at a time; with many rows, vectors of rows are compared with every node of a tree. Both
// give the number of a leaf, and the leaves' values are added in the order of the trees: a row has the same bits in any
// batch.
//
// tfaot_pkg/compiler/forests.py packs forests into these arrays.
#ifndef TFAOT_KERNELS_TREES_H_
#define TFAOT_KERNELS_TREES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr std::size_t kWide = kRanks;       ///< rows of a vector
inline constexpr std::size_t kFew = 16;            ///< rows of the narrower vectors
inline constexpr std::size_t kWalking = 7;         ///< most rows that walk down trees one by one
inline constexpr std::size_t kTrees = 8;           ///< trees that a row walks down at a time
inline constexpr std::size_t kTable = 256;         ///< bytes of a table
inline constexpr std::uint32_t kNext = 0xFFFFFFFF;  ///< in place of a table: each rank plus one; missing values wrap to 0

/// How the numbers of one feature become ranks: the rank is how many of `count` ascending boundaries are not above a number.
/// If `kind` is 1 or 2, `count` words of `sets` from `first` on hold a set of categories instead: the rank is 0 if the
/// number, rounded down or truncated, is in the set, otherwise 1. The rank of NaN is 255. Ranks are stored minus 128.
struct Scale {
  std::uint32_t feature, first, count, kind;
};

/// Ranks of a scale, changed by a table, for nodes that treat missing values in another way.
struct Derived {
  std::uint32_t scale, table;
};

/// A node of a complete tree, whose children are 2i + 1 and 2i + 2: right if the column's rank is above `key`.
template <class Column>
struct Split {
  Column column;
  std::int8_t key;
};

/// A node of any tree; its children are `child` and `child + 1`. A leaf is its own child.
struct Branch {
  std::uint32_t child;
  std::uint16_t column;
  std::int8_t key;
  std::uint8_t unused;
};

/// A node of a tree of at most 256 leaves. It comes after all nodes above it and to the left of it. `start` is the first
/// leaf below it, and `count` leaves are below its left child.
struct Side {
  std::uint16_t column;
  std::int8_t key;
  std::uint8_t start, count, unused;
};

/// The common part of all kinds of forests. Each tree adds one value to the output `target`, or `width` values to all outputs.
template <class Input, class Sum>
struct Forest {
  std::size_t features, outputs, width, trees, scales, derived;
  const std::uint32_t* scale;
  const Input* boundaries;
  const std::uint32_t* sets;
  const std::uint32_t* change;
  const std::int8_t* tables;
  const std::uint16_t* target;
  const Sum* values;
  const Sum* base;
};

/// The boundaries of each scale are padded with NaN to a multiple of 64 bytes: no number is above a NaN.
template <class Input>
TFAOT_INLINE std::uint8_t rankOf(Input x, const Input* boundaries, std::size_t count) {
  // The steps of a search wait for one another: up to 16 independent comparisons are faster.
  if constexpr (kCountsNotAbove<Input>) {
    if (count <= 16 * kLanesOf<Input>) {
      int rank = 0;
      for (std::size_t i = 0; i < count; i += kLanesOf<Input>) rank += notAbove(boundaries + i, x);
      return static_cast<std::uint8_t>(x == x ? rank : 255);
    }
  }
  const Input* at = boundaries;
  while (count > 1) {
    const std::size_t half = count / 2;
    // Without a branch, which would be mispredicted half of the time.
    at += half & (std::size_t{0} - static_cast<std::size_t>(at[half - 1] <= x));
    count -= half;
  }
  const auto rank = static_cast<std::uint8_t>(at - boundaries + (count && *at <= x));
  return x == x ? rank : 255;
}

/// The ranks of kSearched rows at a time, because the steps of one search wait for one another.
inline constexpr std::size_t kSearched = 8;
template <class Input>
TFAOT_INLINE void ranksOf(const Input* x, std::size_t distance, const Input* boundaries, std::size_t count,
                          std::int8_t* ranks) {
  std::uint32_t at[kSearched] = {};
  Input values[kSearched];
  for (std::size_t j = 0; j < kSearched; ++j) values[j] = x[j * distance];
  const bool isEmpty = count == 0;
  while (count > 1) {
    const auto half = static_cast<std::uint32_t>(count / 2);
    TFAOT_UNROLL for (std::size_t j = 0; j < kSearched; ++j) {
      at[j] += half & (0U - static_cast<std::uint32_t>(boundaries[at[j] + half - 1] <= values[j]));
    }
    count -= half;
  }
  for (std::size_t j = 0; j < kSearched; ++j) {
    const auto rank = static_cast<std::uint8_t>(at[j] + (!isEmpty && boundaries[at[j]] <= values[j]));
    ranks[j] = static_cast<std::int8_t>((values[j] == values[j] ? rank : 255) - 128);
  }
}

template <class Input>
TFAOT_INLINE std::uint8_t isOutside(Input x, const std::uint32_t* words, std::size_t count, bool isCut) {
  if (!(x == x)) return 255;
  if (!(isCut ? x > Input(-1) : x >= Input(0)) || !(x < static_cast<Input>(32 * count))) return 1;
  const auto category = static_cast<std::uint32_t>(static_cast<std::int64_t>(x));
  return !(words[category / 32] >> category % 32 & 1);
}

/// Ranks of kLanes numbers, for few boundaries: each is compared with all.
TFAOT_INLINE void ranksAmongFew(const float* x, const float* boundaries, std::size_t count, std::int8_t* ranks) {
  const Vector value = load(x);
  Mask below = (value != value) & 255;
  for (std::size_t i = 0; i < count; ++i) below -= (Vector{} + boundaries[i]) <= value;
  for (int lane = 0; lane < kLanes; ++lane) ranks[lane] = static_cast<std::int8_t>(below[lane] - 128);
}

inline constexpr std::size_t kFewBoundaries = 64;

/// The ranks of `n` rows, at most kStride, column after column.
template <std::size_t kStride, class Input, class Sum>
TFAOT_ALONE void rank(const Forest<Input, Sum>& forest, std::size_t n, const Input* x, std::int8_t* keys) {
  const auto* const scales = reinterpret_cast<const Scale*>(forest.scale);
  const auto* const changes = reinterpret_cast<const Derived*>(forest.change);
  for (std::size_t c = 0; c < forest.scales; ++c) {
    const Scale scale = scales[c];
    std::int8_t* const to = keys + c * kStride;
    const Input* const from = x + scale.feature;
    if (scale.kind != 0) {
      const std::uint32_t* const words = forest.sets + scale.first;
      for (std::size_t r = 0; r < n; ++r)
        to[r] = static_cast<std::int8_t>(isOutside(from[r * forest.features], words, scale.count, scale.kind == 2) - 128);
      continue;
    }
    const Input* const boundaries = forest.boundaries + scale.first;
    std::size_t r = 0;
    if constexpr (sizeof(Input) == sizeof(float) && kStride >= kLanes) {
      if (scale.count <= kFewBoundaries) {
        for (; r + kLanes <= n; r += kLanes) {
          float column[kLanes];
          for (std::size_t lane = 0; lane < kLanes; ++lane) column[lane] = from[(r + lane) * forest.features];
          ranksAmongFew(column, boundaries, scale.count, to + r);
        }
      }
    }
    for (; r + kSearched <= n; r += kSearched)
      ranksOf(from + r * forest.features, forest.features, boundaries, scale.count, to + r);
    for (; r < n; ++r)
      to[r] = static_cast<std::int8_t>(rankOf(from[r * forest.features], boundaries, scale.count) - 128);
  }
  for (std::size_t c = 0; c < forest.derived; ++c) {
    const std::int8_t* const from = keys + changes[c].scale * kStride;
    std::int8_t* const to = keys + (forest.scales + c) * kStride;
    if (changes[c].table == kNext) {
      for (std::size_t r = 0; r < n; ++r) to[r] = static_cast<std::int8_t>(static_cast<std::uint8_t>(from[r]) + 1);
    } else {
      const std::int8_t* const table = forest.tables + changes[c].table * kTable;
      for (std::size_t r = 0; r < n; ++r) to[r] = table[static_cast<std::uint8_t>(from[r]) ^ 128];
    }
  }
}

/// Adds the values of the leaves of `count` trees, from tree `first` on, to the sums of `n` rows.
template <std::size_t kStride, class Leaf, class Input, class Sum>
TFAOT_INLINE void addLeaves(const Forest<Input, Sum>& forest, std::size_t first, std::size_t count, std::size_t n,
                            const Sum* const* values, const Leaf (*leaves)[kStride], Sum* sums) {
  if (forest.outputs == 1) {
    for (std::size_t r = 0; r < n; ++r) {
      Sum sum = sums[r];
      for (std::size_t t = 0; t < count; ++t) sum += values[t][leaves[t][r]];
      sums[r] = sum;
    }
    return;
  }
  for (std::size_t t = 0; t < count; ++t) {
    Sum* const to = sums + forest.target[first + t];
    for (std::size_t r = 0; r < n; ++r) {
      const Sum* const value = values[t] + leaves[t][r] * forest.width;
      for (std::size_t w = 0; w < forest.width; ++w) to[r * forest.outputs + w] += value[w];
    }
  }
}

/// Complete trees, all of the same depth.
template <int kDepth, class Column>
struct CompleteTrees {
  static constexpr std::size_t kNodes = (1 << kDepth) - 1, kLeaves = 1 << kDepth;
  const unsigned char* nodes;

  const Split<Column>* tree(std::size_t number) const {
    return reinterpret_cast<const Split<Column>*>(nodes) + number * kNodes;
  }
  std::size_t firstLeaf(std::size_t number) const { return number * kLeaves; }

  template <std::size_t kCount, std::size_t kStride>
  TFAOT_INLINE void walk(std::size_t first, const std::int8_t* keys, std::size_t r, std::uint32_t (*leaves)[kStride]) const {
    const Split<Column>* const from = tree(first);
    std::uint32_t at[kCount] = {};
    TFAOT_UNROLL for (int level = 0; level < kDepth; ++level) {
      TFAOT_UNROLL for (std::size_t t = 0; t < kCount; ++t) {
        const Split<Column> node = from[t * kNodes + at[t]];
        at[t] = 2 * at[t] + 1 + (keys[node.column * kStride + r] > node.key);
      }
    }
    TFAOT_UNROLL for (std::size_t t = 0; t < kCount; ++t) leaves[t][r] = static_cast<std::uint32_t>(at[t] - kNodes);
  }

  /// The leaf, within the tree below node `i`, of each row of a vector.
  template <int kHeight, std::size_t kStride>
  static TFAOT_INLINE typename VectorType<std::int8_t, kStride>::Type below(const Split<Column>* from, std::size_t i,
                                                            const std::int8_t* keys) {
    using RowBytes = typename VectorType<std::int8_t, kStride>::Type;
    RowBytes ranks;
    std::memcpy(&ranks, keys + from[i].column * kStride, kStride);
    const RowBytes right = ranks > (RowBytes{} + from[i].key);
    if constexpr (kHeight == 1) {
      return right & 1;
    } else {
      const RowBytes left = below<kHeight - 1, kStride>(from, 2 * i + 1, keys);
      const RowBytes other = below<kHeight - 1, kStride>(from, 2 * i + 2, keys);
      constexpr auto bit = static_cast<std::int8_t>(static_cast<std::uint8_t>(1U << (kHeight - 1)));
      return ((left & ~right) | (other & right)) + (right & bit);
    }
  }

  static constexpr bool kHasVectors = true;
  template <std::size_t kStride>
  TFAOT_INLINE void together(std::size_t number, const std::int8_t* keys, std::uint8_t* leaves) const {
    const auto found = below<kDepth, kStride>(tree(number), 0, keys);
    std::memcpy(leaves, &found, kStride);
  }
};

/// Trees of any shape. With `kSmall` no tree has more than 256 leaves.
template <bool kSmall>
struct AnyTrees {
  const unsigned char *branches, *sides;
  const std::uint32_t* first;     ///< each tree's first leaf, followed by the number of all leaves
  const std::uint32_t* leafOf;    ///< by branch, within its tree
  const std::uint16_t* depths;

  std::size_t firstLeaf(std::size_t number) const { return first[number]; }

  template <std::size_t kCount, std::size_t kStride>
  TFAOT_INLINE void walk(std::size_t number, const std::int8_t* keys, std::size_t r, std::uint32_t (*leaves)[kStride]) const {
    const auto* const nodes = reinterpret_cast<const Branch*>(branches);
    std::uint32_t at[kCount];
    std::size_t steps = 0;
    for (std::size_t t = 0; t < kCount; ++t) {
      at[t] = static_cast<std::uint32_t>(2 * first[number + t] - (number + t));
      steps = depths[number + t] > steps ? depths[number + t] : steps;
    }
    for (std::size_t step = 0; step < steps; ++step) {
      TFAOT_UNROLL for (std::size_t t = 0; t < kCount; ++t) {
        const Branch node = nodes[at[t]];
        at[t] = node.child + (keys[node.column * kStride + r] > node.key);
      }
    }
    for (std::size_t t = 0; t < kCount; ++t) leaves[t][r] = leafOf[at[t]];
  }

  static constexpr bool kHasVectors = kSmall;
  template <std::size_t kStride>
  TFAOT_INLINE void together(std::size_t number, const std::int8_t* keys, std::uint8_t* leaves) const {
    using RowBytes = typename VectorType<std::int8_t, kStride>::Type;
    const auto* const nodes = reinterpret_cast<const Side*>(sides) + (first[number] - number);
    const std::size_t count = first[number + 1] - first[number] - 1;
    RowBytes found = {};
    for (std::size_t i = 0; i < count; ++i) {
      const Side node = nodes[i];
      RowBytes ranks;
      std::memcpy(&ranks, keys + node.column * kStride, kStride);
      // All nodes above have been compared before this one, so only rows that reach it are at its first leaf.
      const RowBytes here = found == (RowBytes{} + static_cast<std::int8_t>(node.start));
      const RowBytes right = ranks > (RowBytes{} + node.key);
      found += here & right & (RowBytes{} + static_cast<std::int8_t>(node.count));
    }
    std::memcpy(leaves, &found, kStride);
  }
};

template <std::size_t kCount, std::size_t kStride, class Trees, class Input, class Sum>
TFAOT_INLINE void walkTrees(const Forest<Input, Sum>& forest, const Trees& trees, std::size_t number, std::size_t n,
                            const std::int8_t* keys, Sum* sums) {
  std::uint32_t leaves[kCount][kStride];
  const Sum* values[kCount];
  for (std::size_t t = 0; t < kCount; ++t) values[t] = forest.values + trees.firstLeaf(number + t) * forest.width;
  for (std::size_t r = 0; r < n; ++r) trees.template walk<kCount, kStride>(number, keys, r, leaves);
  addLeaves(forest, number, kCount, n, values, leaves, sums);
}

/// `n` rows, at most kStride, one after the other.
template <std::size_t kStride, class Trees, class Input, class Sum>
TFAOT_ALONE void eachRow(const Forest<Input, Sum>& forest, const Trees& trees, std::size_t n, const Input* x, Sum* sums,
                         std::int8_t* keys) {
  rank<kStride>(forest, n, x, keys);
  std::size_t number = 0;
  for (; number + kTrees <= forest.trees; number += kTrees)
    walkTrees<kTrees, kStride>(forest, trees, number, n, keys, sums);
  const auto rest = [&](auto count) __attribute__((always_inline)) {
    if (number + count > forest.trees) return;
    walkTrees<count, kStride>(forest, trees, number, n, keys, sums);
    number += count;
  };
  rest(std::integral_constant<std::size_t, 4>{});
  rest(std::integral_constant<std::size_t, 2>{});
  rest(std::integral_constant<std::size_t, 1>{});
}

/// `n` rows, at most kStride, in one vector.
template <std::size_t kStride, class Trees, class Input, class Sum>
TFAOT_ALONE void allRows(const Forest<Input, Sum>& forest, const Trees& trees, std::size_t n, const Input* x, Sum* sums,
                         std::int8_t* keys) {
  constexpr std::size_t kAtOnce = 4;
  rank<kStride>(forest, n, x, keys);
  for (std::size_t number = 0; number < forest.trees; number += kAtOnce) {
    std::uint8_t leaves[kAtOnce][kStride];
    const Sum* values[kAtOnce];
    const std::size_t count = forest.trees - number < kAtOnce ? forest.trees - number : kAtOnce;
    for (std::size_t t = 0; t < count; ++t) {
      trees.template together<kStride>(number + t, keys, leaves[t]);
      values[t] = forest.values + trees.firstLeaf(number + t) * forest.width;
    }
    if (count == kAtOnce)
      addLeaves(forest, number, kAtOnce, n, values, leaves, sums);
    else
      addLeaves(forest, number, count, n, values, leaves, sums);
  }
}

/// The sums of a forest for `n` rows of `x`. `keys` has room for kWide bytes per scale and per derived column.
template <class Trees, class Input, class Sum>
inline void sumTrees(const Forest<Input, Sum>& forest, const Trees& trees, std::size_t n, const Input* x, Sum* sums,
                     std::int8_t* keys) {
  for (std::size_t i = 0; i < n * forest.outputs; ++i) sums[i] = forest.base[i % forest.outputs];
  while (n > 0) {
    const std::size_t rows = n < kWide ? n : kWide;
    if (rows == 1)
      eachRow<1>(forest, trees, rows, x, sums, keys);
    else if (rows <= kWalking || !Trees::kHasVectors)
      eachRow<kWide>(forest, trees, rows, x, sums, keys);
    else if constexpr (Trees::kHasVectors) {
      if (rows <= kFew)
        allRows<kFew>(forest, trees, rows, x, sums, keys);
      else
        allRows<kWide>(forest, trees, rows, x, sums, keys);
    }
    n -= rows;
    x += rows * forest.features;
    sums += rows * forest.outputs;
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TREES_H_
