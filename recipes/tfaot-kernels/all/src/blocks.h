// blocks.h: the one micro-kernel: a block of rows times vectors of columns of packed weights, with bias and activation.
//
// All dense layers and convolutions use it. The caller describes a row: a pointer to its first input, and the positions of
// the other inputs relative to it, which are the same for all rows. So the windows of a convolution need not be copied.
#ifndef TFAOT_KERNELS_BLOCKS_H_
#define TFAOT_KERNELS_BLOCKS_H_

#include "activating.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The positions of a row's inputs, in floats from the first one: `height` x `width` segments of `length`.
struct Segments {
  std::size_t length;
  std::size_t width = 1, height = 1;
  std::size_t right = 0, down = 0;  ///< distances between segments, and between lines of segments
};

/// The right-hand side of a product, and what is applied to the result.
struct Product {
  const float* weights;  ///< packed
  const float* bias;     ///< null for none
  std::size_t columns;
  std::size_t panelSize;  ///< floats of one panel
  Segments segments;
  Activation activation;
  bool chained;  ///< whether sums are computed in kChains chains, see `sumChains`; then rows have one segment
  const Dispatch* dispatch;
  std::size_t group = 0, groups = 1;  ///< which strips are computed: one of `groups` groups of nearly as many

  Extent extent() const { return {panelSize / kPanel, columns, chained}; }
};

inline constexpr std::size_t kMostSums = 32 * kLanes;  // floats of the largest block's sums
inline constexpr float kZeros[kMostWidth * kLanes] = {};

/// Some vectors of columns of the right-hand side.
struct Strip {
  const float* weights[kMostWidth];  ///< of each vector, in the first row of its panel
  const float* bias;                 ///< followed by zeros after the last column

  /// A bias that ends within the strip is copied to `padded`, which must live as long as the strip.
  Strip(const Product& product, std::size_t vector, std::size_t width, float (&padded)[kMostWidth * kLanes]) {
    for (std::size_t v = 0; v < width; ++v) {
      const std::size_t number = vector + v;
      weights[v] = product.weights + number / kVectors * product.panelSize + number % kVectors * kLanes;
    }
    bias = kZeros;
    if (product.bias == nullptr) return;
    bias = product.bias + vector * kLanes;
    const std::size_t columns = product.columns - vector * kLanes;
    if (columns >= width * kLanes) return;
    // Whole vectors, because it is soon read as vectors: smaller stores could not be forwarded to these loads.
    for (std::size_t c = 0; c < kMostWidth * kLanes; c += kLanes) {
      const std::size_t left = c < columns ? columns - c : 0;
      store(padded + c, left >= kLanes ? load(bias + c) : loadFirst(bias + c, left));
    }
    bias = padded;
  }
};

template <int kRows, int kWidth>
using Sums = Vector[kRows][kWidth];

/// What a block prefetches, in bytes from the weights in use: into the L1 cache those `ahead` of each vector, into the L2
/// cache those `behind` the first vector.
enum class Ask { nothing, ahead, aheadAndBehind };

struct Asked {
  Ask what;
  std::size_t ahead, behind;
};

/// Adds products of `kRows` rows with `kWidth` vectors of weights: inputs from `begin` up to `end`, one row of
/// panels each. If kShares, the sums of the last vector are those of rows r and r + 1 in its halves, for even r.
template <int kRows, int kWidth, bool kShares, Ask kAsk>
TFAOT_INLINE void accumulate(Sums<kRows, kWidth>& sums, const float* const (&rows)[kRows], std::size_t begin,
                             std::size_t end, const float* (&weights)[kWidth], [[maybe_unused]] Asked asked) {
  const auto step = [&](std::size_t k) __attribute__((always_inline)) {
    if constexpr (kRows < kWidth) {  // few rows: their inputs stay in registers, weights pass
      Vector inputs[kRows];
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        inputs[r] = broadcast(rows[r][k]);
        if constexpr (kRows > 1) keepInRegister(inputs[r]);
      }
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        Vector weight = load(weights[v]);
        if constexpr (kRows > 1) keepInRegister(weight);
        TFAOT_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r][v] = multiplyAdd(weight, inputs[r], sums[r][v]);
      }
    } else {
      Vector weight[kWidth], before{};
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        weight[v] = kShares && v == kWidth - 1 ? loadTwice(weights[v]) : load(weights[v]);
        if constexpr (kRows > 1) keepInRegister(weight[v]);
      }
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        Vector input = broadcast(rows[r][k]);
        if constexpr (kShares) keepInRegister(input);
        TFAOT_UNROLL
        for (int v = 0; v < kWidth - kShares; ++v) sums[r][v] = multiplyAdd(weight[v], input, sums[r][v]);
        if (!kShares) continue;
        Vector& shared = sums[r / 2 * 2][kWidth - 1];
        if (r % 2 == 1) shared = multiplyAdd(weight[kWidth - 1], halvesOf(before, input), shared);
        if (r % 2 == 0 && r == kRows - 1) shared = multiplyAdd(weight[kWidth - 1], input, shared);
        before = input;
      }
    }
    if constexpr (kAsk == Ask::aheadAndBehind) prefetch<2>(weights[0], asked.behind);
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      if constexpr (kAsk != Ask::nothing) {
        if (v % kVectors == 0) prefetch(weights[v], asked.ahead);
      }
      weights[v] += kPanel;
    }
  };
  constexpr bool kIsAsTuned = kAsk == Ask::nothing || kRows <= kAskingRows || kSteps[kRows] <= kAskingSteps;
  constexpr int kUnrolled = kIsAsTuned ? kSteps[kRows] : kAskingSteps;
  std::size_t k = begin;
  if constexpr (kUnrolled > 1) {
    for (; k + kUnrolled <= end; k += kUnrolled) {
      TFAOT_UNROLL
      for (int i = 0; i < kUnrolled; ++i) step(k + i);
    }
  }
  for (; k < end; ++k) step(k);
}

// Sizes by which `askedBy` decides; measured by benchmarks/kernels.py, see docs/decisions/024.

/// Floats of a layer's packed weights: with more, the weights of all layers may not fit into the L2 cache.
inline constexpr std::size_t kAskedWeights = 1 << 15;
/// Bytes of a strip: with more, it does not stay in the L1 cache together with the rows.
inline constexpr std::size_t kStripInCache = 36 * 1024;
/// Bytes of a strip: from this size on it is not prefetched before it begins; it prefetches its own weights kFarAhead bytes
/// ahead instead.
inline constexpr std::size_t kLongStrip = 512 * 1024;
inline constexpr std::size_t kFarAhead = 4096;

/// What the `block`-th block of a strip prefetches.
///
/// The first block reads the strip's weights from the L2 cache. Later blocks find them in the L1 cache if the strip fits
/// into it, otherwise in the L2 cache again. Hardware prefetching stops at the end of a page, so blocks prefetch weights
/// shortly before they use them.
///
/// Meanwhile the next strip must be loaded into the L2 cache; after the last strip come the next layer's weights. With
/// kAsksAlong each block prefetches one vector of it: with AVX-512 a strip is as large as the L1 cache, and prefetching all
/// of the next one at once would evict this one. Without kAsksAlong the second block prefetches all of it.
TFAOT_INLINE Asked askedBy(std::size_t rows, std::size_t width, const Product& product, std::size_t block) {
  const std::size_t panel = product.panelSize * sizeof(float), strip = width * panel / kVectors;
  // Few multiply-adds for a line of weights: the hardware prefetches nearly in time.
  if (rows * kVectors <= 2) return {kVectors > 1 ? Ask::ahead : Ask::nothing, 512, 0};
  if (!kAsksAlong) {
    return {rows <= kAskingRows || block < 2 ? Ask::ahead : Ask::nothing, block == 1 ? strip : kAhead, 0};
  }
  if (rows <= kAskingRows) return {Ask::ahead, kAhead, 0};
  if (strip >= kLongStrip && block == 0) return {Ask::ahead, kFarAhead, 0};
  if (width > 1 && strip < kLongStrip && block < width && product.panelSize / kPanel * product.columns >= kAskedWeights) {
    return {Ask::aheadAndBehind, kAhead, strip + block * panel};
  }
  return {block == 0 || strip > kStripInCache ? Ask::ahead : Ask::nothing, kAhead, 0};
}

/// The destination of a block's result.
struct Target {
  float* data;
  std::size_t stride;         ///< floats from row to row
  std::size_t last = kLanes;  ///< floats of the last vector of each row; less than kLanes only if kHasMasks<float>
};

/// Keeps NaN and the sign of zero, like `positivePart` and `clipped`.
template <int kRows, int kWidth>
TFAOT_INLINE void bound(Activation activation, Sums<kRows, kWidth>& sums) {
  const bool isClip = activation == Activation::clip;
  const Vector low = isClip ? broadcast(activation.low) : zeros();
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) sums[r][v] = larger(low, sums[r][v]);
  }
  if (!isClip) return;
  const Vector high = broadcast(activation.high);
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) sums[r][v] = smaller(high, sums[r][v]);
  }
}

/// The products of `blocks` times `kRows` rows and a strip of `kWidth` vectors, activated. If kShares, out.last is at most
/// kHalfLanes.
template <int kRows, int kWidth, bool kShares>
void sumBlocks(const Strip& strip, const Product& product, const float* const* rows, std::size_t blocks, Target out) {
  const Segments& segments = product.segments;
  for (std::size_t block = 0; block < blocks; ++block, rows += kRows, out.data += kRows * out.stride) {
    const float* from[kRows];
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) from[r] = rows[r];
    const float* weights[kWidth];
    Vector bias[kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      weights[v] = strip.weights[v];
      bias[v] = kShares && v == kWidth - 1 ? loadTwice(strip.bias + v * kLanes) : load(strip.bias + v * kLanes);
    }
    Sums<kRows, kWidth> sums;
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = bias[v];
    }
    const Asked asked = askedBy(kRows, kWidth, product, block);
    std::size_t line = 0;
    for (std::size_t y = segments.height; y > 0; --y, line += segments.down) {
      std::size_t begin = line;
      for (std::size_t x = segments.width; x > 0; --x, begin += segments.right) {
        const std::size_t end = begin + segments.length;
        const auto add = [&](auto what) __attribute__((always_inline)) {
          accumulate<kRows, kWidth, kShares, decltype(what)::value>(sums, from, begin, end, weights, asked);
        };
        switch (asked.what) {
          case Ask::nothing: add(std::integral_constant<Ask, Ask::nothing>{}); break;
          case Ask::ahead: add(std::integral_constant<Ask, Ask::ahead>{}); break;
          case Ask::aheadAndBehind:  // `askedBy` asks for it only if kWidth > 1: otherwise it is not worth the code
            if constexpr (kWidth > 1) add(std::integral_constant<Ask, Ask::aheadAndBehind>{});
            break;
        }
      }
    }
    Activation activation = product.activation;
    if (isBounds(activation)) {  // the cheapest activations are not worth a call
      bound(activation, sums);
      activation = Activation::none;
    }
    float* to = out.data;
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r, to += out.stride) {
      keepInRegister(to);
      TFAOT_UNROLL
      for (int v = 0; v + 1 < kWidth; ++v) store(to + v * kLanes, sums[r][v]);
      if constexpr (kShares) {
        const Vector shared = sums[r / 2 * 2][kWidth - 1];
        storeFirst(to + (kWidth - 1) * kLanes, out.last, r % 2 == 0 ? shared : upperHalf(shared));
      } else if (!kHasMasks<float> || out.last == kLanes) {
        store(to + (kWidth - 1) * kLanes, sums[r][kWidth - 1]);
      } else {  // callers do so only if no activation loads it again, because a partial store cannot be forwarded to a load
        storeFirst(to + (kWidth - 1) * kLanes, out.last, sums[r][kWidth - 1]);
      }
    }
    // Block by block, so that activations overlap with the next block's multiply-adds.
    if (activation != Activation::none) {
      product.dispatch->activations[activation](activation, out.data, kRows, kWidth, out.stride);
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BLOCKS_H_
