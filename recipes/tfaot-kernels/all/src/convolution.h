// convolution.h: convolutions as products of windows with packed filters, and the depthwise convolution.
#ifndef TFAOT_KERNELS_CONVOLUTION_H_
#define TFAOT_KERNELS_CONVOLUTION_H_

#include <limits>

#include "places.h"
#include "products.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The inputs of some windows, without padding: the image itself, or a copy with zeros around it.
struct Seen {
  const float* data;       ///< the first input of the first window
  std::size_t lineStride;  ///< floats from line to line
};

/// How many columns of a line of windows' inputs are padding on the left, in the image, and padding on the right.
struct Between {
  std::size_t left, there, right;

  Between(const Window& window, const Reading& reading) {
    left = window.padLeft < reading.columns ? window.padLeft : reading.columns;
    there = reading.columns - left < window.inWidth ? reading.columns - left : window.inWidth;
    right = reading.columns - left - there;
  }
};

/// Writes `count` floats, which read(i) gives by vectors from number i on, and returns where they end. Lines of images are
/// often too short for a call of memcpy.
template <class Read>
TFAOT_INLINE float* write(float* to, std::size_t count, Read read) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, read(i, kLanes));
  if (i < count) storeFirst(to + i, count - i, read(i, count - i));
  return to + count;
}

/// Not inlined: three copies took half a kilobyte.
TFAOT_ALONE inline float* writeZeros(float* to, std::size_t count) {
  return write(to, count, [](std::size_t, std::size_t) { return zeros(); });
}

/// Copies the inputs of `count` lines of windows from `line` on, with zeros for padding.
inline void copyPadded(const Window& window, const Reading& reading, const float* image, std::size_t line,
                       std::size_t count, float* to) {
  const std::size_t lines = (count - 1) * window.strideHeight + reading.lines;
  const Between part(window, reading);
  const auto fill = [&](std::size_t columns) {
    if (columns > 0) to = writeZeros(to, columns * window.channels);
  };
  for (std::size_t i = 0; i < lines; ++i) {
    const std::size_t y = line * window.strideHeight + i - window.padTop;  // wraps above the image, to a large number
    if (y >= window.inHeight) {
      fill(reading.columns);
      continue;
    }
    fill(part.left);
    const float* const from = image + y * window.inWidth * window.channels;
    to = write(to, part.there * window.channels, [&](std::size_t done, std::size_t left) {
      return left < kLanes ? loadFirst(from + done, left) : load(from + done);
    });
    fill(part.right);
  }
}

/// One group's filters, and the positions of their windows' inputs.
inline Product productOf(const Dispatch& dispatch, const Conv2d& layer, std::size_t group, std::size_t lineStride) {
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
          false,
          &dispatch};
}

/// The pixels of all images of a pointwise convolution as one line, because small images do not fill a block.
inline Conv2d asOneLine(const Conv2d& layer, std::size_t batch) {
  Conv2d line = layer;
  line.window.inWidth = line.window.outWidth = batch * layer.window.inHeight * layer.window.inWidth;
  line.window.inHeight = line.window.outHeight = 1;
  return line;
}

/// `places` windows of one group, from window `first` on. `out` is the place of window 0.
inline void convolveWindows(const Product& product, const Conv2d& layer, std::size_t group, Seen seen, std::size_t first,
                            std::size_t places, float* out) {
  const Window& window = layer.window;
  const std::size_t right = window.strideWidth * window.channels;
  const std::size_t down = window.strideHeight * seen.lineStride;
  const float* line = seen.data + group * (window.channels / layer.groups) + first / window.outWidth * down;
  const float* from = line + first % window.outWidth * right;
  std::size_t left = window.outWidth - first % window.outWidth;  // windows of this line
  const std::size_t most = rowsAtATime(product.extent().inputs);
  out += group * product.columns + first * layer.filters;
  while (places > 0) {
    const std::size_t count = places < most ? places : most;
    const float* rows[kMostRowsAtATime];
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

/// The sums of `kColumns` adjacent windows for `kWidth` vectors of channels from `channel` on; read(from) loads one of these
/// vectors.
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

/// `kColumns` adjacent windows, all channels.
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

/// Which inputs of some windows lie in a line of the image: those of places from `first` up to `end`. The others are padding.
struct Inside {
  std::ptrdiff_t begin;  ///< the column of place 0, negative if that is padding
  std::ptrdiff_t first, end;

  /// For windows from output column `place` on.
  Inside(const Window& window, std::size_t place)
      : begin(static_cast<std::ptrdiff_t>(place * window.strideWidth) - static_cast<std::ptrdiff_t>(window.padLeft)),
        first(begin < 0 ? -begin : 0), end(static_cast<std::ptrdiff_t>(window.inWidth) - begin) {}
};

/// Adds one line of inputs, which begins at `line`, to the sums of `kColumns` adjacent windows, for one vector of channels:
/// each input is loaded once for all windows that contain it.
template <int kColumns, int kTaps, int kStride>
TFAOT_INLINE void addLine(const float* line, const Inside& inside, const float* weights, std::size_t channels,
                          Vector (&sums)[kColumns]) {
  constexpr int kPlaces = (kColumns - 1) * kStride + kTaps;
  Vector weight[kTaps];
  TFAOT_UNROLL
  for (int x = 0; x < kTaps; ++x) {
    weight[x] = load(weights + x * channels);
    keepInRegister(weight[x]);
  }
  const float* group = line + inside.begin * static_cast<std::ptrdiff_t>(channels);
  TFAOT_UNROLL_LONG
  for (int place = 0; place < kPlaces; ++place) {
    if (place > 0 && place % 4 == 0) group += 4 * channels;
    keepInRegister(group);
    const float* from = group + place % 4 * channels;
    // On either side fewer columns are padding than a window has, see `convolvingOf`.
    if (place + 1 < kTaps && place < inside.first) from = kZeros;
    if (place > kPlaces - kTaps && place >= inside.end) from = kZeros;
    Vector input = load(from);
    keepInRegister(input);
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      const int x = place - i * kStride;
      if (x >= 0 && x < kTaps) sums[i] = multiplyAdd(input, weight[x], sums[i]);
    }
  }
}

/// The inputs of one line of windows: the address of each line in the image, or of zeros.
struct SeenLines {
  const float* lines[kMostTapLines];
};

/// `kColumns` adjacent windows from output column `place` on, all channels, at least kLanes of them. The last vector may
/// overlap the one before: then some sums are computed twice.
template <int kColumns, int kTaps, int kStride>
void convolveTaps(const Conv2d& layer, const SeenLines& seen, std::size_t place, float* out) {
  const Window& window = layer.window;
  const std::size_t channels = window.channels;
  const bool isBounded = isBounds(layer.activation), isClip = layer.activation == Activation::clip;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Vector low = isBounded && !isClip ? zeros() : broadcast(isClip ? layer.activation.low : -kInfinity);
  const Vector high = broadcast(isClip ? layer.activation.high : kInfinity);
  const Inside inside(window, place);
  out += place * channels;
  for (std::size_t next = 0; next < channels; next += kLanes) {
    const std::size_t channel = next + kLanes <= channels ? next : channels - kLanes;
    Vector sums[kColumns];
    const Vector bias = layer.bias == nullptr ? Vector{} : load(layer.bias + channel);
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i) sums[i] = bias;
    const float* weights = layer.weights + channel;
    for (std::size_t y = 0; y < window.height; ++y, weights += kTaps * channels) {
      addLine<kColumns, kTaps, kStride>(seen.lines[y] + channel, inside, weights, channels, sums);
    }
    float* to = out + channel;
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i, to += channels) store(to, smaller(high, larger(low, sums[i])));
  }
}

/// One line of windows of `kTaps` columns, at least kFewColumns of them. Some of the last ones may be computed twice.
template <int kTaps, int kStride>
void convolveLineOfTaps(const Dispatch& dispatch, const Conv2d& layer, const SeenLines& seen, float* out) {
  constexpr std::size_t kManyColumns = 2 * kFewColumns;
  const std::size_t channels = layer.window.channels, width = layer.window.outWidth;
  for (std::size_t done = 0; done < width;) {
    const std::size_t left = width - done;
    const bool isMany = left > kFewColumns && width >= kManyColumns;
    const std::size_t count = isMany ? kManyColumns : kFewColumns;
    const std::size_t place = left < count ? width - count : done;
    if (isMany) {
      convolveTaps<kManyColumns, kTaps, kStride>(layer, seen, place, out);
    } else {
      convolveTaps<kFewColumns, kTaps, kStride>(layer, seen, place, out);
    }
    done = place + count;
  }
  if (!isBounds(layer.activation)) activateRow(dispatch, layer.activation, out, width * channels);
}

/// `count` lines of one image's output, from `line` on. Lines of padding are not copied: they all point to zeros in `scratch`.
inline void convolveTapLines(const Dispatch& dispatch, const Conv2d& layer, const Reading& reading, const float* image,
                             std::size_t line, std::size_t count, float* out, float* scratch) {
  const Window& window = layer.window;
  const TapLine convolve = dispatch.taps[window.width / 2 - 1][window.strideWidth - 1];
  const std::size_t step = window.outWidth * window.channels, size = window.inWidth * window.channels;
  if (reading.padded) std::memset(scratch, 0, reading.columns * window.channels * sizeof(float));
  SeenLines seen;
  for (const std::size_t last = line + count; line < last; ++line, out += step) {
    for (std::size_t y = 0; y < window.height; ++y) {
      const std::size_t place = line * window.strideHeight + y * window.dilationHeight - window.padTop;
      seen.lines[y] = place < window.inHeight ? image + place * size : scratch;  // `place` wraps above the image
    }
    convolve(dispatch, layer, seen, out);
  }
}

/// Depthwise convolutions with windows of any kind.
inline void convolveDepthwise(const Dispatch& dispatch, const Conv2d& layer, Seen seen, std::size_t lines, float* out) {
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
    activateRow(dispatch, layer.activation, out, window.outWidth * window.channels);
    out = to;
  }
}

/// The inputs of `count` lines of windows from `line` on: if the input is padded, a copy of them in `scratch`.
inline Seen seenLines(const Window& window, const Reading& reading, const float* image, std::size_t line, std::size_t count,
                      float* scratch) {
  const std::size_t lineStride = (reading.padded ? reading.columns : window.inWidth) * window.channels;
  if (!reading.padded) return {image + line * window.strideHeight * lineStride, lineStride};
  copyPadded(window, reading, image, line, count, scratch);
  return {scratch, lineStride};
}

/// `count` lines of one image's output, from `line` on, to `out`.
template <Convolving kConvolving>
void convolveLines(const Dispatch& dispatch, const Conv2d& layer, const Reading& reading, const float* image,
                   std::size_t line, std::size_t count, float* out, float* scratch) {
  if constexpr (kConvolving == convolving_taps) return convolveTapLines(dispatch, layer, reading, image, line, count, out, scratch);
  if constexpr (kConvolving == convolving_places) {
    return convolvePlaces(dispatch, layer, Planes(layer, false), image, line, count, out, scratch);
  }
  const Window& window = layer.window;
  while (count > 0) {
    const std::size_t lines = count < reading.linesAtATime ? count : reading.linesAtATime;
    const Seen seen = seenLines(window, reading, image, line, lines, scratch);
    if constexpr (kConvolving == convolving_channels) {
      convolveDepthwise(dispatch, layer, seen, lines, out);
    } else {
      for (std::size_t group = 0; group < layer.groups; ++group) {
        const Product product = productOf(dispatch, layer, group, seen.lineStride);
        convolveWindows(product, layer, group, seen, 0, lines * window.outWidth, out);
      }
    }
    line += lines;
    count -= lines;
    out += lines * window.outWidth * layer.filters;
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_CONVOLUTION_H_
