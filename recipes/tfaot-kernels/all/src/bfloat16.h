// bfloat16.h: products of inputs and packed constant weights that are rounded to bfloat16, in sums of float32.
//
// Sums are those of the instruction TDPBF16PS of AMX, whose order any other instructions can follow: of each block of 32 inputs
// the products of inputs at even places are added in order, fused, beginning with zero; likewise those at odd places; the sum of
// both is added to the sum of the blocks before. Rounded numbers are multiples of 2^-63, so that no product and no sum is subnormal
// but zero: it makes no difference that AMX flushes subnormal numbers (decision 093).
//
// Inputs are rounded for a form of the products, some rows at a time, into memory of the caller. A form multiplies a block of
// up to kBfloat16Rows rows and `kPanels` panels of columns with all inputs.
#ifndef TFAOT_KERNELS_BFLOAT16_H_
#define TFAOT_KERNELS_BFLOAT16_H_

#include "activating.h"
#include "quantized.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr std::size_t kPairsOfBlock = kBfloat16Block / 2;
/// Pairs of inputs of a panel's columns in a block: 16 rows of 64 bytes, as a tile has them.
inline constexpr std::size_t kBlockOfPanel = kPairsOfBlock * kPanel;

/// Floats whose bits after the first 16 are zero: to nearest, half to even, and zero of the same sign below 2^-56.
TFAOT_INLINE Unsigned roundedToBfloat16(Vector x) {
  const Unsigned bits = bitsAs<Unsigned>(x), high = broadcastByCode(0xffff0000u);
  const Unsigned size = bits & broadcastByCode(0x7fffffffu);
  const Unsigned rounded = (bits + (broadcastByCode(0x7fffu) + (bits >> 16 & broadcastByCode(1u)))) & high;
  // A NaN whose last bits alone say so would become an infinity.
  const Unsigned quiet = (bits | broadcastByCode(0x00400000u)) & high;
  const Mask isNan = bitsAs<Integers>(size) > broadcastByCode(0x7f800000);
  const Mask isTiny = bitsAs<Integers>(size) < broadcastByCode(0x23800000);  // 2^-56
  return isNan ? quiet : isTiny ? (bits ^ size) : rounded;
}

/// Inputs as floats, for fused multiply-adds of any CPU.
struct AsFloats {
  using Element = float;
  /// The most panels of a block: more columns for few rows than a block of rows has, so that their sums do not wait for one another.
  static constexpr std::size_t kPanels = 4;

  /// What is in use for a block of so many rows.
  struct Block {
    explicit Block(std::size_t) {}
  };

  static TFAOT_INLINE void round(const float* from, std::size_t count, float* to) {
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, bitsAs<Vector>(roundedToBfloat16(load(from + i))));
    if (i < count) storeFirst(to + i, count - i, bitsAs<Vector>(roundedToBfloat16(loadFirst(from + i, count - i))));
  }

  static void sum(const Bfloat16Dense& layer, const float* rows, std::size_t count, std::size_t panel, std::size_t panels,
                  float* sums);
};

/// Sums of `kRows` rows and `kWidth` vectors of columns from `vector` on; those of a row lie `stride` floats apart.
template <int kRows, int kWidth>
TFAOT_ALONE void sumBfloat16(const Bfloat16Dense& layer, const float* rows, std::size_t vector, float* out, std::size_t stride) {
  const std::size_t blocks = blocksOfBfloat16(layer.inputs), apart = blocks * kBfloat16Block;
  const std::uint32_t* weights[kWidth];
  Vector sums[kRows][kWidth] = {};
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) {
    const std::size_t number = vector + v;
    weights[v] = layer.weights + number / kVectors * blocks * kBlockOfPanel + number % kVectors * kLanes;
  }
  const Unsigned high = broadcastByCode(0xffff0000u);
  for (std::size_t block = 0; block < blocks; ++block) {
    Vector evens[kRows][kWidth] = {}, odds[kRows][kWidth] = {};
    for (std::size_t i = 0; i < kPairsOfBlock; ++i, rows += 2) {
      Vector even[kWidth], odd[kWidth];
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        const Unsigned both = load(weights[v]);
        weights[v] += kPanel;
        even[v] = bitsAs<Vector>(both << 16);
        odd[v] = bitsAs<Vector>(both & high);
      }
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const Vector first = broadcast(rows[r * apart]), second = broadcast(rows[r * apart + 1]);
        TFAOT_UNROLL
        for (int v = 0; v < kWidth; ++v) {
          evens[r][v] = multiplyAdd(first, even[v], evens[r][v]);
          odds[r][v] = multiplyAdd(second, odd[v], odds[r][v]);
        }
      }
    }
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = sums[r][v] + (evens[r][v] + odds[r][v]);
    }
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) store(out + r * stride + v * kLanes, sums[r][v]);
  }
}

/// The same for `vectors` vectors, kWidth at a time.
template <int kRows, int kWidth>
TFAOT_INLINE void sumBfloat16(const Bfloat16Dense& layer, const float* rows, std::size_t vector, std::size_t vectors, float* out,
                              std::size_t stride) {
  std::size_t done = 0;
  for (; done + kWidth <= vectors; done += kWidth) sumBfloat16<kRows, kWidth>(layer, rows, vector + done, out + done * kLanes, stride);
  for (; done < vectors; ++done) sumBfloat16<kRows, 1>(layer, rows, vector + done, out + done * kLanes, stride);
}

inline void AsFloats::sum(const Bfloat16Dense& layer, const float* rows, std::size_t count, std::size_t panel, std::size_t panels,
                          float* sums) {
  // Both chains of a row, its sum, and the weights are in registers.
  constexpr int kMost = 4, kWide = kRegisters >= 32 ? 2 : 1;
  constexpr std::size_t kStride = kPanels * kPanel;
  const std::size_t apart = blocksOfBfloat16(layer.inputs) * kBfloat16Block, vector = panel * kVectors, vectors = panels * kVectors;
  std::size_t row = 0;
  for (; row + kMost <= count; row += kMost) sumBfloat16<kMost, kWide>(layer, rows + row * apart, vector, vectors, sums + row * kStride, kStride);
  for (; row + 2 <= count; row += 2) sumBfloat16<2, 2>(layer, rows + row * apart, vector, vectors, sums + row * kStride, kStride);
  if (row < count) {
    sumBfloat16<1, kRegisters >= 32 ? 4 : 2>(layer, rows + row * apart, vector, vectors, sums + row * kStride, kStride);
  }
}

/// The last step of a row: bias and activation of `count` sums of columns from `column` on.
inline void finishBfloat16(const Dispatch& dispatch, const Bfloat16Dense& layer, const float* sums, std::size_t column,
                           std::size_t count, float* out) {
  const Activation activation = layer.activation;
  const auto bounded = [activation](Vector x) {
    if (activation == Activation::relu) return positivePart(x);
    return activation == Activation::clip ? clipped(x, activation.low, activation.high) : x;
  };
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vector sum = load(sums + i);
    store(out + i, bounded(layer.bias == nullptr ? sum : sum + load(layer.bias + column + i)));
  }
  if (const std::size_t rest = count - i) {
    const Vector sum = loadFirst(sums + i, rest);
    storeFirst(out + i, rest, bounded(layer.bias == nullptr ? sum : sum + loadFirst(layer.bias + column + i, rest)));
  }
  if (!isBounds(activation)) activateRow(dispatch, activation, out, count);
}

/// `count` rows times all columns; `put(row, to)` writes `layer.inputs` rounded inputs of a row.
template <class Form, class Put>
inline void multiplyBfloat16(const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t count, Put put, float* out,
                             std::uint32_t* scratch) {
  using Element = typename Form::Element;
  constexpr std::size_t kColumns = Form::kPanels * kPanel;
  auto* const rows = reinterpret_cast<Element*>(scratch);
  const std::size_t apart = blocksOfBfloat16(layer.inputs) * kBfloat16Block;
  const std::size_t panels = (layer.outputs + kPanel - 1) / kPanel;
  for (std::size_t first = 0; first < count; first += kBfloat16Rows) {
    const std::size_t left = count - first, size = left < kBfloat16Rows ? left : kBfloat16Rows;
    for (std::size_t r = 0; r < size; ++r) {
      put(first + r, rows + r * apart);
      std::memset(rows + r * apart + layer.inputs, 0, (apart - layer.inputs) * sizeof *rows);
    }
    [[maybe_unused]] const typename Form::Block block(size);
    for (std::size_t panel = 0; panel < panels; panel += Form::kPanels) {
      alignas(64) float sums[kBfloat16Rows * kColumns];
      const std::size_t width = panels - panel < Form::kPanels ? panels - panel : Form::kPanels, column = panel * kPanel;
      const std::size_t rest = layer.outputs - column, columns = rest < kColumns ? rest : kColumns;
      Form::sum(layer, rows, size, panel, width, sums);
      for (std::size_t r = 0; r < size; ++r) {
        finishBfloat16(dispatch, layer, sums + r * kColumns, column, columns, out + (first + r) * layer.outputs + column);
      }
    }
  }
}

template <class Form>
inline void denseBfloat16(const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t batch, const float* in, float* out,
                          std::uint32_t* scratch) {
  const auto put = [&](std::size_t row, typename Form::Element* to) { Form::round(in + row * layer.inputs, layer.inputs, to); };
  multiplyBfloat16<Form>(dispatch, layer, batch, put, out, scratch);
}

/// Lines of an image from line `top` on, which may lie before it, rounded and between zeros, as `band` has them.
template <class Form>
inline void putBand(const Window& window, const Band& band, const float* image, std::size_t top, std::size_t lines,
                    typename Form::Element* to) {
  const std::size_t channels = window.channels, size = band.columns * channels;
  const std::size_t left = (window.padLeft < band.columns ? window.padLeft : band.columns) * channels;
  const std::size_t seen = size - left < window.inWidth * channels ? size - left : window.inWidth * channels;
  for (std::size_t i = 0; i < lines; ++i, to += size) {
    const std::size_t line = top + i;  // modulo 2^64: what lies before the image is beyond its size
    if (line >= window.inHeight) {
      std::memset(to, 0, size * sizeof *to);
      continue;
    }
    std::memset(to, 0, left * sizeof *to);
    Form::round(image + line * window.inWidth * channels, seen, to + left);
    std::memset(to + left + seen, 0, (size - left - seen) * sizeof *to);
  }
}

/// A copy by vectors: a call for a few bytes would take longer.
TFAOT_INLINE void copyRun(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  constexpr std::size_t kBytes = kLanes * sizeof(float);
  if (count < kBytes) return copyBytes(to, from, count);
  for (std::size_t i = 0; i + kBytes < count; i += kBytes) store(to + i, load(from + i));
  store(to + count - kBytes, load(from + count - kBytes));
}

/// The windows of an image are rows, which are copied from some of its lines.
template <class Form>
inline void convolveBfloat16(const Dispatch& dispatch, const Bfloat16Conv2d& layer, std::size_t batch, const float* in, float* out,
                             std::uint32_t* scratch) {
  using Element = typename Form::Element;
  const Window& window = layer.window;
  const Band band(window);
  const std::size_t channels = window.channels, lineSize = band.columns * channels;
  auto* const lines = reinterpret_cast<Element*>(scratch + bfloat16DenseScratch(layer.product.inputs));
  for (; batch > 0; --batch, in += window.inHeight * window.inWidth * channels) {
    for (std::size_t first = 0, count; first < window.outHeight; first += count) {
      const std::size_t left = window.outHeight - first;
      count = left < band.linesAtATime ? left : band.linesAtATime;
      putBand<Form>(window, band, in, first * window.strideHeight - window.padTop, (count - 1) * window.strideHeight + band.lines, lines);
      std::size_t x = 0, y = 0;  // rows are put in order
      const auto put = [&](std::size_t, Element* to) {
        const Element* from = lines + y * window.strideHeight * lineSize + x * window.strideWidth * channels;
        // Adjacent pixels of a line are one run.
        const bool isOneRun = window.dilationWidth == 1;
        const std::size_t runs = isOneRun ? 1 : window.width, run = isOneRun ? window.width * channels : channels;
        for (std::size_t i = 0; i < window.height; ++i, from += window.dilationHeight * lineSize) {
          for (std::size_t j = 0; j < runs; ++j, to += run) {
            const Element* const begin = from + j * window.dilationWidth * channels;
            copyRun(reinterpret_cast<std::uint8_t*>(to), reinterpret_cast<const std::uint8_t*>(begin), run * sizeof *to);
          }
        }
        if (++x < window.outWidth) return;
        x = 0;
        ++y;
      };
      multiplyBfloat16<Form>(dispatch, layer.product, count * window.outWidth, put, out, scratch);
      out += count * window.outWidth * layer.product.outputs;
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BFLOAT16_H_
