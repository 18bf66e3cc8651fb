// products.h: rows times all columns of packed weights, divided into blocks of rows and strips of columns.
#ifndef TFAOT_KERNELS_PRODUCTS_H_
#define TFAOT_KERNELS_PRODUCTS_H_

#include "chains.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

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

/// The same for a strip that ends behind the last column: as many blocks at a time as stay in the first cache.
inline void multiplyLastStrip(const Product& product, const Strip& strip, std::size_t width, std::size_t columns,
                              const float* const* rows, std::size_t size, std::size_t blocks, Target out) {
  constexpr std::size_t kMost = 8 * kMostSums;
  alignas(64) float sums[kMost];
  const std::size_t step = width * kLanes;
  const bool isWhole = columns == out.stride;  // rows without gaps: they are activated as one, no lane for nothing
  Product plain = product;
  if (isWhole) plain.activation = Activation::none;
  float* const begin = out.data;
  for (std::size_t left = blocks; left > 0;) {
    const std::size_t most = kMost / (size * step), count = left < most ? left : most;
    multiplyStrip(plain, strip, width, rows, size, count, {sums, step});
    for (const float *from = sums, *end = sums + count * size * step; from < end; from += step, out.data += out.stride) {
      std::size_t c = 0;
      for (; c + kLanes <= columns; c += kLanes) store(out.data + c, load(from + c));
      if (c < columns) storeFirst(out.data + c, columns - c, load(from + c));
    }
    rows += count * size;
    left -= count;
  }
  if (isWhole) activateRow(product.activation, begin, blocks * size * columns);
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

/// Into how many blocks `count` rows are divided. With three vectors of columns 4 x 3 is faster than 6 x 2 and 6 x 1, which
/// waits for its own sums: 20 x 20 pixels of 24 channels in 0.89 of the time (AVX2, benchmarks/kernels.py). With more
/// vectors the rest, of two each, is as fast as with 6 rows.
inline std::size_t blocksOf(const Product& product, std::size_t count) {
  const std::size_t vectors = (product.columns + kLanes - 1) / kLanes;
  if (!product.chained && vectors == 1) return (count + kRowsOfOne - 1) / kRowsOfOne;
  if (!product.chained && vectors % 2 == 1 && vectors < 8) return (count + kRowsOfFewOdd - 1) / kRowsOfFewOdd;
  return (count + kRowsOfMany - 1) / kRowsOfMany;
}

/// `count` rows times all columns. Rows are divided into blocks of nearly equal size: 8 into 4 and 4 rather than 6 and
/// 2, which would take longer.
inline void multiply(const Product& product, const float* const* rows, std::size_t count, Target out) {
  const std::size_t blocks = blocksOf(product, count);
  const std::size_t size = count / blocks;
  const std::size_t more = count % blocks;
  const auto widest = [&](std::size_t rowsOfBlock) -> std::size_t { return product.chained ? 2 : kBlockWidth[rowsOfBlock]; };
  const std::size_t most = widest(size);
  if (more == 0) return multiplyBlocks(product, rows, size, 0, blocks, most, out);
  const std::size_t others = widest(size + 1);
  if (others == most || product.panelSize / kPanel * product.columns >= kLargeWeights) {
    // Blocks of 5 rows may be wider than those of 4.
    return multiplyBlocks(product, rows, size, more, blocks - more, others < most ? others : most, out);
  }
  multiplyBlocks(product, rows, size + 1, 0, more, others, out);
  const std::size_t done = more * (size + 1);
  multiplyBlocks(product, rows + done, size, 0, blocks - more, most, {out.data + done * out.stride, out.stride});
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_PRODUCTS_H_
