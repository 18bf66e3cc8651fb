// convolution.h: convolutions as products of windows with packed filters, and the depthwise convolution.
#ifndef TFAOT_KERNELS_CONVOLUTION_H_
#define TFAOT_KERNELS_CONVOLUTION_H_

#include "products.h"

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

/// Sums over `kColumns` windows beside each other for `kWidth` vectors of channels from `channel` on; read(from) loads
/// one of these vectors.
template <int kColumns, int kWidth, class Read>
TFAOT_INLINE void sumDepthwise(const Conv2d& layer, const float* from, std::size_t lineStride, std::size_t channel,
                               Read read, Vector (&sums)[kColumns][kWidth]) {
  const Window& window = layer.window;
  const std::size_t right = window.strideWidth * window.channels;
  TFAOT_UNROLL
  for (int i = 0; i < kColumns; ++i) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      sums[i][v] = layer.bias == nullptr ? Vector{} : read(layer.bias + channel + v * kLanes);
    }
  }
  const float* weights = layer.weights + channel;
  for (std::size_t y = 0; y < window.height; ++y) {
    const float* tap = from + channel + y * window.dilationHeight * lineStride;
    for (std::size_t x = 0; x < window.width; ++x) {
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        Vector weight = read(weights + v * kLanes);
        keepInRegister(weight);
        TFAOT_UNROLL
        for (int i = 0; i < kColumns; ++i) {
          sums[i][v] = multiplyAdd(read(tap + i * right + v * kLanes), weight, sums[i][v]);
        }
      }
      tap += window.dilationWidth * window.channels;
      weights += window.channels;
    }
  }
}

/// `columns` windows beside each other, all channels.
template <int kColumns>
void convolveColumns(const Conv2d& layer, const float* from, std::size_t lineStride, float* out) {
  constexpr int kWidth = 2;
  const std::size_t channels = layer.window.channels;
  const auto each = [&](std::size_t channel, auto width, auto read, auto write) {
    constexpr int kVectorsAtATime = decltype(width)::value;
    Vector sums[kColumns][kVectorsAtATime];
    sumDepthwise<kColumns, kVectorsAtATime>(layer, from, lineStride, channel, read, sums);
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      TFAOT_UNROLL
      for (int v = 0; v < kVectorsAtATime; ++v) write(out + i * channels + channel + v * kLanes, sums[i][v]);
    }
  };
  const auto read = [](const float* data) { return load(data); };
  const auto write = [](float* data, Vector value) { store(data, value); };
  std::size_t channel = 0;
  for (; channel + kWidth * kLanes <= channels; channel += kWidth * kLanes) {
    each(channel, std::integral_constant<int, kWidth>{}, read, write);
  }
  if (channel + kLanes <= channels) {
    each(channel, std::integral_constant<int, 1>{}, read, write);
    channel += kLanes;
  }
  if (const std::size_t rest = channels - channel) {
    each(channel, std::integral_constant<int, 1>{}, [rest](const float* data) { return loadFirst(data, rest); },
         [rest](float* data, Vector value) { storeFirst(data, rest, value); });
  }
}

inline void convolveDepthwise(const Conv2d& layer, Seen seen, std::size_t lines, float* out) {
  constexpr int kColumns = 4;
  const Window& window = layer.window;
  for (std::size_t line = 0; line < lines; ++line, seen.data += window.strideHeight * seen.lineStride) {
    const float* from = seen.data;
    float* to = out;
    std::size_t columns = window.outWidth;
    for (; columns >= kColumns; columns -= kColumns) {
      convolveColumns<kColumns>(layer, from, seen.lineStride, to);
      from += kColumns * window.strideWidth * window.channels;
      to += kColumns * window.channels;
    }
    for (; columns > 0; --columns) {
      convolveColumns<1>(layer, from, seen.lineStride, to);
      from += window.strideWidth * window.channels;
      to += window.channels;
    }
    activateRow(layer.activation, out, window.outWidth * window.channels);
    out = to;
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
