// products.h: rows times all columns of packed weights, divided into blocks of rows and strips of columns.
#ifndef TFAOT_KERNELS_PRODUCTS_H_
#define TFAOT_KERNELS_PRODUCTS_H_

#include "blocks.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// `blocks` blocks of `size` rows times a strip. Not inlined: four inlined copies took 1 KB.
TFAOT_ALONE inline void multiplyStrip(const Product& product, const Strip& strip, std::size_t width, const float* const* rows,
                          std::size_t size, std::size_t blocks, Target out) {
  if (product.chained) {
    for (std::size_t i = 0; i < blocks; ++i) {
      const Target to = {out.data + i * size * out.stride, out.stride};
      product.dispatch->chains(strip, product, rows + i * size, size, width, to);
    }
  } else {
    const auto& shapes = isShared(out.last, size, width) ? product.dispatch->sharing : product.dispatch->blocks;
    shapes[size - 1][width - 1](strip, product, rows, blocks, out);
  }
}

/// The same for a strip that ends beyond the last column: as many blocks at a time as stay in the L1 cache.
inline void multiplyLastStrip(const Product& product, const Strip& strip, std::size_t width, std::size_t columns,
                              const float* const* rows, std::size_t size, std::size_t blocks, Target out) {
  constexpr std::size_t kMost = 8 * kMostSums;
  alignas(64) float sums[kMost];
  const std::size_t step = width * kLanes;
  const bool isWhole = columns == out.stride;  // rows without gaps are activated as one row, so that no lanes are wasted
  Product plain = product;
  const bool isBounded = kHasMasks<float> && isBounds(product.activation);
  if (isWhole && !isBounded) plain.activation = Activation::none;
  float* const begin = out.data;
  // The last vector is stored in part if the activation does not read it again from memory.
  if (kHasMasks<float> && !product.chained && (isBounded || plain.activation == Activation::none)) {
    multiplyStrip(plain, strip, width, rows, size, blocks, {out.data, out.stride, columns - (width - 1) * kLanes});
    if (plain.activation != product.activation) activateRow(*product.dispatch, product.activation, begin, blocks * size * columns);
    return;
  }
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
  if (isWhole) activateRow(*product.dispatch, product.activation, begin, blocks * size * columns);
}

/// `more` blocks of `size` + 1 rows and `blocks` of `size` rows times all columns, in strips of nearly equal width, of
/// `most` vectors at most.
inline void multiplyBlocks(const Product& product, const float* const* rows, std::size_t size, std::size_t more,
                           std::size_t blocks, std::size_t most, Target out) {
  const Strips strips(product.columns, most);
  const std::size_t begin = strips.count * product.group / product.groups;
  const std::size_t end = strips.count * (product.group + 1) / product.groups;
  std::size_t vector = begin * strips.width + (begin < strips.wider ? begin : strips.wider);
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t width = strips.width + (i < strips.wider);
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

/// `count` rows times all columns.
TFAOT_ALONE inline void multiply(const Product& product, const float* const* rows, std::size_t count, Target out) {
  divideRows(product.extent(), count,
             [&](std::size_t first, std::size_t size, std::size_t more, std::size_t blocks, std::size_t most) {
               multiplyBlocks(product, rows + first, size, more, blocks, most, {out.data + first * out.stride, out.stride});
             });
}

/// The weights of a dense layer.
inline Product productOf(const Dispatch& dispatch, const Dense& layer) {
  return {layer.weights,         layer.bias,     layer.outputs,
          layer.inputs * kPanel, {layer.inputs}, layer.activation,
          isChained(layer.inputs, layer.outputs), &dispatch};
}

/// `count` rows that lie `inStride` and `outStride` floats apart, times all columns.
inline void multiplyRows(const Product& product, std::size_t inputs, std::size_t count, const float* in, std::size_t inStride,
                         float* out, std::size_t outStride) {
  const std::size_t most = rowsAtATime(inputs);
  for (std::size_t first = 0; first < count; first += most) {
    const std::size_t here = count - first < most ? count - first : most;
    const float* rows[kMostRowsAtATime];
    for (std::size_t i = 0; i < here; ++i) rows[i] = in + (first + i) * inStride;
    multiply(product, rows, here, {out + first * outStride, outStride});
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_PRODUCTS_H_
