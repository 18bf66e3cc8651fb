// tfaot_kernels/scratch.h: the order in which convolutions read their input, and the memory that they need for it. Both are
// known at compile time, so that callers can check the memory that they reserve. Part of kernels.h.
#ifndef TFAOT_KERNELS_SCRATCH_H_
#define TFAOT_KERNELS_SCRATCH_H_

#include "tfaot_kernels/kernels.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The most rows that are multiplied with weights at a time (products.h): more of them if they have few inputs each, which
/// stay in the L1 cache. With 64 for all, a pointwise convolution of 16 channels spends 5 % of its time between blocks.
constexpr std::size_t rowsAtATime(std::size_t inputs) { return inputs <= 16 ? 256 : inputs <= 32 ? 128 : 64; }
inline constexpr std::size_t kMostRowsAtATime = rowsAtATime(1);
/// Rows that fill blocks of any size nearly evenly.
inline constexpr std::size_t kManyRows = 64;

/// The number of lines that a window covers, or of columns.
constexpr std::size_t reach(std::size_t kernel, std::size_t dilation) { return (kernel - 1) * dilation + 1; }

/// How a convolution reads its input.
struct Reading {
  std::size_t columns = 0, lines = 0;  ///< of the input that a line of windows covers
  bool padded = false;                 ///< whether some of that is padding
  std::size_t linesAtATime = 0;    ///< of the output; if the input is padded, it is copied between zeros for so many lines

  constexpr explicit Reading(const Conv2d& layer) {
    const Window& window = layer.window;
    columns = (window.outWidth - 1) * window.strideWidth + reach(window.width, window.dilationWidth);
    lines = reach(window.height, window.dilationHeight);
    padded = window.padTop > 0 || window.padLeft > 0 || columns > window.inWidth ||
             (window.outHeight - 1) * window.strideHeight + lines > window.inHeight;
    linesAtATime = window.outHeight;
    if (!padded) return;
    // At most 64 KiB, which the caches near the core hold, but enough lines to fill blocks.
    constexpr std::size_t kFloats = 16384;
    const std::size_t most = kFloats / (columns * window.channels);
    const std::size_t least = (kManyRows + window.outWidth - 1) / window.outWidth;
    std::size_t chosen = most > lines ? (most - lines) / window.strideHeight + 1 : 1;
    if (chosen < least) chosen = least;
    if (chosen < linesAtATime) linesAtATime = chosen;
  }

  constexpr std::size_t scratch(const Window& window) const {
    if (!padded) return 0;
    return ((linesAtATime - 1) * window.strideHeight + lines) * columns * window.channels;
  }
};

/// Lines of a convolution that are kept for pooling: line y at y % lines.
struct Ring {
  std::size_t lineSize = 0;  ///< floats
  std::size_t lines = 0;
  std::size_t pooledAtATime = 0;  ///< lines of the output that are computed from the kept lines

  constexpr Ring(const Conv2d& layer, const Window& pool) {
    const std::size_t width = layer.window.outWidth;
    lineSize = width * layer.filters;
    // Enough to fill the convolution's blocks.
    pooledAtATime = 1 + kManyRows / (pool.strideHeight * width);
    if (pooledAtATime > pool.outHeight) pooledAtATime = pool.outHeight;
    lines = (pooledAtATime - 1) * pool.strideHeight + reach(pool.height, pool.dilationHeight);
  }
};

constexpr std::size_t conv2dScratch(const Conv2d& layer) noexcept { return Reading(layer).scratch(layer.window); }

/// Rows of bytes that are multiplied at a time (quantized.h), for each of which memory holds the inputs as 16 bits.
inline constexpr std::size_t kQuantizedRowsAtATime = 16;

/// Groups of four bytes, the last of which may not be full.
constexpr std::size_t foursOf(std::size_t bytes) { return (bytes + 3) / 4; }

constexpr std::size_t quantizedDenseScratch(std::size_t inputs) noexcept { return kQuantizedRowsAtATime * 2 * foursOf(inputs); }

/// With a copy of a window.
constexpr std::size_t quantizedConv2dScratch(std::size_t inputs) noexcept { return quantizedDenseScratch(inputs) + foursOf(inputs); }

constexpr std::size_t conv2dMaxPoolScratch(const Conv2d& layer, const Window& pool) noexcept {
  const Ring ring(layer, pool);
  return conv2dScratch(layer) + ring.lines * ring.lineSize;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_SCRATCH_H_
