// convolution.h: convolutions as products of windows with packed filters, and the depthwise convolution.
#ifndef TFAOT_KERNELS_CONVOLUTION_H_
#define TFAOT_KERNELS_CONVOLUTION_H_

#include "blocks.h"
#include "windows.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Whether each channel has one filter of its own and nothing is packed.
inline bool isDepthwise(const Conv2d& layer) {
  return layer.groups > 1 && layer.groups == layer.window.channels && layer.groups == layer.filters;
}

inline std::size_t windowSize(const Conv2d& layer) {
  return layer.window.height * layer.window.width * (layer.window.channels / layer.groups);
}

/// Whether rows of some windows are not in one piece in the input: padding, dilation or groups come between.
inline bool needsCopies(const Conv2d& layer) {
  const Window& window = layer.window;
  const auto reach = [](std::size_t size, std::size_t stride, std::size_t kernel, std::size_t dilation) {
    return (size - 1) * stride + (kernel - 1) * dilation + 1;
  };
  const bool inPieces = layer.groups > 1 || (window.dilationWidth > 1 && window.width > 1);
  return inPieces || window.padTop > 0 || window.padLeft > 0 ||
         reach(window.outHeight, window.strideHeight, window.height, window.dilationHeight) > window.inHeight ||
         reach(window.outWidth, window.strideWidth, window.width, window.dilationWidth) > window.inWidth;
}

/// Copies a window's channels from `channel` on, `depth` of them, with zeros where there is padding.
inline void copyWindow(const Window& window, const Place& place, std::size_t channel, std::size_t depth, float* to) {
  for (std::size_t y = 0; y < window.height; ++y) {
    for (std::size_t x = 0; x < window.width; ++x, to += depth) {
      if (const float* from = place.tap(window, y, x)) {
        std::memcpy(to, from + channel, depth * sizeof(float));
      } else {
        std::memset(to, 0, depth * sizeof(float));
      }
    }
  }
}

/// One group of a convolution: a product of windows (or copies of them) with the group's filters.
inline void convolveGroup(const Conv2d& layer, std::size_t group, std::size_t batch, const float* in, float* out,
                          float* scratch) {
  const Window& window = layer.window;
  const std::size_t depth = window.channels / layer.groups;
  const std::size_t columns = layer.filters / layer.groups;
  const std::size_t size = windowSize(layer);
  const Product product = {
      layer.weights + group * packedSize(size, columns),
      layer.bias == nullptr ? nullptr : layer.bias + group * columns,
      columns,
      size * kPanel,
      layer.activation,
      false,
      false,
  };
  const Segments segments = {window.height, window.width * depth};
  const bool inOnePiece = layer.groups == 1 && (window.dilationWidth == 1 || window.width == 1);
  const std::size_t stride = window.dilationHeight * window.inWidth * window.channels;
  const std::size_t places = batch * window.outHeight * window.outWidth;
  Place place(window, in);
  for (std::size_t first = 0; first < places; first += kRowsAtATime) {
    const std::size_t count = places - first < kRowsAtATime ? places - first : kRowsAtATime;
    Row rows[kRowsAtATime];
    for (std::size_t i = 0; i < count; ++i, place.advance(window)) {
      if (inOnePiece && place.isInside(window)) {
        rows[i] = {place.corner(window), stride};
      } else {
        copyWindow(window, place, group * depth, depth, scratch + i * size);
        rows[i] = {scratch + i * size, segments.length};
      }
    }
    multiply(product, segments, rows, count, {out + first * layer.filters + group * columns, layer.filters});
  }
}

inline constexpr float kNoInput[kChannelsAtATime] = {};

/// Sums over one window for kChannelsAtATime channels from `channel` on.
inline void depthwiseBlock(const Conv2d& layer, const Place& place, std::size_t channel, float* out) {
  Vector sums[kChannelVectors];
  TFAOT_UNROLL
  for (int v = 0; v < kChannelVectors; ++v) {
    sums[v] = layer.bias == nullptr ? Vector{} : load(layer.bias + channel + v * kLanes);
  }
  const float* weights = layer.weights + channel;
  visitTaps(layer.window, place, [&](const float* tap) {
    const float* from = tap == nullptr ? kNoInput : tap + channel;
    TFAOT_UNROLL
    for (int v = 0; v < kChannelVectors; ++v) sums[v] += load(from + v * kLanes) * load(weights + v * kLanes);
    weights += layer.window.channels;
  });
  TFAOT_UNROLL
  for (int v = 0; v < kChannelVectors; ++v) store(out + channel + v * kLanes, sums[v]);
}

/// The channels that do not fill a block, one by one.
inline void depthwiseRest(const Conv2d& layer, const Place& place, std::size_t channel, float* out) {
  const Window& window = layer.window;
  for (; channel < window.channels; ++channel) {
    float sum = layer.bias == nullptr ? 0.0f : layer.bias[channel];
    const float* weight = layer.weights + channel;
    visitTaps(window, place, [&](const float* tap) {
      sum += (tap == nullptr ? 0.0f : tap[channel]) * *weight;
      weight += window.channels;
    });
    out[channel] = sum;
  }
}

inline void convolveDepthwise(const Conv2d& layer, std::size_t batch, const float* in, float* out) {
  const Window& window = layer.window;
  Place place(window, in);
  const std::size_t places = batch * window.outHeight * window.outWidth;
  for (std::size_t i = 0; i < places; ++i, out += window.channels, place.advance(window)) {
    std::size_t channel = 0;
    for (; channel + kChannelsAtATime <= window.channels; channel += kChannelsAtATime) {
      depthwiseBlock(layer, place, channel, out);
    }
    depthwiseRest(layer, place, channel, out);
    activateRow(layer.activation, out, window.channels);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_CONVOLUTION_H_
