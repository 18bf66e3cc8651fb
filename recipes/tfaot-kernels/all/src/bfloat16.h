// bfloat16.h: products of inputs and packed constant weights that are rounded to bfloat16, in sums of float32.
//
// Sums are those of the instruction TDPBF16PS of AMX, whose order any other instructions can follow: of each block of 32 inputs
// the products of inputs at even places are added in order, fused, beginning with zero; likewise those at odd places; the sum of
// both is added to the sum of the blocks before. Rounded numbers are multiples of 2^-63, so that no product and no sum is subnormal
// but zero: it makes no difference that AMX flushes subnormal numbers (decision 093).
//
// Numbers may be sums of two or three parts, some of whose products are added for each block (kPairsOfParts). What is not finite is in
// the last part, which is multiplied with the first part of weights alone (decision 120).
//
// Inputs are rounded for a form of the products, some rows or lines of an image at a time, into memory of the caller. Lines of images
// lie between zeros there, so that their windows are rows (tiled_rows.h). Convolutions whose lines of a window are no multiples of 32
// inputs have smaller blocks, which divide these lines.
#ifndef TFAOT_KERNELS_BFLOAT16_H_
#define TFAOT_KERNELS_BFLOAT16_H_

#include "finish_rows.h"
#include "quantized.h"
#include "tiled_rows.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Floats whose bits after the first 16 are zero: to nearest, half to even, and zero of the same sign below 2^-56.
template <bool kIsLastPart>
TFAOT_INLINE Unsigned roundedToBfloat16(Vector x) {
  const Unsigned bits = bitsAs<Unsigned>(x), high = broadcastByCode(0xffff0000u);
  const Unsigned size = bits & broadcastByCode(0x7fffffffu);
  const Unsigned rounded = (bits + (broadcastByCode(0x7fffu) + (bits >> 16 & broadcastByCode(1u)))) & high;
  const Mask isTiny = bitsAs<Integers>(size) < broadcastByCode(0x23800000);  // 2^-56
  const Unsigned made = isTiny ? (bits ^ size) : rounded;
  if constexpr (!kIsLastPart) return bitsAs<Integers>(size) < broadcastByCode(0x7f7f8000) ? made : Unsigned{};
  // A NaN whose last bits alone say so would become an infinity.
  const Unsigned quiet = (bits | broadcastByCode(0x00400000u)) & high;
  const Mask isNan = bitsAs<Integers>(size) > broadcastByCode(0x7f800000);
  return isNan ? quiet : made;
}

/// The parts of inputs, and how many numbers lie between them.
struct InputParts {
  std::size_t count, apart;
};

/// A layer's way through its parts, which lie so many bytes apart.
inline Tiling withParts(Tiling tiling, std::size_t parts, std::size_t apart) {
  tiling.parts = parts;
  tiling.partOfRow = apart;
  tiling.partOfPanel = tiling.panel;
  tiling.panel *= parts;
  return tiling;
}

/// Sums of `kRows` rows and `kWidth` vectors of columns from `vector` on; those of a row lie `stride` floats apart. `kInParts`: whether
/// numbers may have several parts, which takes a tenth more time if they have one.
template <int kRows, int kWidth, bool kInParts>
TFAOT_ALONE void sumBfloat16(const Bfloat16Dense& layer, const Tiling& tiling, const std::uint8_t* in, std::size_t vector, float* out,
                             std::size_t stride) {
  const std::size_t apart = tiling.stride / sizeof(float), partOfRow = tiling.partOfRow / sizeof(float);
  const std::size_t sizeOfPanel = tiling.panel / sizeof(std::uint32_t), partOfPanel = tiling.partOfPanel / sizeof(std::uint32_t);
  Vector sums[kRows][kWidth] = {};
  const Unsigned high = broadcastByCode(0xffff0000u);
  const std::uint32_t* begin[kWidth];
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) {
    const std::size_t number = vector + v;
    begin[v] = layer.weights + number / kVectors * sizeOfPanel + number % kVectors * kLanes;
  }
  for (std::size_t parts = kInParts ? tiling.parts : 1;; parts -= 2) {
    const PairsOfParts& pairs = kPairsOfParts[kInParts ? parts - 1 : 0];
    std::size_t done = 0;  // words of a column
    for (std::size_t number = 0; number < tiling.pieces * tiling.runs; ++number) {
      const std::size_t run = number / tiling.runs * tiling.piece + number % tiling.runs * tiling.run;
      const auto* all = reinterpret_cast<const float*>(in + run);
      for (std::size_t block = 0; block < tiling.blocks; ++block, all += 2 * tiling.fours, done += tiling.fours * kPanel) {
        for (std::size_t pair = 0; pair < pairs.count; ++pair) {
          const float* rows = all + pairs.pairs[pair].ofRow * partOfRow;
          const std::size_t place = pairs.pairs[pair].ofPanel * partOfPanel + done;
          const std::uint32_t* weights[kWidth];
          TFAOT_UNROLL
          for (int v = 0; v < kWidth; ++v) weights[v] = begin[v] + place;
          Vector evens[kRows][kWidth] = {}, odds[kRows][kWidth] = {};
          for (std::size_t i = 0; i < tiling.fours; ++i, rows += 2) {
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
      }
    }
    if (!kInParts || parts < kMostParts) break;
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) store(out + r * stride + v * kLanes, sums[r][v]);
  }
}

/// The same for `vectors` vectors, kWidth at a time.
template <int kRows, int kWidth, bool kInParts = true>
TFAOT_INLINE void sumBfloat16(const Bfloat16Dense& layer, const Tiling& tiling, const std::uint8_t* rows, std::size_t vector,
                              std::size_t vectors, float* out, std::size_t stride) {
  if constexpr (kInParts) {
    if (tiling.parts == 1) return sumBfloat16<kRows, kWidth, false>(layer, tiling, rows, vector, vectors, out, stride);
  }
  std::size_t done = 0;
  for (; done + kWidth <= vectors; done += kWidth) {
    sumBfloat16<kRows, kWidth, kInParts>(layer, tiling, rows, vector + done, out + done * kLanes, stride);
  }
  for (; done < vectors; ++done) sumBfloat16<kRows, 1, kInParts>(layer, tiling, rows, vector + done, out + done * kLanes, stride);
}

inline std::size_t sizeOfInput(const Bfloat16Dense& layer) { return layer.isRounded ? sizeof(std::uint16_t) : sizeof(float); }
inline std::size_t sizeOfResult(const Bfloat16Dense& layer) { return layer.rounds ? sizeof(std::uint16_t) : sizeof(float); }

/// Results as bfloat16.
struct StoredRounded {
  using Element = std::uint16_t;

  static TFAOT_INLINE void put(Vector x, Element* to) { storeNarrowed(to, bits(x)); }
  static TFAOT_INLINE void put(Vector x, std::size_t count, Element* to) { storeNarrowed(to, count, bits(x)); }

 private:
  static TFAOT_INLINE Integers bits(Vector x) { return bitsAs<Integers>(roundedToBfloat16<true>(x) >> 16); }
};

/// The last step of a layer, whose results are floats, or `Rounded`, and begin at `out`.
template <class Rounded>
class FinishBfloat16 {
 public:
  FinishBfloat16(const Dispatch& dispatch, const Bfloat16Dense& layer, const char* out)
      : finish_(dispatch, strideOf(layer), layer.bias, layer.activation), rounds_(layer.rounds), size_(sizeOfResult(layer)),
        added_(layer.added), out_(out) {}

  void operator()(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, char* out) const {
    const float* const beside = added_ == nullptr ? nullptr : added_ + static_cast<std::size_t>(out - out_) / size_;
    if (!rounds_) return finish_(sums, stride, rows, column, columns, reinterpret_cast<float*>(out), beside);
    finish_.template storeAs<Rounded>(sums, stride, rows, column, columns, reinterpret_cast<std::uint16_t*>(out), beside);
  }

 private:
  const FinishRows finish_;
  const bool rounds_;
  const std::size_t size_;
  const float* const added_;
  const char* const out_;
};

/// A layer by fused multiply-adds of any CPU.
class ProductOfFloats {
 public:
  /// `out`: where results begin.
  ProductOfFloats(const Tiling& tiling, const Dispatch& dispatch, const Bfloat16Dense& layer, const char* out)
      : layer_(layer), tiling_(tiling), finish_(dispatch, layer, out) {}

  std::size_t outStride() const { return strideOf(layer_) * sizeOfResult(layer_); }
  /// As of TiledProduct: rows need no registers for them.
  void shape(std::size_t, std::size_t) {}

  void multiply(const TiledRows* pairs, std::size_t count) const {
    for (std::size_t column = 0; column < layer_.outputs; column += kColumns) {
      for (std::size_t i = 0; i < count; ++i) {
        for (int tile : {0, 1}) multiply(pairs[i].in[tile], pairs[i].count[tile], column, pairs[i].out[tile]);
      }
    }
  }

 private:
  /// More columns for few rows than a block of rows has, so that their sums do not wait for one another.
  static constexpr std::size_t kColumns = FinishRows::kMostColumns;

  void multiply(const std::uint8_t* in, std::size_t count, std::size_t column, char* out) const {
    // Both chains of a row, its sum, and the weights are in registers.
    constexpr int kMost = 4, kWide = kRegisters >= 32 ? 2 : 1;
    alignas(64) float sums[kTileRows * kColumns];
    const std::size_t left = layer_.outputs - column, columns = left < kColumns ? left : kColumns, stride = tiling_.stride;
    const std::size_t vector = column / kLanes, vectors = vectorsOf(columns);
    std::size_t row = 0;
    for (; row + kMost <= count; row += kMost) {
      sumBfloat16<kMost, kWide>(layer_, tiling_, in + row * stride, vector, vectors, sums + row * kColumns, kColumns);
    }
    for (; row + 2 <= count; row += 2) {
      sumBfloat16<2, 2>(layer_, tiling_, in + row * stride, vector, vectors, sums + row * kColumns, kColumns);
    }
    if (row < count) {
      sumBfloat16<1, kRegisters >= 32 ? 4 : 2>(layer_, tiling_, in + row * stride, vector, vectors, sums + row * kColumns, kColumns);
    }
    finish_(sums, kColumns, count, column, columns, out);
  }

  const Bfloat16Dense& layer_;
  const Tiling tiling_;
  const FinishBfloat16<StoredRounded> finish_;
};

/// Inputs as floats.
struct AsFloats {
  using Element = float;
  using Product = ProductOfFloats;

  template <bool kIsLastPart>
  static TFAOT_INLINE Vector rounded(Vector x) {
    return bitsAs<Vector>(roundedToBfloat16<kIsLastPart>(x));
  }
  static TFAOT_INLINE Vector asFloats(Vector rounded) { return rounded; }
  static TFAOT_INLINE void put(Vector rounded, float* to) { store(to, rounded); }
  static TFAOT_INLINE void put(Vector rounded, std::size_t count, float* to) { storeFirst(to, count, rounded); }
  static TFAOT_INLINE void copy(const std::uint16_t* from, std::size_t count, float* to) {
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, bitsAs<Vector>(widened(from + i) << 16));
    if (i < count) storeFirst(to + i, count - i, bitsAs<Vector>(widened(from + i, count - i) << 16));
  }
};

/// Calls put(rounded, to) for each of the parts of some numbers.
template <class Form, std::size_t kParts, class Put>
TFAOT_INLINE void split(Vector x, typename Form::Element* to, std::size_t apart, Put put) {
  TFAOT_UNROLL
  for (std::size_t part = 1; part < kParts; ++part, to += apart) {
    const auto rounded = Form::template rounded<false>(x);
    put(rounded, to);
    x = x - Form::asFloats(rounded);  // exact
  }
  put(Form::template rounded<true>(x), to);
}

template <class Form, std::size_t kParts>
inline void roundInParts(const float* from, std::size_t count, typename Form::Element* to, std::size_t apart) {
  using Element = typename Form::Element;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    split<Form, kParts>(load(from + i), to + i, apart, [](auto rounded, Element* at) { Form::put(rounded, at); });
  }
  if (i == count) return;
  const auto putFirst = [&](auto rounded, Element* at) { Form::put(rounded, count - i, at); };
  split<Form, kParts>(loadFirst(from + i, count - i), to + i, apart, putFirst);
}

/// Writes `count` numbers rounded, in parts.
template <class Form>
inline void putRounded(const InputParts& parts, const float* from, std::size_t count, typename Form::Element* to) {
  if (parts.count == 1) return roundInParts<Form, 1>(from, count, to, 0);
  if (parts.count == 2) return roundInParts<Form, 2>(from, count, to, parts.apart);
  roundInParts<Form, kMostParts>(from, count, to, parts.apart);
}

/// Writes `count` inputs of a layer.
template <class Form>
inline void putInputs(const Bfloat16Dense& layer, const InputParts& parts, const std::uint8_t* from, std::size_t count,
                      typename Form::Element* to) {
  if (layer.isRounded) return Form::copy(reinterpret_cast<const std::uint16_t*>(from), count, to);
  putRounded<Form>(parts, reinterpret_cast<const float*>(from), count, to);
}

/// Writes `count` zeros for each part.
template <class Element>
TFAOT_INLINE void putZeros(const InputParts& parts, std::size_t count, Element* to) {
  for (std::size_t part = 0; part < parts.count; ++part) std::memset(to + part * parts.apart, 0, count * sizeof *to);
}

inline InputParts partsOfRows(const Bfloat16Dense& layer) { return {layer.parts, blocksOfBfloat16(layer.inputs) * kBfloat16Block}; }

/// `count` rows times all columns; `put(row, to)` writes `layer.inputs` rounded inputs of a row, in `partsOfRows`.
template <class Form, class Put>
inline void multiplyBfloat16(const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t count, Put put, char* out,
                             std::uint32_t* scratch) {
  using Element = typename Form::Element;
  constexpr std::size_t kRows = kBfloat16Rows * sizeof(float) / sizeof(Element);
  auto* const rows = reinterpret_cast<Element*>(scratch);
  const InputParts parts = partsOfRows(layer);
  const std::size_t apart = apartInBfloat16(layer.inputs, parts.count), stride = apart * sizeof(Element);
  const std::size_t blocks = blocksOfBfloat16(layer.inputs), panel = blocks * kBfloat16Block / 2 * kPanel * sizeof *layer.weights;
  const Tiling tiling{stride, 1, 0, 1, 0, blocks, kBfloat16Block / 2, panel};
  const char* const begin = out;
  typename Form::Product product(withParts(tiling, parts.count, parts.apart * sizeof(Element)), dispatch, layer, begin);
  for (std::size_t first = 0, size; first < count; first += size) {
    size = count - first < kRows ? count - first : kRows;
    for (std::size_t r = 0; r < size; ++r) {
      put(first + r, rows + r * apart);
      putZeros(parts, parts.apart - layer.inputs, rows + r * apart + layer.inputs);
    }
    multiplyRows(product, reinterpret_cast<const std::uint8_t*>(rows), stride, size, out + first * product.outStride());
  }
}

template <class Form>
inline void denseBfloat16(const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t batch, const std::uint8_t* in, char* out,
                          std::uint32_t* scratch) {
  const InputParts parts = partsOfRows(layer);
  const std::size_t size = layer.inputs * sizeOfInput(layer);
  const auto put = [&](std::size_t row, typename Form::Element* to) { putInputs<Form>(layer, parts, in + row * size, layer.inputs, to); };
  multiplyBfloat16<Form>(dispatch, layer, batch, put, out, scratch);
}

/// Pixels, each of which is filled up with zeros to `filled` numbers.
template <class Form, std::size_t kParts>
inline void roundPixels(const float* from, std::size_t pixels, std::size_t channels, std::size_t filled, typename Form::Element* to,
                        std::size_t apart) {
  using Element = typename Form::Element;
  const std::size_t whole = channels / kLanes * kLanes, rest = channels - whole;
  for (; pixels > 0; --pixels, from += channels, to += filled) {
    roundInParts<Form, kParts>(from, whole, to, apart);
    const auto put = [&](auto rounded, Element* at) { Form::put(rounded, filled - whole, at); };
    split<Form, kParts>(loadFirst(from + whole, rest), to + whole, apart, put);
  }
}

/// The same of a layer's inputs, in parts.
template <class Form>
inline void putPixels(const Bfloat16Dense& layer, const InputParts& parts, const std::uint8_t* inputs, std::size_t pixels,
                      std::size_t channels, std::size_t filled, typename Form::Element* to) {
  if (filled == channels) return putInputs<Form>(layer, parts, inputs, pixels * channels, to);
  if (layer.isRounded) {
    for (; pixels > 0; --pixels, inputs += channels * sizeOfInput(layer), to += filled) {
      putInputs<Form>(layer, parts, inputs, channels, to);
      putZeros(parts, filled - channels, to + channels);
    }
    return;
  }
  const auto* const from = reinterpret_cast<const float*>(inputs);
  if (parts.count == 1) return roundPixels<Form, 1>(from, pixels, channels, filled, to, 0);
  if (parts.count == 2) return roundPixels<Form, 2>(from, pixels, channels, filled, to, parts.apart);
  roundPixels<Form, kMostParts>(from, pixels, channels, filled, to, parts.apart);
}

/// Lines of an image from line `top` on, which may lie before it, rounded and between zeros, as a band has them.
template <class Form>
inline void putLines(const Bfloat16Conv2d& layer, const CopiedBand& band, const InputParts& parts, const std::uint8_t* image,
                     std::size_t top, std::size_t lines, typename Form::Element* to) {
  const Window& window = layer.window;
  const std::size_t sizeOfLine = window.inWidth * window.channels * sizeOfInput(layer.product);
  const std::size_t channels = band.channels, size = band.columns * channels;
  const std::size_t before = window.padLeft < band.columns ? window.padLeft : band.columns, left = before * channels;
  const std::size_t pixels = band.columns - before < window.inWidth ? band.columns - before : window.inWidth, seen = pixels * channels;
  for (std::size_t i = 0; i < lines; ++i, to += size) {
    const std::size_t line = top + i;  // modulo 2^64: what lies before the image is beyond its size
    if (line >= window.inHeight) {
      putZeros(parts, size, to);
      continue;
    }
    putZeros(parts, left, to);
    putPixels<Form>(layer.product, parts, image + line * sizeOfLine, pixels, window.channels, channels, to + left);
    putZeros(parts, size - left - seen, to + left + seen);
  }
}

/// A copy by vectors: a call for a few bytes would take longer.
TFAOT_INLINE void copyRun(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  constexpr std::size_t kBytes = kLanes * sizeof(float);
  if (count < kBytes) return copyBytes(to, from, count);
  for (std::size_t i = 0; i + kBytes < count; i += kBytes) store(to + i, load(from + i));
  store(to + count - kBytes, load(from + count - kBytes));
}

/// The numbers of a window, whose first one is `from`, of lines of so many.
template <class Element>
TFAOT_INLINE void copyWindow(const Window& window, std::size_t lineSize, const Element* from, Element* to) {
  // Adjacent pixels of a line are one run.
  const bool isOneRun = window.dilationWidth == 1;
  const std::size_t channels = window.channels, runs = isOneRun ? 1 : window.width, run = isOneRun ? window.width * channels : channels;
  for (std::size_t i = 0; i < window.height; ++i, from += window.dilationHeight * lineSize) {
    for (std::size_t j = 0; j < runs; ++j, to += run) {
      const Element* const begin = from + j * window.dilationWidth * channels;
      copyRun(reinterpret_cast<std::uint8_t*>(to), reinterpret_cast<const std::uint8_t*>(begin), run * sizeof *to);
    }
  }
}

/// Calls `run(first, count)` for some lines of windows at a time, after the lines of the image that they see were put to `lines`.
template <class Form, class Run>
inline void visitBands(const Bfloat16Conv2d& layer, const CopiedBand& band, const InputParts& parts, LinesOfImages all,
                       const std::uint8_t* in, typename Form::Element* lines, Run run) {
  const Window& window = layer.window;
  const std::size_t sizeOfImage = window.inHeight * window.inWidth * window.channels * sizeOfInput(layer.product);
  for (; all.images > 0; --all.images, in += sizeOfImage) {
    const std::size_t end = all.first + all.count;
    for (std::size_t first = all.first, count; first < end; first += count) {
      count = end - first < band.lines ? end - first : band.lines;
      const std::size_t seen = (count - 1) * window.strideHeight + reach(window.height, window.dilationHeight);
      putLines<Form>(layer, band, parts, in, first * window.strideHeight - window.padTop, seen, lines);
      run(count);
    }
  }
}

/// The windows of an image are rows, which are copied from some of its lines where they cannot be read in place.
template <class Form>
inline void convolveBfloat16(const Dispatch& dispatch, const Bfloat16Conv2d& layer, LinesOfImages all, const std::uint8_t* in, char* out,
                             std::uint32_t* scratch) {
  using Element = typename Form::Element;
  const Window& window = layer.window;
  const CopiedBand band = bandOfBfloat16(window);
  auto* const lines = reinterpret_cast<Element*>(scratch);
  const std::size_t channels = band.channels, lineSize = band.columns * channels, words = wordsOfBand(band);
  const InputParts parts{layer.product.parts, words * (sizeof(float) / sizeof(Element))};
  if (band.isInPlace) {
    const Tiling tiling = withParts(tilingOfLines(window, band, sizeof(Element)), parts.count, words * sizeof(float));
    typename Form::Product product(tiling, dispatch, layer.product, static_cast<const char*>(out));
    product.shape(band.rows, band.rows);
    return visitBands<Form>(layer, band, parts, all, in, lines, [&](std::size_t count) {
      out = multiplyLines(product, window, band, reinterpret_cast<const std::uint8_t*>(lines), lineSize * sizeof *lines, count, out);
    });
  }
  Bfloat16Dense rest = layer.product;  // of what is not computed yet
  const std::size_t apart = partsOfRows(rest).apart;
  visitBands<Form>(layer, band, parts, all, in, lines, [&](std::size_t count) {
    std::size_t x = 0, y = 0;  // rows are put in order
    const auto put = [&](std::size_t, Element* to) {
      for (std::size_t part = 0; part < parts.count; ++part) {
        const std::size_t place = y * window.strideHeight * lineSize + x * window.strideWidth * channels;
        copyWindow(window, lineSize, lines + part * parts.apart + place, to + part * apart);
      }
      if (++x < window.outWidth) return;
      x = 0;
      ++y;
    };
    multiplyBfloat16<Form>(dispatch, rest, count * window.outWidth, put, out, scratch + parts.count * words);
    const std::size_t done = count * window.outWidth * strideOf(rest);
    out += done * sizeOfResult(rest);
    if (rest.added != nullptr) rest.added += done;
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BFLOAT16_H_
