// kernels.cpp: the whole library, compiled once per target with that target's flags.
#include "tfaot_kernels/kernels.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// All of what follows is hidden as well: libraries for several targets, or of several versions, share nothing.
#pragma GCC visibility push(hidden)
#include "activations.h"
#include "convolution.h"
#include "fusion.h"
#include "packing.h"
#include "pooling.h"
#include "products.h"
#include "softmax.h"
#pragma GCC visibility pop

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

void activate(Activation activation, std::size_t count, const float* in, float* out) noexcept {
  if (out != in) std::memcpy(out, in, count * sizeof(float));
  activateRow(activation, out, count);
}

void add(Activation activation, std::size_t count, const float* first, const float* second, float* out) noexcept {
  addRow(activation, count, first, second, out);
}

void softmax(std::size_t rows, std::size_t size, const float* in, float* out) noexcept {
  softmaxRows(rows, size, in, out);
}

void pack(const float* weights, std::size_t rows, std::size_t columns, float* packed) noexcept {
  pack(weights, rows, columns, columns, 1, packed);
}

void pack(const float* weights, std::size_t rows, std::size_t columns, std::size_t down, std::size_t right,
          float* packed) noexcept {
  packPanels(weights, rows, columns, down, right, packed);
}

void dense(const Dense& layer, std::size_t batch, const float* in, float* out) noexcept {
  dense(layer, batch, in, layer.inputs, out, layer.outputs);
}

void dense(const Dense& layer, std::size_t batch, const float* in, std::size_t inStride, float* out,
           std::size_t outStride) noexcept {
  const Product product = {layer.weights,         layer.bias,     layer.outputs,
                           layer.inputs * kPanel, {layer.inputs}, layer.activation,
                           isChained(layer.inputs, layer.outputs)};
  for (std::size_t first = 0; first < batch; first += kRowsAtATime) {
    const std::size_t count = batch - first < kRowsAtATime ? batch - first : kRowsAtATime;
    const float* rows[kRowsAtATime];
    for (std::size_t i = 0; i < count; ++i) rows[i] = in + (first + i) * inStride;
    multiply(product, rows, count, {out + first * outStride, outStride});
  }
}

std::size_t packedConv2dSize(const Conv2d& layer) noexcept {
  if (isDepthwise(layer)) return windowSize(layer) * layer.filters;
  return layer.groups * packedSize(windowSize(layer), layer.filters / layer.groups);
}

void packConv2d(const Conv2d& layer, const float* filters, float* packed) noexcept {
  const std::size_t rows = windowSize(layer);
  const std::size_t columns = layer.filters / layer.groups;
  if (isDepthwise(layer)) {
    std::memcpy(packed, filters, rows * layer.filters * sizeof(float));
    return;
  }
  for (std::size_t group = 0; group < layer.groups; ++group) {
    for (std::size_t panel = 0; panel < columns; panel += kPanel) {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t column = panel; column < panel + kPanel; ++column) {
          *packed++ = column < columns ? filters[row * layer.filters + group * columns + column] : 0.0f;
        }
      }
    }
  }
}

void conv2d(const Conv2d& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept {
  const Window& window = layer.window;
  const Reading reading(layer);
  if (isPointwise(layer)) {  // one line of the pixels of all images: small images fill no block
    Conv2d line = layer;
    line.window.inWidth = line.window.outWidth = batch * window.inHeight * window.inWidth;
    line.window.inHeight = line.window.outHeight = 1;
    return convolveLines(line, reading, in, 0, 1, out, scratch);
  }
  for (std::size_t i = 0; i < batch; ++i) {
    convolveLines(layer, reading, in, 0, window.outHeight, out, scratch);
    in += window.inHeight * window.inWidth * window.channels;
    out += window.outHeight * window.outWidth * layer.filters;
  }
}

void conv2dMaxPool(const Conv2d& layer, const Window& pool, std::size_t batch, const float* in, float* out,
                   float* scratch) noexcept {
  const Reading reading(layer);
  const Ring ring(layer, pool);
  Conv2d first = layer;
  Activation last = Activation::none;
  if (isMonotone(layer.activation)) std::swap(first.activation, last);
  for (std::size_t i = 0; i < batch; ++i) {
    convolveAndPool(first, reading, pool, ring, last, in, out, scratch);
    in += layer.window.inHeight * layer.window.inWidth * layer.window.channels;
    out += pool.outHeight * pool.outWidth * pool.channels;
  }
}

void maxPool(const Window& window, std::size_t batch, const float* in, float* out) noexcept {
  visitLines(window, batch, in, out,
             [&](auto lineOf, std::size_t row, float* line) { kLargest(window, row, lineOf, line); });
}

void averagePool(const Window& window, std::size_t batch, const float* in, float* out) noexcept {
  visitLines(window, batch, in, out, [&](auto lineOf, std::size_t row, float* line) {
    kSum(window, row, lineOf, line);
    divideByCounts(window, row, line);
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels
