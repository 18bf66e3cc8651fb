// quantized_steps.h: quantized layers by an instruction that adds the products of two bytes in 16 bits, where sums saturate.
//
// Weights are constants, so that it is known which sums can: the compiler makes steps that cannot (Steps in kernels.h). Rows lie in
// memory in kStepOrders orders of their bytes, of which each step reads those that fit its weights. Sums are the same.
#ifndef TFAOT_KERNELS_QUANTIZED_STEPS_H_
#define TFAOT_KERNELS_QUANTIZED_STEPS_H_

#include "quantized_tiles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Where words of rows lie.
struct WordsOfRows {
  std::size_t stride;           ///< bytes between rows
  const std::uint32_t* places;  ///< of the words of a row, in bytes
};

/// Writes the places of a layer's words: `of(i)` is that of group i in the first order; orders lie `apart` bytes apart.
template <class Of>
inline void placeWords(std::size_t fours, std::size_t apart, std::uint32_t* places, Of of) {
  for (std::size_t i = 0; i < fours; ++i) {
    for (std::size_t order = 0; order < kStepOrders; ++order) {
      places[order * fours + i] = static_cast<std::uint32_t>(order * apart + of(i));
    }
  }
}

/// Makes the other orders of `count` bytes in memory, and of up to a vector of what is behind them.
inline void orderForSteps(std::uint8_t* bytes, std::size_t count, std::uint8_t flip, std::size_t apart) {
  using Bytes = VectorOf<std::uint8_t>;
  const Integers behind = perLane([](int lane) { return 0x04040404 * (lane % 4); });
  const auto order = [&](std::int32_t of) { return bitsAs<Bytes>(behind + broadcastByCode(of)); };
  const Bytes flips = broadcast(flip), second = order(0x03010200), third = order(0x02010300);
  for (std::size_t i = 0; i < count; i += kLanesOf<std::uint8_t>, bytes += kLanesOf<std::uint8_t>) {
    const Bytes all = load(bytes) ^ flips;
    store(bytes, all);
    store(bytes + apart, bytesFrom(all, second));
    store(bytes + 2 * apart, bytesFrom(all, third));
  }
}

/// Sums of `kRows` rows for kStepColumns columns, the first of which is `column`.
template <int kRows>
TFAOT_ALONE void sumSteps(const QuantizedDense& layer, const WordsOfRows& rows, const std::uint8_t* first, std::size_t column,
                          std::int32_t* out) {
  constexpr int kWidth = kStepColumns / kLanes;
  const std::uint32_t* const places = rows.places;
  const Steps& steps = layer.steps;
  const std::size_t stride = rows.stride, begin = steps.begins[column / kStepColumns], end = steps.begins[column / kStepColumns + 1];
  Unsigned sums[kRows][kWidth];
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) {
    const Unsigned bias = bitsAs<Unsigned>(load(layer.bias + column + v * kLanes));
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][v] = bias;
  }
  const std::int8_t* weights = steps.weights + begin * 2 * kStepColumns * 4;
  for (const std::uint16_t *word = steps.words + begin * 2, *const last = steps.words + end * 2; word != last; word += 2) {
    const std::uint8_t* const from[] = {first + places[word[0]], first + places[word[1]]};
    Integers weight[2][kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      weight[0][v] = bitsAs<Integers>(load(weights + v * kLanes * 4));
      weight[1][v] = bitsAs<Integers>(load(weights + (kStepColumns + v * kLanes) * 4));
    }
    weights += 2 * kStepColumns * 4;
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      std::uint32_t words[2];
      std::memcpy(&words[0], from[0] + r * stride, sizeof words[0]);
      std::memcpy(&words[1], from[1] + r * stride, sizeof words[1]);
      const Unsigned inputs[] = {broadcast(words[0]), broadcast(words[1])};
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = addShortDots(sums[r][v], inputs[0], weight[0][v], inputs[1], weight[1][v]);
    }
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) store(out + r * kStepColumns + v * kLanes, bitsAs<Integers>(sums[r][v]));
  }
}

/// A layer by steps.
class ProductOfSteps {
 public:
  ProductOfSteps(const QuantizedDense& layer, const void* out) : layer_(layer), finish_(layer, out) {}

  std::size_t outStride() const { return strideOf(layer_) * sizeOfResult(layer_); }

  /// `count` rows, the first of which is at `first`, for kStepColumns columns from `column` on.
  void multiply(const WordsOfRows& rows, const std::uint8_t* first, std::size_t count, std::size_t column, char* out) const {
    const std::size_t left = layer_.outputs - column, columns = left < kStepColumns ? left : kStepColumns;
    for (std::size_t size; count > 0; count -= size, first += size * rows.stride, out += size * outStride()) {
      alignas(64) std::int32_t sums[kStepRows * kStepColumns];
      if (count >= kStepRows) {
        sumSteps<kStepRows>(layer_, rows, first, column, sums);
        size = kStepRows;
      } else if (count >= kStepRows / 2) {
        sumSteps<kStepRows / 2>(layer_, rows, first, column, sums);
        size = kStepRows / 2;
      } else if (count >= 2) {
        sumSteps<2>(layer_, rows, first, column, sums);
        size = 2;
      } else {
        sumSteps<1>(layer_, rows, first, column, sums);
        size = 1;
      }
      finish_(sums, kStepColumns, size, column, columns, out, outStride());
    }
  }

 private:
  const QuantizedDense& layer_;
  const Finish finish_;
};

/// `count` rows that `put(row, to)` writes, one after the other, and up to `behind` bytes; `flip` changes bits of each byte.
template <class Put>
inline void multiplyBySteps(const QuantizedDense& layer, std::size_t count, std::uint8_t flip, Put put, void* out,
                            std::uint32_t* scratch, std::size_t behind = 0) {
  const ProductOfSteps product(layer, out);
  const std::size_t stride = bytesOfTiledRow(layer.inputs + behind), apart = kStepRows * stride;
  auto* const memory = reinterpret_cast<std::uint8_t*>(scratch);
  std::uint32_t* const places = scratch + kStepOrders * apart / sizeof *scratch;
  placeWords(foursOf(layer.inputs), apart, places, [](std::size_t four) { return four * 4; });
  const WordsOfRows rows = {stride, places};
  auto* to = static_cast<char*>(out);
  for (std::size_t first = 0, size; first < count; first += size, to += size * product.outStride()) {
    size = count - first < kStepRows ? count - first : kStepRows;
    for (std::size_t r = 0; r < size; ++r) {
      put(first + r, memory + r * stride);
      orderForSteps(memory + r * stride, layer.inputs, flip, apart);
    }
    for (std::size_t column = 0; column < layer.outputs; column += kStepColumns) product.multiply(rows, memory, size, column, to);
  }
}

inline void denseBySteps(const QuantizedDense& layer, std::size_t batch, const std::uint8_t* in, void* out, std::uint32_t* scratch) {
  const auto put = [&](std::size_t row, std::uint8_t* to) { copyBytes(to, in + row * layer.inputs, layer.inputs); };
  multiplyBySteps(layer, batch, layer.flip, put, out, scratch);
}

/// Windows of copied lines are rows as they are.
inline void convolveLinesBySteps(const QuantizedConv2d& layer, LinesOfImages all, const std::uint8_t* in, void* out,
                                 std::uint32_t* scratch) {
  const Window& window = layer.window;
  const BandOfSteps band(window);
  const std::size_t apart = band.bytesOfOrder();
  auto* const memory = reinterpret_cast<std::uint8_t*>(scratch);
  std::uint32_t* const places = scratch + kStepOrders * apart / sizeof *scratch;
  placeWords(foursOf(layer.product.inputs), apart, places, [&](std::size_t four) {
    const std::size_t tap = four * 4 / window.channels, line = tap / window.width * window.dilationHeight;
    const std::size_t pixel = line * band.columns + tap % window.width * window.dilationWidth;
    return pixel * window.channels + four * 4 % window.channels;
  });
  const WordsOfRows rows = {window.strideWidth * window.channels, places};
  const ProductOfSteps product(layer.product, out);
  const CopiedLines copied(layer, band.columns, memory);
  const std::size_t sizeOfLine = window.outWidth * product.outStride(), end = all.first + all.count;
  auto* to = static_cast<char*>(out);
  for (; all.images > 0; --all.images, in += window.inHeight * window.inWidth * window.channels) {
    for (std::size_t first = all.first, lines; first < end; first += lines, to += lines * sizeOfLine) {
      lines = end - first < band.lines ? end - first : band.lines;
      copied.copy(in, first, lines);
      orderForSteps(memory, band.linesOf(window, lines) * copied.sizeOfLine(), 0, apart);
      for (std::size_t column = 0; column < layer.product.outputs; column += kStepColumns) {
        for (std::size_t y = 0; y < lines; ++y) {
          product.multiply(rows, copied.line(y * window.strideHeight), window.outWidth, column, to + y * sizeOfLine);
        }
      }
    }
  }
}

inline void convolveBySteps(const QuantizedConv2d& layer, LinesOfImages lines, const std::uint8_t* in, void* out,
                            std::uint32_t* scratch) {
  if (BandOfSteps(layer.window).isInPlace) return convolveLinesBySteps(layer, lines, in, out, scratch);
  WindowsInOrder windows(layer, lines, in, scratch);
  const std::size_t count = lines.images * lines.count * layer.window.outWidth;
  const auto put = [&](std::size_t, std::uint8_t* to) { windows.copyNext(to); };
  multiplyBySteps(layer.product, count, 0, put, out, windows.behindLines(), kCopied);
}

/// Whether steps are faster than pairs: fewer rows are no block.
inline bool isForSteps(const QuantizedDense& layer, std::size_t rows) {
  return layer.steps.begins != nullptr && rows >= kStepRows;
}

/// Calls `run()` if the target has instructions for steps.
template <class Run>
inline bool withSteps(Run run) {
  if constexpr (kMayAddShortDots<Integers>) run();
  return kMayAddShortDots<Integers>;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_QUANTIZED_STEPS_H_
