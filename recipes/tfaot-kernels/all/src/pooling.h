// pooling.h: the largest value or the mean of windows over NHWC arrays.
#ifndef TFAOT_KERNELS_POOLING_H_
#define TFAOT_KERNELS_POOLING_H_

#include <limits>
#include <type_traits>

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The taps of a window in one direction that are not padding: `count` of them, from the input `first` on.
struct Taps {
  std::size_t first, count;

  /// Those of window number `place` over `size` inputs.
  Taps(std::size_t place, std::size_t stride, std::size_t kernel, std::size_t dilation, std::size_t padding,
       std::size_t size) {
    const std::size_t start = place * stride;  // in the padded input
    std::size_t begin = 0, end = kernel;
    while (begin < end && start + begin * dilation < padding) ++begin;
    while (begin < end && start + (end - 1) * dilation >= padding + size) --end;
    first = start + begin * dilation - padding;
    count = end - begin;
  }
};

inline Taps tapsOfLine(const Window& window, std::size_t line) {
  return {line, window.strideHeight, window.height, window.dilationHeight, window.padTop, window.inHeight};
}

inline Taps tapsOfColumn(const Window& window, std::size_t column) {
  return {column, window.strideWidth, window.width, window.dilationWidth, window.padLeft, window.inWidth};
}

/// Combines the inputs of windows line by line: those of one line with the result of the lines before it, or with `start`.
template <class Combine>
struct Pooling {
  float start;
  Combine combine;

  template <std::size_t kTaps>
  TFAOT_INLINE void line(const Window& window, const float* from, std::size_t places, std::size_t taps, bool isFirst,
                         float* out) const {
    const std::size_t channels = window.channels;
    const std::size_t right = window.dilationWidth * channels;
    const std::size_t whole = channels / kLanes * kLanes;
    const std::size_t rest = channels - whole;
    const auto combined = [&](Vector value, std::size_t c, auto read) {
      if (isFirst) value = broadcast(start);
      const float* tap = from + c;
      if constexpr (kTaps > 0) {
        TFAOT_UNROLL
        for (std::size_t t = 0; t < kTaps; ++t, tap += right) value = combine(value, read(tap));
      } else {
        for (std::size_t t = 0; t < taps; ++t, tap += right) value = combine(value, read(tap));
      }
      return value;
    };
    for (std::size_t place = 0; place < places; ++place) {
      for (std::size_t c = 0; c < whole; c += kLanes) {
        store(out + c, combined(load(out + c), c, [](const float* tap) { return load(tap); }));
      }
      if (rest > 0) {
        const auto read = [rest](const float* tap) { return loadFirst(tap, rest); };
        storeFirst(out + whole, rest, combined(read(out + whole), whole, read));
      }
      from += window.strideWidth * channels;
      out += channels;
    }
  }

  void places(const Window& window, const float* line, std::size_t column, std::size_t count, Taps taps, bool isFirst,
              float* out) const {
    const float* const from = line + taps.first * window.channels;
    float* const to = out + column * window.channels;
    if (taps.count == 2) return this->line<2>(window, from, count, 2, isFirst, to);
    if (taps.count == 3) return this->line<3>(window, from, count, 3, isFirst, to);
    this->line<0>(window, from, count, taps.count, isFirst, to);
  }

  /// One line of windows of 2 x 2 inputs without padding: the most frequent case.
  TFAOT_INLINE void squares(const Window& window, const float* upper, const float* lower, float* out) const {
    const std::size_t channels = window.channels;
    const std::size_t step = window.strideWidth * channels;
    const auto combined = [&](std::size_t c, auto read) {
      const Vector left = combine(combine(broadcast(start), read(upper + c)), read(upper + channels + c));
      return combine(combine(left, read(lower + c)), read(lower + channels + c));
    };
    for (std::size_t place = 0; place < window.outWidth; ++place, upper += step, lower += step, out += channels) {
      std::size_t c = 0;
      for (; c + kLanes <= channels; c += kLanes) {
        store(out + c, combined(c, [](const float* tap) { return load(tap); }));
      }
      if (const std::size_t rest = channels - c) {
        storeFirst(out + c, rest, combined(c, [rest](const float* tap) { return loadFirst(tap, rest); }));
      }
    }
  }

  /// One line of the output. lineOf(y) is the address of line y of the input.
  template <class LineOf>
  void operator()(const Window& window, std::size_t row, LineOf lineOf, float* out) const {
    const Taps rows = tapsOfLine(window, row);
    const bool isSquare = window.width == 2 && window.dilationWidth == 1 && rows.count == 2 && window.padLeft == 0;
    if (isSquare && (window.outWidth - 1) * window.strideWidth + 2 <= window.inWidth) {
      return squares(window, lineOf(rows.first), lineOf(rows.first + window.dilationHeight), out);
    }
    for (std::size_t y = 0; y == 0 || y < rows.count; ++y) {
      const float* const line = lineOf(rows.count > 0 ? rows.first + y * window.dilationHeight : 0);
      for (std::size_t column = 0; column < window.outWidth;) {
        Taps taps = tapsOfColumn(window, column);
        std::size_t count = 1;
        if (taps.count == window.width) {  // so have all windows up to the first one that contains padding again
          const std::size_t end = (window.inWidth + window.padLeft - 1 - (window.width - 1) * window.dilationWidth) /
                                  window.strideWidth + 1;
          count = (end < window.outWidth ? end : window.outWidth) - column;
        }
        if (rows.count == 0) taps.count = 0;
        places(window, line, column, count, taps, y == 0, out);
        column += count;
      }
    }
  }
};

// With arguments in this order, NaN is never the result.
struct Largest {
  TFAOT_INLINE Vector operator()(Vector known, Vector value) const { return larger(value, known); }
};

struct LargestOrNan {
  TFAOT_INLINE Vector operator()(Vector known, Vector value) const { return maximum(value, known); }
};

struct Sum {
  TFAOT_INLINE Vector operator()(Vector sum, Vector value) const { return sum + value; }
};

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();
template <bool kKeepsNan>
inline constexpr Pooling<std::conditional_t<kKeepsNan, LargestOrNan, Largest>> kLargest = {kLowest, {}};
inline constexpr Pooling<Sum> kSum = {0.0f, {}};

/// Divides the sums of one line of the output by the numbers of their values.
inline void divideByCounts(const Window& window, std::size_t row, float* out) {
  const std::size_t rows = tapsOfLine(window, row).count;
  for (std::size_t column = 0; column < window.outWidth; ++column, out += window.channels) {
    const Vector count = broadcast(static_cast<float>(rows * tapsOfColumn(window, column).count));
    std::size_t c = 0;
    for (; c + kLanes <= window.channels; c += kLanes) store(out + c, load(out + c) / count);
    if (const std::size_t rest = window.channels - c) storeFirst(out + c, rest, loadFirst(out + c, rest) / count);
  }
}

/// Calls visit(lineOf, row, out) for each line of the output of a batch.
template <class Visit>
TFAOT_INLINE void visitLines(const Window& window, std::size_t batch, const float* in, float* out, Visit visit) {
  const std::size_t line = window.inWidth * window.channels;
  for (std::size_t i = 0; i < batch; ++i, in += window.inHeight * line) {
    const auto lineOf = [&](std::size_t y) { return in + y * line; };
    for (std::size_t row = 0; row < window.outHeight; ++row, out += window.outWidth * window.channels) {
      visit(lineOf, row, out);
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_POOLING_H_
