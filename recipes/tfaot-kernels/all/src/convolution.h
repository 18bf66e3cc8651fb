// convolution.h: convolutions as products of windows with packed filters, and the depthwise convolution.
#ifndef TFAOT_KERNELS_CONVOLUTION_H_
#define TFAOT_KERNELS_CONVOLUTION_H_

#include <limits>

#include "products.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The part of an image that some windows see, all of it inputs: the image itself, or a copy between zeros.
struct Seen {
  const float* data;       ///< what the first window begins with
  std::size_t lineStride;  ///< floats from line to line
};

/// The part of a line of the image that lies between its padding, in columns of what a line of windows sees.
struct Between {
  std::size_t left, there, right;

  Between(const Window& window, const Reading& reading) {
    left = window.padLeft < reading.columns ? window.padLeft : reading.columns;
    there = reading.columns - left < window.inWidth ? reading.columns - left : window.inWidth;
    right = reading.columns - left - there;
  }
};

/// Copies what `count` lines of windows from `line` on see of an image, zeros where there is padding.
inline void copyPadded(const Window& window, const Reading& reading, const float* image, std::size_t line,
                       std::size_t count, float* to) {
  const std::size_t lines = (count - 1) * window.strideHeight + reading.lines;
  const Between part(window, reading);
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
    fill(part.left);
    std::memcpy(to, image + y * window.inWidth * window.channels, part.there * window.channels * sizeof(float));
    to += part.there * window.channels;
    fill(part.right);
  }
}

/// One group's filters, and where their windows' inputs lie.
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

/// `lines` lines of windows, all of one group.
inline void convolveGroup(const Dispatch& dispatch, const Conv2d& layer, std::size_t group, Seen seen, std::size_t lines,
                          float* out) {
  const Window& window = layer.window;
  const Product product = productOf(dispatch, layer, group, seen.lineStride);
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

/// Adds up `kColumns` windows beside each other, one vector of channels, whose inputs in one line begin at `from`: each
/// input is loaded once for all windows that see it.
template <int kColumns, int kTaps, int kStride>
TFAOT_INLINE void addLine(const float* from, const float* weights, std::size_t channels, Vector (&sums)[kColumns]) {
  Vector weight[kTaps];
  TFAOT_UNROLL
  for (int x = 0; x < kTaps; ++x) {
    weight[x] = load(weights + x * channels);
    keepInRegister(weight[x]);
  }
  TFAOT_UNROLL
  for (int place = 0; place < (kColumns - 1) * kStride + kTaps; ++place, from += channels) {
    Vector input = load(from);
    keepInRegister(input);
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i) {
      const int x = place - i * kStride;
      if (x >= 0 && x < kTaps) sums[i] = multiplyAdd(input, weight[x], sums[i]);
    }
  }
}

/// What the windows of one line see: where each line of them begins.
struct SeenLines {
  const float* lines[kMostTapLines];
};

/// `kColumns` windows beside each other from column `column` of the input on, all channels, at least kLanes of them. The
/// last vector may begin within the one before: then some sums are made twice.
template <int kColumns, int kTaps, int kStride>
void convolveTaps(const Conv2d& layer, const SeenLines& seen, std::size_t column, float* out) {
  const Window& window = layer.window;
  const std::size_t channels = window.channels;
  const bool isBounded = isBounds(layer.activation), isClip = layer.activation == Activation::clip;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Vector low = isBounded && !isClip ? zeros() : broadcast(isClip ? layer.activation.low : -kInfinity);
  const Vector high = broadcast(isClip ? layer.activation.high : kInfinity);
  for (std::size_t next = 0; next < channels; next += kLanes) {
    const std::size_t channel = next + kLanes <= channels ? next : channels - kLanes;
    Vector sums[kColumns];
    const Vector bias = layer.bias == nullptr ? Vector{} : load(layer.bias + channel);
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i) sums[i] = bias;
    const float* weights = layer.weights + channel;
    for (std::size_t y = 0; y < window.height; ++y, weights += kTaps * channels) {
      addLine<kColumns, kTaps, kStride>(seen.lines[y] + column * channels + channel, weights, channels, sums);
    }
    float* to = out + channel;
    TFAOT_UNROLL
    for (int i = 0; i < kColumns; ++i, to += channels) store(to, smaller(high, larger(low, sums[i])));
  }
}

/// One line of windows of `kTaps` columns, at least kFewColumns of them. The last ones may be made twice.
template <int kTaps, int kStride>
void convolveLineOfTaps(const Dispatch& dispatch, const Conv2d& layer, const SeenLines& seen, float* out) {
  // With a stride few windows see the same input; and more columns were not unrolled.
  constexpr std::size_t kManyColumns = kStride == 1 ? 2 * kFewColumns : kFewColumns;
  const std::size_t channels = layer.window.channels, width = layer.window.outWidth;
  for (std::size_t done = 0; done < width;) {
    const std::size_t left = width - done;
    const bool isMany = left > kFewColumns && width >= kManyColumns;
    const std::size_t count = isMany ? kManyColumns : kFewColumns;
    const std::size_t place = left < count ? width - count : done;
    if (isMany) {
      convolveTaps<kManyColumns, kTaps, kStride>(layer, seen, place * kStride, out + place * channels);
    } else {
      convolveTaps<kFewColumns, kTaps, kStride>(layer, seen, place * kStride, out + place * channels);
    }
    done = place + count;
  }
  if (!isBounds(layer.activation)) activateRow(dispatch, layer.activation, out, width * channels);
}

/// Lines of a padded image between zeros, as many as one line of windows sees, each copied once. So they stay in the
/// first cache.
class PaddedLines {
 public:
  /// `first` is the first line, counted from the padding on.
  PaddedLines(const Window& window, const Reading& reading, const float* image, std::size_t first, float* kept)
      : window_(window), part_(window, reading), image_(image), kept_(kept), lines_(reading.lines),
        size_(reading.columns * window.channels), known_(first), first_(first) {
    std::memset(kept, 0, lines_ * size_ * sizeof(float));
  }

  /// Moves on to the lines from `first` on.
  void move(std::size_t first) {
    for (; first_ < first; ++first_) begin_ = begin_ + 1 < lines_ ? begin_ + 1 : 0;
    if (known_ < first) {  // a stride longer than the window leaves lines out
      known_ = first;
      next_ = begin_;
    }
    for (; known_ < first + lines_; ++known_) {
      const std::size_t y = known_ - window_.padTop;  // wraps around above the image
      float* const to = kept_ + next_ * size_;
      if (y < window_.inHeight) {  // zeros lie left and right
        const std::size_t line = window_.inWidth * window_.channels;
        std::memcpy(to + part_.left * window_.channels, image_ + y * line, part_.there * window_.channels * sizeof(float));
      } else {
        std::memset(to, 0, size_ * sizeof(float));
      }
      next_ = next_ + 1 < lines_ ? next_ + 1 : 0;
    }
  }

  /// Line `y` of those that a line of windows sees.
  const float* operator[](std::size_t y) const {
    const std::size_t place = begin_ + y;
    return kept_ + (place < lines_ ? place : place - lines_) * size_;
  }

 private:
  const Window& window_;
  Between part_;
  const float* image_;
  float* kept_;
  std::size_t lines_, size_;
  std::size_t known_, next_ = 0;   ///< the next line to be copied, and its place among those that are kept
  std::size_t first_, begin_ = 0;  ///< the first line that is seen, and its place
};

/// `count` lines of one image's output, from `line` on.
inline void convolveTapLines(const Dispatch& dispatch, const Conv2d& layer, const Reading& reading, const float* image,
                             std::size_t line, std::size_t count, float* out, float* scratch) {
  const Window& window = layer.window;
  const TapLine convolve = dispatch.taps[window.width / 2 - 1][window.strideWidth - 1];
  const std::size_t step = window.outWidth * window.channels;
  SeenLines seen;
  if (!reading.padded) {
    const std::size_t size = window.inWidth * window.channels;
    for (const std::size_t last = line + count; line < last; ++line, out += step) {
      const float* const first = image + line * window.strideHeight * size;
      for (std::size_t y = 0; y < window.height; ++y) seen.lines[y] = first + y * window.dilationHeight * size;
      convolve(dispatch, layer, seen, out);
    }
    return;
  }
  PaddedLines lines(window, reading, image, line * window.strideHeight, scratch);
  for (const std::size_t last = line + count; line < last; ++line, out += step) {
    lines.move(line * window.strideHeight);
    for (std::size_t y = 0; y < window.height; ++y) seen.lines[y] = lines[y * window.dilationHeight];
    convolve(dispatch, layer, seen, out);
  }
}

/// Depthwise windows of any kind.
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

/// `count` lines of one image's output, from `line` on, to `out`.
template <Convolving kConvolving>
void convolveLines(const Dispatch& dispatch, const Conv2d& layer, const Reading& reading, const float* image,
                   std::size_t line, std::size_t count, float* out, float* scratch) {
  if constexpr (kConvolving == convolving_taps) return convolveTapLines(dispatch, layer, reading, image, line, count, out, scratch);
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
    if constexpr (kConvolving == convolving_channels) {
      convolveDepthwise(dispatch, layer, seen, lines, out);
    } else {
      for (std::size_t group = 0; group < layer.groups; ++group) convolveGroup(dispatch, layer, group, seen, lines, out);
    }
    line += lines;
    count -= lines;
    out += lines * window.outWidth * layer.filters;
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_CONVOLUTION_H_
