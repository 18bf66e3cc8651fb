// convolution.h: convolutions as products of windows with packed filters, and the depthwise convolution.
#ifndef TFAOT_KERNELS_CONVOLUTION_H_
#define TFAOT_KERNELS_CONVOLUTION_H_

#include "blocks.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Whether each channel has one filter of its own and nothing is packed.
inline bool isDepthwise(const Conv2d& layer) {
  return layer.groups > 1 && layer.groups == layer.window.channels && layer.groups == layer.filters;
}

inline std::size_t windowSize(const Conv2d& layer) {
  return layer.window.height * layer.window.width * (layer.window.channels / layer.groups);
}

/// The part of an image that some windows see, all of it inputs: the image itself, or a copy between zeros.
struct Seen {
  const float* data;       ///< what the first window begins with
  std::size_t lineStride;  ///< floats from line to line
};

/// Copies what `count` lines of windows from `line` on see of an image, zeros where there is padding.
inline void copyPadded(const Window& window, const Reading& reading, const float* image, std::size_t line,
                       std::size_t count, float* to) {
  const std::size_t lines = (count - 1) * window.strideHeight + reading.lines;
  const std::size_t left = window.padLeft < reading.columns ? window.padLeft : reading.columns;
  const std::size_t there = reading.columns - left < window.inWidth ? reading.columns - left : window.inWidth;
  const std::size_t right = reading.columns - left - there;
  const auto fill = [&](std::size_t columns) {
    std::memset(to, 0, columns * window.channels * sizeof(float));
    to += columns * window.channels;
  };
  for (std::size_t i = 0; i < lines; ++i) {
    const std::size_t y = line * window.strideHeight + i - window.padTop;  // wraps around above the image
    if (y >= window.inHeight) {
      fill(reading.columns);
      continue;
    }
    fill(left);
    std::memcpy(to, image + y * window.inWidth * window.channels, there * window.channels * sizeof(float));
    to += there * window.channels;
    fill(right);
  }
}

/// One group's filters, and where their windows' inputs lie.
inline Product productOf(const Conv2d& layer, std::size_t group, std::size_t lineStride) {
  const Window& window = layer.window;
  const std::size_t depth = window.channels / layer.groups;
  const std::size_t columns = layer.filters / layer.groups;
  const std::size_t size = windowSize(layer);
  const bool inLines = layer.groups == 1 && (window.dilationWidth == 1 || window.width == 1);
  Segments segments = {inLines ? window.width * depth : depth};
  if (!inLines) segments.width = window.width;
  segments.height = window.height;
  segments.right = window.dilationWidth * window.channels;
  segments.down = window.dilationHeight * lineStride;
  return {layer.weights + group * packedSize(size, columns),
          layer.bias == nullptr ? nullptr : layer.bias + group * columns,
          columns,
          size * kPanel,
          segments,
          layer.activation,
          false};
}

/// `lines` lines of windows, all of one group.
inline void convolveGroup(const Conv2d& layer, std::size_t group, Seen seen, std::size_t lines, float* out) {
  const Window& window = layer.window;
  const Product product = productOf(layer, group, seen.lineStride);
  const std::size_t right = window.strideWidth * window.channels;
  const std::size_t down = window.strideHeight * seen.lineStride;
  const float* line = seen.data + group * (window.channels / layer.groups);
  const float* from = line;
  std::size_t left = window.outWidth;  // windows of this line
  std::size_t places = lines * window.outWidth;
  out += group * product.columns;
  while (places > 0) {
    const std::size_t count = places < kRowsAtATime ? places : kRowsAtATime;
    const float* rows[kRowsAtATime];
    for (std::size_t i = 0; i < count;) {
      const std::size_t end = i + left < count ? i + left : count;
      left -= end - i;
      for (; i < end; ++i, from += right) rows[i] = from;
      if (left == 0) {
        left = window.outWidth;
        line += down;
        from = line;
      }
    }
    multiply(product, rows, count, {out, layer.filters});
    out += count * layer.filters;
    places -= count;
  }
}

/// Channels of a depthwise convolution that are held in registers, and vectors of these.
inline constexpr std::size_t kChannelsAtATime = 2 * kPanel;
inline constexpr int kChannelVectors = 2 * kVectors;

/// Sums over one window for kChannelsAtATime channels from `channel` on.
inline void depthwiseBlock(const Conv2d& layer, const float* from, std::size_t lineStride, std::size_t channel,
                           float* out) {
  Vector sums[kChannelVectors];
  TFAOT_UNROLL
  for (int v = 0; v < kChannelVectors; ++v) {
    sums[v] = layer.bias == nullptr ? Vector{} : load(layer.bias + channel + v * kLanes);
  }
  const Window& window = layer.window;
  const float* weights = layer.weights + channel;
  for (std::size_t y = 0; y < window.height; ++y) {
    const float* tap = from + channel + y * window.dilationHeight * lineStride;
    for (std::size_t x = 0; x < window.width; ++x, tap += window.dilationWidth * window.channels) {
      TFAOT_UNROLL
      for (int v = 0; v < kChannelVectors; ++v) sums[v] += load(tap + v * kLanes) * load(weights + v * kLanes);
      weights += window.channels;
    }
  }
  TFAOT_UNROLL
  for (int v = 0; v < kChannelVectors; ++v) store(out + channel + v * kLanes, sums[v]);
}

/// The channels that do not fill a block, one by one.
inline void depthwiseRest(const Conv2d& layer, const float* from, std::size_t lineStride, std::size_t channel,
                          float* out) {
  const Window& window = layer.window;
  for (; channel < window.channels; ++channel) {
    float sum = layer.bias == nullptr ? 0.0f : layer.bias[channel];
    const float* weight = layer.weights + channel;
    for (std::size_t y = 0; y < window.height; ++y) {
      const float* tap = from + channel + y * window.dilationHeight * lineStride;
      for (std::size_t x = 0; x < window.width; ++x, tap += window.dilationWidth * window.channels) {
        sum += *tap * *weight;
        weight += window.channels;
      }
    }
    out[channel] = sum;
  }
}

inline void convolveDepthwise(const Conv2d& layer, Seen seen, std::size_t lines, float* out) {
  const Window& window = layer.window;
  for (std::size_t line = 0; line < lines; ++line, seen.data += window.strideHeight * seen.lineStride) {
    const float* from = seen.data;
    for (std::size_t x = 0; x < window.outWidth; ++x, from += window.strideWidth * window.channels) {
      std::size_t channel = 0;
      for (; channel + kChannelsAtATime <= window.channels; channel += kChannelsAtATime) {
        depthwiseBlock(layer, from, seen.lineStride, channel, out);
      }
      depthwiseRest(layer, from, seen.lineStride, channel, out);
      activateRow(layer.activation, out, window.channels);
      out += window.channels;
    }
  }
}

/// `count` lines of one image's output, from `line` on, to `out`.
inline void convolveLines(const Conv2d& layer, const Reading& reading, const float* image, std::size_t line,
                          std::size_t count, float* out, float* scratch) {
  const Window& window = layer.window;
  while (count > 0) {
    const std::size_t lines = count < reading.linesAtATime ? count : reading.linesAtATime;
    const std::size_t lineStride = (reading.padded ? reading.columns : window.inWidth) * window.channels;
    Seen seen = {scratch, lineStride};
    if (reading.padded) {
      copyPadded(window, reading, image, line, lines, scratch);
    } else {
      seen.data = image + line * window.strideHeight * lineStride;
    }
    if (isDepthwise(layer)) {
      convolveDepthwise(layer, seen, lines, out);
    } else {
      for (std::size_t group = 0; group < layer.groups; ++group) convolveGroup(layer, group, seen, lines, out);
    }
    line += lines;
    count -= lines;
    out += lines * window.outWidth * layer.filters;
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_CONVOLUTION_H_
