// blocks.h: the one micro-kernel: a block of rows times vectors of columns of packed weights, with bias and activation.
//
// Dense layers and convolutions of every kind are made of it. What a row is, the caller says: a pointer to its first
// input, and for all rows alike where the others lie, so that a convolution's window need not be copied.
#ifndef TFAOT_KERNELS_BLOCKS_H_
#define TFAOT_KERNELS_BLOCKS_H_

#include "activations.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Where the inputs of a row lie, in floats from its first one: `height` x `width` segments of `length`.
struct Segments {
  std::size_t length;
  std::size_t width = 1, height = 1;
  std::size_t right = 0, down = 0;  ///< from a segment to the next one, and from a line of them to the next one
};

/// The right-hand side and what happens to the product.
struct Product {
  const float* weights;  ///< packed
  const float* bias;     ///< or null
  std::size_t columns;
  std::size_t panelSize;  ///< floats of one panel
  Segments segments;
  Activation activation;
  bool chained;  ///< whether sums are made in kChains chains, see `sumChains`; rows have one segment then
};

inline constexpr int kMostWidth = 8;  // vectors of a strip at most

inline constexpr float kZeros[kMostWidth * kLanes] = {};

/// Some vectors of columns of the right-hand side.
struct Strip {
  const float* weights[kMostWidth];  ///< of each vector, in its panel's first row
  const float* bias;                 ///< zeros behind the last column

  /// `padded` is where a bias that ends within the strip is copied to, for as long as the strip is used.
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
    std::memset(padded, 0, sizeof padded);
    std::memcpy(padded, bias, columns * sizeof(float));
    bias = padded;
  }
};

template <int kRows, int kWidth>
using Sums = Vector[kRows][kWidth];

/// Adds products of `kRows` rows with `kWidth` vectors of weights: inputs from `begin` up to `end`, one row of
/// panels each. `kFetch`: asks for weights that lie `ahead` bytes behind those in use.
template <int kRows, int kWidth, bool kFetch>
TFAOT_INLINE void accumulate(Sums<kRows, kWidth>& sums, const float* const (&rows)[kRows], std::size_t begin,
                             std::size_t end, const float* (&weights)[kWidth], [[maybe_unused]] std::size_t ahead) {
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
        for (int r = 0; r < kRows; ++r) sums[r][v] += inputs[r] * weight;
      }
    } else {
      Vector weight[kWidth];
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        weight[v] = load(weights[v]);
        if constexpr (kRows > 1) keepInRegister(weight[v]);
      }
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const Vector input = broadcast(rows[r][k]);
        TFAOT_UNROLL
        for (int v = 0; v < kWidth; ++v) sums[r][v] += input * weight[v];
      }
    }
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      if constexpr (kFetch) {
        if (v % kVectors == 0) prefetch(weights[v], ahead);
      }
      weights[v] += kPanel;
    }
  };
  std::size_t k = begin;
  if constexpr (kRows >= kUnrolledRows) {
    for (; k + 3 <= end; k += 3) {
      step(k);
      step(k + 1);
      step(k + 2);
    }
  }
  for (; k < end; ++k) step(k);
}

/// Where a block's result goes.
struct Target {
  float* data;
  std::size_t stride;  ///< floats from row to row
};

/// The products of `blocks` times `kRows` rows and a strip of `kWidth` vectors, activated.
template <int kRows, int kWidth>
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
      bias[v] = load(strip.bias + v * kLanes);
    }
    Sums<kRows, kWidth> sums;
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = bias[v];
    }
    // The first block asks for weights soon before it uses them (hardware stops at a page), the second one for the next
    // strip's, to which it lends its time.
    const std::size_t ahead = block == 1 ? kWidth * product.panelSize / kVectors * sizeof(float) : 4096;
    std::size_t line = 0;
    for (std::size_t y = segments.height; y > 0; --y, line += segments.down) {
      std::size_t begin = line;
      for (std::size_t x = segments.width; x > 0; --x, begin += segments.right) {
        const std::size_t end = begin + segments.length;
        if constexpr (kRows * kVectors <= 2) {  // few multiply-adds for a line of weights: hardware asks nearly in time
          accumulate<kRows, kWidth, (kVectors > 1)>(sums, from, begin, end, weights, 512);
        } else if (kRows <= kFetchRows || block < 2) {
          accumulate<kRows, kWidth, true>(sums, from, begin, end, weights, ahead);
        } else {
          accumulate<kRows, kWidth, false>(sums, from, begin, end, weights, 0);
        }
      }
    }
    Activation activation = product.activation;
    if constexpr (kRows >= kBlockRows - 1) {  // the cheapest activation is not worth a call
      if (activation == Activation::relu) {
        activation = Activation::none;
        TFAOT_UNROLL
        for (int r = 0; r < kRows; ++r) {
          TFAOT_UNROLL
          for (int v = 0; v < kWidth; ++v) sums[r][v] = positivePart(sums[r][v]);
        }
      }
    }
    float* to = out.data;
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r, to += out.stride) {
      keepInRegister(to);
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) store(to + v * kLanes, sums[r][v]);
    }
    // Block by block, so that it overlaps with the next one's multiply-adds.
    if (activation != Activation::none) activateBlock(activation, out.data, kRows, kWidth, out.stride);
  }
}

using Block = void (*)(const Strip&, const Product&, const float* const* rows, std::size_t blocks, Target out);

template <int kRows, int kWidth>
constexpr Block blockOf() {
  if constexpr (kWidth <= kBlockWidth[kRows]) return &sumBlocks<kRows, kWidth>;
  return nullptr;
}

struct Blocks {
  Block byRowsAndWidth[kBlockRows][kMostWidth];  ///< both less one
};

template <int... kRow>
constexpr Blocks allBlocks(std::integer_sequence<int, kRow...>) {
  return {{{blockOf<kRow + 1, 1>(), blockOf<kRow + 1, 2>(), blockOf<kRow + 1, 3>(), blockOf<kRow + 1, 4>(),
            blockOf<kRow + 1, 5>(), blockOf<kRow + 1, 6>(), blockOf<kRow + 1, 7>(), blockOf<kRow + 1, 8>()}...}};
}

inline constexpr Blocks kBlocks = allBlocks(std::make_integer_sequence<int, kBlockRows>{});

inline constexpr int kChains = 4;
inline constexpr std::size_t kMostSums = 32 * kLanes;  // floats of the largest block's sums

/// Sums of one row in four chains, of a quarter each, the remainder in the last one's.
template <int kWidth>
void sumRowInChains(const Strip& strip, std::size_t length, const float* row, float (&parts)[kChains][kMostSums]) {
  const std::size_t part = length / kChains;
  Vector sums[kChains][kWidth] = {};
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) sums[0][v] = load(strip.bias + v * kLanes);
  const auto add = [&](int chain, std::size_t k) {
    const Vector input = broadcast(row[k]);
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) sums[chain][v] += input * load(strip.weights[v] + k * kPanel);
  };
  for (std::size_t k = 0; k < part; ++k) {
    TFAOT_UNROLL
    for (int i = 0; i < kChains; ++i) add(i, i * part + k);
  }
  for (std::size_t k = kChains * part; k < length; ++k) add(kChains - 1, k);
  TFAOT_UNROLL
  for (int i = 0; i < kChains; ++i) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) store(parts[i] + v * kLanes, sums[i][v]);
  }
}

/// The sums of layers that have too few columns to keep the arithmetic units busy when there is one row only: in four
/// chains, added in a fixed order. One row runs all chains at once, more rows run one chain after the other; the bits
/// are the same.
inline void sumChains(const Strip& strip, const Product& product, const float* const* rows, std::size_t count,
                      std::size_t width, Target out) {
  const std::size_t length = product.segments.length;
  alignas(64) float parts[kChains][kMostSums];
  if (count == 1) {
    const auto sumRow = width == 1 ? sumRowInChains<1> : sumRowInChains<2>;
    sumRow(strip, length, rows[0], parts);
  } else {
    const std::size_t part = length / kChains;
    Strip rest = strip;
    Product chain = product;
    chain.activation = Activation::none;
    const float* from[kBlockRows];
    for (std::size_t i = 0; i < kChains; ++i) {
      for (std::size_t r = 0; r < count; ++r) from[r] = rows[r] + i * part;
      chain.segments = {i == kChains - 1 ? length - i * part : part};
      kBlocks.byRowsAndWidth[count - 1][width - 1](rest, chain, from, 1, {parts[i], width * kLanes});
      for (std::size_t v = 0; v < width; ++v) rest.weights[v] += part * kPanel;
      rest.bias = kZeros;
    }
  }
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t v = 0; v < width; ++v) {
      const std::size_t i = (r * width + v) * kLanes;
      store(out.data + r * out.stride + v * kLanes,
            (load(parts[0] + i) + load(parts[1] + i)) + (load(parts[2] + i) + load(parts[3] + i)));
    }
  }
  if (product.activation != Activation::none) activateBlock(product.activation, out.data, count, width, out.stride);
}

/// `blocks` blocks of `size` rows times a strip.
inline void multiplyStrip(const Product& product, const Strip& strip, std::size_t width, const float* const* rows,
                          std::size_t size, std::size_t blocks, Target out) {
  if (product.chained) {
    for (std::size_t i = 0; i < blocks; ++i) {
      const Target to = {out.data + i * size * out.stride, out.stride};
      sumChains(strip, product, rows + i * size, size, width, to);
    }
  } else {
    kBlocks.byRowsAndWidth[size - 1][width - 1](strip, product, rows, blocks, out);
  }
}

/// The same for a strip that ends behind the last column.
inline void multiplyLastStrip(const Product& product, const Strip& strip, std::size_t width, std::size_t columns,
                              const float* const* rows, std::size_t size, std::size_t blocks, Target out) {
  alignas(64) float sums[kMostSums];
  for (; blocks > 0; --blocks) {
    multiplyStrip(product, strip, width, rows, size, 1, {sums, width * kLanes});
    for (std::size_t r = 0; r < size; ++r, out.data += out.stride) {
      const float* from = sums + r * width * kLanes;
      std::size_t c = 0;
      for (; c + kLanes <= columns; c += kLanes) store(out.data + c, load(from + c));
      if (c < columns) storeFirst(out.data + c, columns - c, load(from + c));
    }
    rows += size;
  }
}

/// `more` blocks of `size` + 1 rows and `blocks` of `size` rows times all columns, in strips of nearly equal width, of
/// `most` vectors at most.
inline void multiplyBlocks(const Product& product, const float* const* rows, std::size_t size, std::size_t more,
                           std::size_t blocks, std::size_t most, Target out) {
  const std::size_t vectors = (product.columns + kLanes - 1) / kLanes;
  std::size_t strips = (vectors + most - 1) / most;
  for (std::size_t vector = 0; vector < vectors; --strips) {
    const std::size_t width = (vectors - vector + strips - 1) / strips;
    alignas(64) float bias[kMostWidth * kLanes];
    const Strip strip(product, vector, width, bias);
    const std::size_t column = vector * kLanes, columns = product.columns - column;
    const auto run = [&](std::size_t first, std::size_t rowsOfBlock, std::size_t count) {
      const Target to = {out.data + first * out.stride + column, out.stride};
      if (count == 0) return;
      if (columns >= width * kLanes) {
        multiplyStrip(product, strip, width, rows + first, rowsOfBlock, count, to);
      } else {
        multiplyLastStrip(product, strip, width, columns, rows + first, rowsOfBlock, count, to);
      }
    };
    run(0, size + 1, more);
    run(more * (size + 1), size, blocks);
    vector += width;
  }
}

/// Floats of packed weights from which on going through them twice costs more than narrow strips.
inline constexpr std::size_t kLargeWeights = 1 << 17;

/// `count` rows times all columns. Rows are divided into blocks of nearly equal size: 8 into 4 and 4 rather than 6 and
/// 2, which would take longer.
inline void multiply(const Product& product, const float* const* rows, std::size_t count, Target out) {
  const std::size_t blocks = (count + kBlockRows - 1) / kBlockRows;
  const std::size_t size = count / blocks;
  const std::size_t more = count % blocks;
  const std::size_t most = product.chained ? 2 : kBlockWidth[size];
  if (more == 0) return multiplyBlocks(product, rows, size, 0, blocks, most, out);
  const std::size_t narrow = product.chained ? 2 : kBlockWidth[size + 1];
  if (narrow == most || product.panelSize / kPanel * product.columns >= kLargeWeights) {
    return multiplyBlocks(product, rows, size, more, blocks - more, narrow, out);
  }
  multiplyBlocks(product, rows, size + 1, 0, more, narrow, out);
  const std::size_t done = more * (size + 1);
  multiplyBlocks(product, rows + done, size, 0, blocks - more, most, {out.data + done * out.stride, out.stride});
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BLOCKS_H_
