// fusion.h: a convolution and the maximum pooling after it, without storing the whole image between them.
#ifndef TFAOT_KERNELS_FUSION_H_
#define TFAOT_KERNELS_FUSION_H_

#include "convolution.h"
#include "pooling.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Whether the activation of the largest value is the largest activation.
inline bool isMonotone(Activation activation) {
  switch (activation) {
    case Activation::none:
    case Activation::relu:
    case Activation::elu:
    case Activation::selu:
    case Activation::tanh:
    case Activation::sigmoid:
    case Activation::softplus:
    case Activation::clip: return true;
    case Activation::leaky_relu: return activation.slope > 0.0f;
    default: return false;
  }
}

/// One line of the pooled image, from the convolution's sums before `activation`.
///
/// A window that contains only NaN that is ignored gives the activation of minus infinity, as in TensorFlow, whose graph
/// optimizer swaps activation and pooling in the same way.
template <bool kKeepsNan, class LineOf>
void poolLine(const Dispatch& dispatch, const Window& pool, Activation activation, std::size_t row, LineOf lineOf, float* out) {
  kLargest<kKeepsNan>(pool, row, lineOf, out);
  if (activation != Activation::none) activateRow(dispatch, activation, out, pool.outWidth * pool.channels);
}

/// `lines` lines of one image's output, from line `first` on, to `out`.
template <bool kKeepsNan>
inline void convolveAndPool(const Dispatch& dispatch, const Conv2d& layer, const Reading& reading, const Window& pool,
                            const Ring& ring, Activation activation, std::size_t first, std::size_t lines, const float* in,
                            float* out, float* scratch) {
  // The kept lines come first: what the convolution needs is known to callers, and would be code here.
  float* const kept = scratch;
  scratch += ring.lines * ring.lineSize;
  const auto lineOf = [&](std::size_t y) { return kept + y % ring.lines * ring.lineSize; };
  const ConvolveLines convolve = dispatch.convolutions[convolvingOf(layer)];
  const std::size_t reached = reach(pool.height, pool.dilationHeight);
  std::size_t known = 0;  // lines of the convolution so far
  for (std::size_t row = first; row < first + lines; row += ring.pooledAtATime) {
    const std::size_t left = first + lines - row;
    const std::size_t rows = left < ring.pooledAtATime ? left : ring.pooledAtATime;
    // The lines from the top of the first window to the bottom of the last one, as far as they exist.
    const std::size_t begin = row * pool.strideHeight, end = (row + rows - 1) * pool.strideHeight + reached;
    // A stride longer than the window skips lines, and so does a part of an image.
    if (begin > known + pool.padTop) known = begin - pool.padTop;
    const std::size_t below = end > pool.padTop ? end - pool.padTop : 0;
    const std::size_t wanted = below < pool.inHeight ? below : pool.inHeight;
    while (known < wanted) {
      const std::size_t slot = known % ring.lines;
      const std::size_t room = ring.lines - slot;
      const std::size_t count = wanted - known < room ? wanted - known : room;
      convolve(dispatch, layer, reading, in, known, count, kept + slot * ring.lineSize, scratch);
      known += count;
    }
    for (std::size_t i = 0; i < rows; ++i, out += pool.outWidth * pool.channels) {
      poolLine<kKeepsNan>(dispatch, pool, activation, row + i, lineOf, out);
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_FUSION_H_
