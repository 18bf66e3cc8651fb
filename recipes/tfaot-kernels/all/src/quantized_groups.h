// quantized_groups.h: convolutions of bytes whose filters see a part of the channels.
#ifndef TFAOT_KERNELS_QUANTIZED_GROUPS_H_
#define TFAOT_KERNELS_QUANTIZED_GROUPS_H_

#include "quantized_tiles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Lines of an image as groups of four pixels that follow one another, of the channels of a vector: a window reads a group of
/// taps by one load. A line is made once for all windows, by two shifts, because its groups overlap.
class LinesOfFours {
 public:
  LinesOfFours(const QuantizedConv2d& layer, std::uint32_t* memory)
      : layer_(layer),
        memory_(memory),
        columns_(columnsOfFours(layer.window)),
        number_(reach(layer.window.height, layer.window.dilationHeight)),
        flips_(broadcast(std::uint32_t{layer.product.flip})),
        padding_(broadcast(static_cast<std::uint32_t>(layer.padding ^ layer.product.flip))) {}

  /// Of `count` channels from `channel` on.
  void begin(const std::uint8_t* image, std::size_t channel, std::size_t count) {
    first_ = image + channel;
    count_ = count;
    next_ = 0;
  }

  /// Makes the lines that windows see whose first line, counted with padding, is `top`.
  void reachFrom(std::size_t top) {
    for (next_ = next_ < top ? top : next_; next_ < top + number_; ++next_) make(next_);
  }

  /// The place of a line among words of memory.
  std::size_t line(std::size_t number) const { return number % number_ * columns_ * kLanes; }

 private:
  Unsigned pixel(const std::uint8_t* of, std::size_t column) const {
    const Window& window = layer_.window;
    const std::size_t x = column - window.padLeft;  // modulo 2^64: what lies before the image is beyond its size
    if (x >= window.inWidth) return padding_;
    const std::uint8_t* const from = of + x * window.channels;
    return bitsAs<Unsigned>(count_ == kLanes ? widened(from) : widened(from, count_)) ^ flips_;
  }

  void make(std::size_t number) const {
    const Window& window = layer_.window;
    std::uint32_t* to = memory_ + line(number);
    const std::size_t y = number - window.padTop, apart = window.dilationWidth;
    if (y >= window.inHeight) {
      const Unsigned all = padding_ | padding_ << 8 | padding_ << 16 | padding_ << 24;
      for (std::size_t x = 0; x < columns_; ++x, to += kLanes) store(to, all);
      return;
    }
    const std::uint8_t* const from = first_ + y * window.inWidth * window.channels;
    if (apart == 1) {
      Unsigned fours = pixel(from, 0) << 8 | pixel(from, 1) << 16 | pixel(from, 2) << 24;
      for (std::size_t x = 0; x < columns_; ++x, to += kLanes) {
        fours = fours >> 8 | pixel(from, x + 3) << 24;
        store(to, fours);
      }
      return;
    }
    for (std::size_t x = 0; x < columns_; ++x, to += kLanes) {
      store(to, pixel(from, x) | pixel(from, x + apart) << 8 | pixel(from, x + 2 * apart) << 16 | pixel(from, x + 3 * apart) << 24);
    }
  }

  const QuantizedConv2d& layer_;
  std::uint32_t* const memory_;
  const std::size_t columns_, number_;
  const Unsigned flips_, padding_;
  const std::uint8_t* first_ = nullptr;
  std::size_t count_ = 0, next_ = 0;
};

/// Sums of `kPixels` windows of a line for a vector of channels: group `tap` of taps begins `places[tap]` words behind `from`.
/// `kTaps` groups have their weights in registers; if it is 0, `taps` says how many there are.
template <class Form, int kTaps, int kPixels>
TFAOT_INLINE void sumDepthwise(const std::uint32_t* from, const std::uint32_t* places, const typename Form::Weights* held,
                               const std::int8_t* weights, std::size_t step, std::size_t taps, std::size_t apart, Unsigned bias,
                               std::int32_t* out) {
  Unsigned sums[kPixels];
  TFAOT_UNROLL
  for (int p = 0; p < kPixels; ++p) sums[p] = bias;
  const auto add = [&](std::size_t tap, typename Form::Weights weight) {
    TFAOT_UNROLL
    for (int p = 0; p < kPixels; ++p) sums[p] = Form::add(sums[p], Form::lanes(load(from + places[tap] + p * apart)), weight);
  };
  if constexpr (kTaps > 0) {
    TFAOT_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) add(tap, held[tap]);
  } else {
    for (std::size_t tap = 0; tap < taps; ++tap) add(tap, Form::weights(weights + tap * step));
  }
  TFAOT_UNROLL
  for (int p = 0; p < kPixels; ++p) store(out + p * kLanes, bitsAs<Integers>(sums[p]));
}

/// One line of windows for a vector of channels.
template <class Form, int kTaps>
TFAOT_ALONE void lineDepthwise(const QuantizedConv2d& layer, const Finish& finish, const std::uint32_t* from,
                               const std::uint32_t* places, std::size_t channel, std::size_t count, char* out) {
  const Window& window = layer.window;
  const std::size_t step = panelsOf(window.channels) * kPanelOfFours, taps = window.height * foursOf(window.width);
  const std::size_t apart = window.strideWidth * kLanes, stride = bytesOfResult(layer.product);
  const std::int8_t* const weights = layer.product.weights + channel * 4;
  typename Form::Weights held[kTaps == 0 ? 1 : kTaps];
  if constexpr (kTaps > 0) {
    TFAOT_UNROLL
    for (int tap = 0; tap < kTaps; ++tap) held[tap] = Form::weights(weights + tap * step);
  }
  const Unsigned bias = bitsAs<Unsigned>(load(layer.product.bias + channel));
  constexpr int kPixels = 4;
  for (std::size_t x = 0, size; x < window.outWidth; x += size, from += size * apart) {
    alignas(64) std::int32_t sums[kPixels * kLanes];
    if (window.outWidth - x >= kPixels) {
      size = kPixels;
      sumDepthwise<Form, kTaps, kPixels>(from, places, held, weights, step, taps, apart, bias, sums);
    } else {
      size = 1;
      sumDepthwise<Form, kTaps, 1>(from, places, held, weights, step, taps, apart, bias, sums);
    }
    finish(sums, kLanes, size, channel, count, out, stride);
    out += size * stride;
  }
}

/// Channels apart, some at a time. Memory has the places of groups of taps, and then lines.
template <class Form>
inline void convolveDepthwise(const QuantizedConv2d& layer, std::size_t batch, const std::uint8_t* in, void* out,
                              std::uint32_t* scratch) {
  const Window& window = layer.window;
  const std::size_t channels = window.channels, across = foursOf(window.width), taps = window.height * across;
  const std::size_t stride = bytesOfResult(layer.product), sizeOfImage = window.inHeight * window.inWidth * channels;
  const Finish finish(layer.product, out);
  std::uint32_t* const memory = scratch + taps;
  LinesOfFours lines(layer, memory);
  for (auto* to = static_cast<char*>(out); batch > 0; --batch, in += sizeOfImage) {
    for (std::size_t channel = 0; channel < channels; channel += kLanes) {
      const std::size_t left = channels - channel, count = left < kLanes ? left : kLanes;
      lines.begin(in, channel, count);
      for (std::size_t y = 0; y < window.outHeight; ++y) {
        const std::size_t top = y * window.strideHeight;
        lines.reachFrom(top);
        for (std::size_t tap = 0; tap < taps; ++tap) {
          const std::size_t place = lines.line(top + tap / across * window.dilationHeight);
          scratch[tap] = static_cast<std::uint32_t>(place + tap % across * 4 * window.dilationWidth * kLanes);
        }
        char* const line = to + y * window.outWidth * stride;
        if (taps == 3) {
          lineDepthwise<Form, 3>(layer, finish, memory, scratch, channel, count, line);
        } else {
          lineDepthwise<Form, 0>(layer, finish, memory, scratch, channel, count, line);
        }
      }
    }
    to += window.outHeight * window.outWidth * stride;
  }
}

/// Copies what a window sees of `size` channels from `channel` on.
inline void copyWindowOfGroup(const QuantizedConv2d& layer, const std::uint8_t* image, std::size_t y, std::size_t x,
                              std::size_t channel, std::size_t size, std::uint8_t* to) {
  const Window& window = layer.window;
  for (std::size_t i = 0; i < window.height; ++i) {
    const std::size_t line = y * window.strideHeight + i * window.dilationHeight - window.padTop;  // modulo 2^64
    for (std::size_t j = 0; j < window.width; ++j, to += size) {
      const std::size_t column = x * window.strideWidth + j * window.dilationWidth - window.padLeft;
      if (line < window.inHeight && column < window.inWidth) {
        copyBytes(to, image + (line * window.inWidth + column) * window.channels + channel, size);
      } else {
        std::memset(to, layer.padding, size);
      }
    }
  }
}

/// Sums of `kPixels` windows of a line for a vector of filters; their first channels are at `from`.
template <class Form, int kPixels>
TFAOT_ALONE void sumGroup(const Window& window, std::size_t sizeOfLine, std::size_t size, const std::uint8_t* from,
                          const std::int8_t* weights, const std::int32_t* bias, std::int32_t* out) {
  const std::size_t apart = window.strideWidth * window.channels;
  Unsigned sums[kPixels];
  TFAOT_UNROLL
  for (int p = 0; p < kPixels; ++p) sums[p] = bitsAs<Unsigned>(load(bias));
  for (std::size_t i = 0; i < window.height; ++i) {
    const std::uint8_t* tap = from + i * window.dilationHeight * sizeOfLine;
    for (std::size_t j = 0; j < window.width; ++j, tap += window.dilationWidth * window.channels) {
      for (std::size_t c = 0; c < size; c += 4, weights += kPanelOfFours) {
        const typename Form::Weights weight = Form::weights(weights);
        TFAOT_UNROLL
        for (int p = 0; p < kPixels; ++p) {
          std::uint32_t four;
          std::memcpy(&four, tap + c + p * apart, sizeof four);
          sums[p] = Form::add(sums[p], Form::lanes(broadcast(four)), weight);
        }
      }
    }
  }
  TFAOT_UNROLL
  for (int p = 0; p < kPixels; ++p) store(out + p * kLanes, bitsAs<Integers>(sums[p]));
}

/// Groups of multiples of four channels, which are read where they lie, between padding.
template <class Form>
inline void convolveGroupsInPlace(const QuantizedConv2d& layer, std::size_t groups, std::size_t batch, const std::uint8_t* in,
                                  void* out, std::uint32_t* scratch) {
  const Window& window = layer.window;
  const CopiedBand bytes = bandOfBytes(window);
  const CopiedLines band(layer, bytes.columns, reinterpret_cast<std::uint8_t*>(scratch));
  const std::size_t outputs = layer.product.outputs / groups, size = window.channels / groups, panels = panelsOf(outputs);
  const std::size_t fours = foursOf(layer.product.inputs), stride = bytesOfResult(layer.product);
  const std::size_t apart = window.strideWidth * window.channels;
  QuantizedDense product = layer.product;
  const Finish finish(product, out);
  auto* to = static_cast<char*>(out);
  for (; batch > 0; --batch, in += window.inHeight * window.inWidth * window.channels) {
    for (std::size_t first = 0, lines; first < window.outHeight; first += lines) {
      lines = window.outHeight - first < bytes.lines ? window.outHeight - first : bytes.lines;
      band.copy(in, first, lines);
      for (std::size_t group = 0; group < groups; ++group) {
        const std::size_t column = group * panels * kPanel;
        product.scales = layer.product.scales == nullptr ? nullptr : layer.product.scales + column;
        for (std::size_t v = 0; v * kLanes < outputs; ++v) {
          const std::int8_t* const weights = layer.product.weights + group * sizeOfGroup(layer.product.inputs, outputs) +
                                             v / kVectors * fours * kPanelOfFours + v % kVectors * kLanes * 4;
          const std::int32_t* const bias = layer.product.bias + column + v * kLanes;
          const std::size_t left = outputs - v * kLanes, count = left < kLanes ? left : kLanes;
          for (std::size_t y = 0; y < lines; ++y) {
            const std::uint8_t* from = band.line(y * window.strideHeight) + group * size;
            char* made = to + y * window.outWidth * stride + group * outputs * (stride / layer.product.outputs);
            constexpr int kPixels = 4;
            for (std::size_t x = 0, some; x < window.outWidth; x += some, from += some * apart) {
              alignas(64) std::int32_t sums[kPixels * kLanes];
              if (window.outWidth - x >= kPixels) {
                some = kPixels;
                sumGroup<Form, kPixels>(window, band.sizeOfLine(), size, from, weights, bias, sums);
              } else {
                some = 1;
                sumGroup<Form, 1>(window, band.sizeOfLine(), size, from, weights, bias, sums);
              }
              finish(sums, kLanes, some, v * kLanes, count, made, stride);
              made += some * stride;
            }
          }
        }
      }
      to += lines * window.outWidth * stride;
    }
  }
}

/// A dense layer for each group, of the windows of its channels.
template <class Form>
inline void convolveGroups(const QuantizedConv2d& layer, std::size_t groups, std::size_t batch, const std::uint8_t* in, void* out,
                           std::uint32_t* scratch) {
  const Window& window = layer.window;
  if (window.channels / groups % 4 == 0) return convolveGroupsInPlace<Form>(layer, groups, batch, in, out, scratch);
  QuantizedDense product = layer.product;
  product.outputs /= groups;
  const std::size_t inputs = product.inputs, size = window.channels / groups, columns = panelsOf(product.outputs) * kPanel;
  const std::size_t ofImage = window.outHeight * window.outWidth, stride = bytesOfResult(layer.product);
  auto* const copy = reinterpret_cast<std::uint8_t*>(scratch + quantizedDenseScratch(inputs));
  const Finish finish(product, out);
  auto* to = static_cast<char*>(out);
  for (; batch > 0; --batch, in += window.inHeight * window.inWidth * window.channels, to += ofImage * stride) {
    product.weights = layer.product.weights;
    product.bias = layer.product.bias;
    product.scales = layer.product.scales;
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t first = 0; first < ofImage; first += kQuantizedRowsAtATime) {
        const std::size_t left = ofImage - first, count = left < kQuantizedRowsAtATime ? left : kQuantizedRowsAtATime;
        for (std::size_t r = 0; r < count; ++r) {
          const std::size_t y = (first + r) / window.outWidth, x = (first + r) % window.outWidth;
          copyWindowOfGroup(layer, in, y, x, group * size, size, copy);
          rewriteRow<Form>(copy, inputs, product.flip, scratch + r * 2 * foursOf(inputs));
        }
        multiplyQuantized<Form>(product, finish, scratch, count, to + first * stride + group * bytesOfResult(product), stride);
      }
      product.weights += sizeOfGroup(inputs, product.outputs);
      product.bias += columns;
      if (product.scales != nullptr) product.scales += columns;
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_QUANTIZED_GROUPS_H_
