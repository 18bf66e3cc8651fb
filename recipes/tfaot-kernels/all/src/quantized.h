// quantized.h: products of bytes with packed constant weights, in sums of int32, and requantization.
//
// Sums of integers are the same in any order, modulo 2^32 as the additions of a CPU are, so that all forms of these products
// give the same bits. Inputs are rewritten for a form, some rows at a time, into memory of the caller: this costs little
// beside the products with all columns, and ends rows of any length and windows of images alike.
#ifndef TFAOT_KERNELS_QUANTIZED_H_
#define TFAOT_KERNELS_QUANTIZED_H_

#include <limits>

#include "pooling.h"
#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// A number in all lanes, by instructions: libraries without bytes leave these functions out, but not their constants.
template <class Number>
TFAOT_INLINE auto broadcastByCode(Number x) {
  TFAOT_OPAQUE_TO_GCC("+r", x);
  TFAOT_OPAQUE_TO_CLANG("+r", x);
  return broadcast(x);
}

/// Bytes of one row of a panel: four inputs of each column.
inline constexpr std::size_t kPanelOfFours = kPanel * 4;
/// Rows whose sums are in registers; a form says of how many vectors of columns.
inline constexpr int kQuantizedRows = 4;

/// Four inputs as two pairs of 16 bits, those at even places and those at odd places: for every CPU.
struct InPairs {
  static constexpr int kWidth = kRegisters >= 32 ? 4 : 2;
  struct Weights {
    Integers even, odd;
  };
  using Inputs = Weights;

  static TFAOT_INLINE void put(Unsigned fours, std::uint32_t* even, std::uint32_t* odd) {
    const Unsigned low = broadcastByCode(0x00ff00ffu);
    store(even, fours & low);
    store(odd, fours >> 8 & low);
  }
  static TFAOT_INLINE Inputs inputs(const std::uint32_t* even, const std::uint32_t* odd) {
    return {bitsAs<Integers>(broadcast(*even)), bitsAs<Integers>(broadcast(*odd))};
  }
  static TFAOT_INLINE Inputs lanes(Unsigned fours) {
    const Unsigned low = broadcastByCode(0x00ff00ffu);
    return {bitsAs<Integers>(fours & low), bitsAs<Integers>(fours >> 8 & low)};
  }
  static TFAOT_INLINE Weights weights(const std::int8_t* from) {
    const Shorts both = bitsAs<Shorts>(load(from));
    return {bitsAs<Integers>((both << 8) >> 8), bitsAs<Integers>(both >> 8)};
  }
  static TFAOT_INLINE Unsigned add(Unsigned sums, Inputs inputs, Weights weights) {
    const Integers even = sumsOfPairs(inputs.even, weights.even), odd = sumsOfPairs(inputs.odd, weights.odd);
    return sums + (bitsAs<Unsigned>(even) + bitsAs<Unsigned>(odd));
  }
};

/// Four inputs as they are, for CPUs with an instruction that adds their products with four weights (`addDots`).
struct InFours {
  static constexpr int kWidth = kRegisters >= 32 ? 4 : 3;
  using Weights = Integers;
  using Inputs = Unsigned;

  static TFAOT_INLINE void put(Unsigned fours, std::uint32_t* all, std::uint32_t*) { store(all, fours); }
  static TFAOT_INLINE Inputs inputs(const std::uint32_t* all, const std::uint32_t*) { return broadcast(*all); }
  static TFAOT_INLINE Inputs lanes(Unsigned fours) { return fours; }
  static TFAOT_INLINE Weights weights(const std::int8_t* from) { return bitsAs<Integers>(load(from)); }
  static TFAOT_INLINE Unsigned add(Unsigned sums, Inputs inputs, Weights weights) { return addDots(sums, inputs, weights); }
};

/// Writes `count` bytes in a form, with zeros up to a multiple of four. `flip` changes bits of each byte.
template <class Form>
inline void rewriteRow(const std::uint8_t* from, std::size_t count, std::uint8_t flip, std::uint32_t* to) {
  const std::size_t fours = foursOf(count);
  const Unsigned flips = broadcast(flip * 0x01010101u);
  std::uint32_t* odd = to + fours;
  const auto bytesOfVector = kLanes * sizeof *to;
  for (; count >= bytesOfVector; count -= bytesOfVector, from += bytesOfVector, to += kLanes, odd += kLanes) {
    Form::put(bitsAs<Unsigned>(load(from)) ^ flips, to, odd);
  }
  if (count == 0) return;
  std::uint32_t last[kLanes] = {}, evens[kLanes], odds[kLanes];
  std::memcpy(last, from, count);
  Form::put(load(last) ^ flips, evens, odds);
  const std::size_t size = foursOf(count) * sizeof *to;
  std::memcpy(to, evens, size);
  if constexpr (std::is_same_v<Form, InPairs>) std::memcpy(odd, odds, size);
}

/// Sums of `kRows` rows and `kWidth` vectors of columns from `vector` on.
template <class Form, int kRows, int kWidth>
TFAOT_ALONE void sumQuantized(const QuantizedDense& layer, const std::uint32_t* rows, std::size_t vector, std::int32_t* out) {
  const std::size_t fours = foursOf(layer.inputs);
  const std::int8_t* weights[kWidth];
  Unsigned sums[kRows][kWidth];
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) {
    const std::size_t number = vector + v;
    weights[v] = layer.weights + number / kVectors * fours * kPanelOfFours + number % kVectors * kLanes * 4;
    const Unsigned bias = bitsAs<Unsigned>(load(layer.bias + number * kLanes));
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r][v] = bias;
  }
  for (std::size_t i = 0; i < fours; ++i) {
    typename Form::Weights weight[kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) weight[v] = Form::weights(weights[v] + i * kPanelOfFours);
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const std::uint32_t* row = rows + r * 2 * fours + i;
      const typename Form::Inputs inputs = Form::inputs(row, row + fours);
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = Form::add(sums[r][v], inputs, weight[v]);
    }
  }
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) store(out + (r * kWidth + v) * kLanes, bitsAs<Integers>(sums[r][v]));
  }
}

template <class Form, int kRows, int kWidth>
TFAOT_INLINE void sumQuantized(const QuantizedDense& layer, const std::uint32_t* rows, std::size_t vector, std::size_t width,
                               std::int32_t* out) {
  if constexpr (kWidth > 1) {
    if (width < kWidth) return sumQuantized<Form, kRows, kWidth - 1>(layer, rows, vector, width, out);
  }
  sumQuantized<Form, kRows, kWidth>(layer, rows, vector, out);
}

/// The largest byte of each channel and window, window by window.
template <class Byte>
inline void maxPoolBytes(const Window& window, std::size_t batch, const Byte* in, Byte* out) {
  constexpr std::size_t kBytes = kLanesOf<Byte>;
  const std::size_t channels = window.channels, lineSize = window.inWidth * channels;
  for (; batch > 0; --batch, in += window.inHeight * lineSize) {
    for (std::size_t y = 0; y < window.outHeight; ++y) {
      const Taps rows = tapsOfLine(window, y);
      for (std::size_t x = 0; x < window.outWidth; ++x, out += channels) {
        const Taps columns = tapsOfColumn(window, x);
        const Byte* const first = in + rows.first * lineSize + columns.first * channels;
        const auto largest = [&](std::size_t c, auto read) {
          auto found = broadcastByCode(std::numeric_limits<Byte>::min());
          for (std::size_t i = 0; i < rows.count; ++i) {
            const Byte* tap = first + i * window.dilationHeight * lineSize + c;
            for (std::size_t j = 0; j < columns.count; ++j, tap += window.dilationWidth * channels) {
              found = larger(read(tap), found);
            }
          }
          return found;
        };
        std::size_t c = 0;
        for (; c + kBytes <= channels; c += kBytes) store(out + c, largest(c, [](const Byte* tap) { return load(tap); }));
        if (const std::size_t rest = channels - c) {
          storeFirst(out + c, rest, largest(c, [rest](const Byte* tap) { return loadFirst(tap, rest); }));
        }
      }
    }
  }
}

/// Elements between the results of rows.
template <class Layer>
constexpr std::size_t strideOf(const Layer& layer) {
  return layer.stride == 0 ? layer.outputs : layer.stride;
}

/// Bytes of a result, and of a row of them.
inline std::size_t sizeOfInput(const QuantizedDense&) { return 1; }
inline std::size_t sizeOfResult(const QuantizedDense& layer) { return layer.scales == nullptr ? sizeof(std::int32_t) : 1; }
inline std::size_t bytesOfResult(const QuantizedDense& layer) { return layer.outputs * sizeOfResult(layer); }

/// Whole numbers as bytes: plus a zero point, between two bounds. They are counted from the lower one of the zero point and the lower
/// bound, so that bytes without a sign have them, and no sum of integers is beyond them.
class Bounds {
 public:
  Bounds(std::int32_t zero, std::int32_t low, std::int32_t high) : Bounds(zero, low, high, low < zero ? low : zero) {}

  /// Numbers that become the same byte as `x`, which is no NaN; those below all bytes need no bound.
  TFAOT_INLINE Integers number(Vector x) const { return nearest(smaller(high_, x)) + offset_; }
  TFAOT_INLINE VectorOf<std::uint8_t> bytes(Integers a, Integers b, Integers c, Integers d) const {
    return larger(bytesOf(a, b, c, d), low_) + base_;
  }

 private:
  Bounds(std::int32_t zero, std::int32_t low, std::int32_t high, std::int32_t base)
      : high_(broadcast(static_cast<float>(high - zero))), offset_(broadcast(zero - base)),
        low_(broadcast(static_cast<std::uint8_t>(low - base))), base_(broadcast(static_cast<std::uint8_t>(base))) {}

  Vector high_;
  Integers offset_;
  VectorOf<std::uint8_t> low_, base_;
};

/// Sums as numbers of bytes, a vector at a time.
class Scaled {
 public:
  static constexpr bool kAdds = false;
  explicit Scaled(const QuantizedDense& layer) : bounds_(layer.zero, layer.low, layer.high) {}

  const Bounds& bounds() const { return bounds_; }
  TFAOT_INLINE Integers operator()(Integers sums, Vector scales, const std::uint8_t*) const {
    return bounds_.number(__builtin_convertvector(sums, Vector) * scales);
  }

 private:
  const Bounds bounds_;
};

/// The same with `layer.residual`. Divisions take longer than all the rest; if `kIsAffine`, two fused operations stand for them.
template <bool kIsAffine>
class ScaledAndAdded {
 public:
  static constexpr bool kAdds = true;
  explicit ScaledAndAdded(const QuantizedDense& layer) : ScaledAndAdded(layer, layer.residual) {}

  const Bounds& bounds() const { return bounds_; }
  TFAOT_INLINE Integers operator()(Integers sums, Vector scales, const std::uint8_t* added) const {
    const Vector scaled = smaller(high_, larger(low_, __builtin_convertvector(sums, Vector) * scales));
    // Beside a number so large a float has no bits for fractions.
    const Vector large = broadcast(0x1.8p+23f), whole = scaled + large - large;
    const Integers other = widened(reinterpret_cast<const std::int8_t*>(added)) & mask_;
    if constexpr (kIsAffine) {
      const Vector addend = multiplyAdd(__builtin_convertvector(other, Vector), factorOfAdded_, offset_);
      return bounds_.number(multiplyAdd(whole, factor_, addend));
    }
    const Vector total = whole * factor_ + __builtin_convertvector(other - zeroOfAdded_, Vector) * factorOfAdded_;
    return bounds_.number(total / divisor_);
  }

 private:
  ScaledAndAdded(const QuantizedDense& layer, const Residual& residual)
      : low_(broadcast(static_cast<float>(layer.low - layer.zero))), high_(broadcast(static_cast<float>(layer.high - layer.zero))),
        factor_(broadcast(kIsAffine ? residual.factor : residual.scale)),
        factorOfAdded_(broadcast(kIsAffine ? residual.factorOfAdded : residual.scaleOfAdded)), offset_(broadcast(residual.offset)),
        divisor_(broadcast(residual.divisor)), mask_(broadcast(residual.mask)), zeroOfAdded_(broadcast(residual.zeroOfAdded)),
        bounds_(residual.zero, residual.low, residual.high) {}

  const Vector low_, high_, factor_, factorOfAdded_, offset_, divisor_;
  const Integers mask_, zeroOfAdded_;
  const Bounds bounds_;
};

/// The last step of rows: sums as bytes, or as they are. `out` is where the results of the whole layer begin.
class Finish {
 public:
  Finish(const QuantizedDense& layer, const void* out) : layer_(layer), out_(static_cast<const char*>(out)) {}

  /// `columns` sums of each row, from `column` on; rows of them lie `stride` sums apart. `to` is the beginning of the first row of
  /// results, which lie `apart` bytes apart.
  void operator()(const std::int32_t* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, char* to,
                  std::size_t apart) const {
    if (layer_.scales == nullptr) {
      for (; rows > 0; --rows, sums += stride, to += apart) copy(sums, columns, reinterpret_cast<std::int32_t*>(to) + column);
      return;
    }
    const Rows all = {sums, stride, layer_.scales + column, nullptr, reinterpret_cast<std::uint8_t*>(to) + column, apart};
    if (layer_.residual.added == nullptr) return finish(Scaled(layer_), all, rows, columns);
    Rows added = all;
    added.added = static_cast<const std::uint8_t*>(layer_.residual.added) + (to - out_) + column;
    if (kFuses && layer_.residual.factor != 0.0f) return finish(ScaledAndAdded<kFuses>(layer_), added, rows, columns);
    finish(ScaledAndAdded<false>(layer_), added, rows, columns);
  }

 private:
  using Bytes = VectorOf<std::uint8_t>;
  static constexpr std::size_t kBytes = kLanesOf<std::uint8_t>;

  struct Rows {
    const std::int32_t* sums;
    std::size_t stride;
    const float* scales;
    const std::uint8_t* added;  ///< null for none
    std::uint8_t* to;
    std::size_t apart;

    template <class Last>
    TFAOT_INLINE void next(std::size_t rows) {
      sums += rows * stride;
      to += rows * apart;
      if constexpr (Last::kAdds) added += rows * apart;
    }
  };

  template <class Last>
  static TFAOT_INLINE void finish(const Last last, Rows rows, std::size_t count, std::size_t columns) {
    // Rows of one or two vectors: several at a time.
    if (columns == 2 * kLanes) {
      for (; count >= 2; count -= 2, rows.template next<Last>(2)) finishShort<2>(last, rows);
    } else if (columns == kLanes) {
      for (; count >= 4; count -= 4, rows.template next<Last>(4)) finishShort<4>(last, rows);
    }
    for (; count > 0; --count, rows.template next<Last>(1)) {
      std::size_t i = 0;
      for (; i + kBytes <= columns; i += kBytes) {
        store(rows.to + i, bytes(last, [&](int v) { return vector(last, rows, i + v * kLanes, rows.added, i + v * kLanes); }));
      }
      if (i < columns) finishRest(last, rows, i, columns - i);
    }
  }

  template <int kRows, class Last>
  static TFAOT_INLINE void finishShort(const Last& last, const Rows& rows) {
    constexpr int kOfRow = 4 / kRows;
    const Bytes all = bytes(last, [&](int v) {
      Rows row = rows;
      row.template next<Last>(v / kOfRow);
      const std::size_t column = v % kOfRow * kLanes;
      return vector(last, row, column, row.added, column);
    });
    storeParts<kRows>(rows.to, rows.apart, all);
  }

  /// The last columns of a row, fewer than kBytes. Vectors behind these repeat the first one.
  template <class Last>
  static TFAOT_INLINE void finishRest(const Last& last, const Rows& rows, std::size_t column, std::size_t count) {
    std::uint8_t added[kBytes];
    if constexpr (Last::kAdds) store(added, loadFirst(rows.added + column, count));
    const Bytes all = bytes(last, [&](int v) {
      const std::size_t from = static_cast<std::size_t>(v) * kLanes < count ? v * kLanes : 0;
      return vector(last, rows, column + from, added, from);
    });
    storeFirst(rows.to + column, count, all);
  }

  /// A vector of columns from `column` on; what is added begins at `place` of `added`.
  template <class Last>
  static TFAOT_INLINE Integers vector(const Last& last, const Rows& rows, std::size_t column, const std::uint8_t* added,
                                      std::size_t place) {
    if constexpr (Last::kAdds) added += place;
    return last(load(rows.sums + column), load(rows.scales + column), added);
  }
  template <class Last, class Of>
  static TFAOT_INLINE Bytes bytes(const Last& last, Of of) {
    return last.bounds().bytes(of(0), of(1), of(2), of(3));
  }

  /// Vector by vector: a copy of an unknown size would be `rep movs`, which takes longer to begin than to copy.
  static TFAOT_INLINE void copy(const std::int32_t* sums, std::size_t count, std::int32_t* to) {
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) std::memcpy(to + i, sums + i, sizeof(Integers));
    for (std::size_t lane = 0; i < count && lane < kLanes; ++lane) {
      if (i + lane < count) to[i + lane] = sums[i + lane];
    }
  }

  const QuantizedDense& layer_;
  const char* const out_;
};

/// Some rows, which are rewritten, times all columns; results lie `stride` bytes apart.
template <class Form>
inline void multiplyQuantized(const QuantizedDense& layer, const Finish& finish, const std::uint32_t* rows, std::size_t count,
                              void* out, std::size_t stride) {
  const std::size_t vectors = vectorsOf(layer.outputs), step = 2 * foursOf(layer.inputs);
  for (std::size_t vector = 0; vector < vectors; vector += Form::kWidth) {
    const std::size_t left = vectors - vector, width = left < Form::kWidth ? left : Form::kWidth;
    const std::size_t column = vector * kLanes, rest = layer.outputs - column;
    const std::size_t columns = rest < width * kLanes ? rest : width * kLanes;
    for (std::size_t row = 0, size; row < count; row += size) {
      alignas(64) std::int32_t sums[kQuantizedRows * Form::kWidth * kLanes];
      const std::uint32_t* from = rows + row * step;
      if (count - row >= kQuantizedRows) {
        sumQuantized<Form, kQuantizedRows, Form::kWidth>(layer, from, vector, width, sums);
        size = kQuantizedRows;
      } else if (count - row >= 2) {
        sumQuantized<Form, 2, Form::kWidth>(layer, from, vector, width, sums);
        size = 2;
      } else {
        sumQuantized<Form, 1, Form::kWidth>(layer, from, vector, width, sums);
        size = 1;
      }
      finish(sums, width * kLanes, size, column, columns, static_cast<char*>(out) + row * stride, stride);
    }
  }
}

/// `count` rows times all columns; `put(row, to)` writes a row in the form, `layer.inputs` bytes of it.
template <class Form, class Put>
inline void multiplyQuantized(const QuantizedDense& layer, std::size_t count, Put put, void* out, std::uint32_t* scratch) {
  const std::size_t stride = strideOf(layer) * sizeOfResult(layer);
  const Finish finish(layer, out);
  for (std::size_t first = 0; first < count; first += kQuantizedRowsAtATime) {
    const std::size_t left = count - first, size = left < kQuantizedRowsAtATime ? left : kQuantizedRowsAtATime;
    for (std::size_t r = 0; r < size; ++r) put(first + r, scratch + r * 2 * foursOf(layer.inputs));
    multiplyQuantized<Form>(layer, finish, scratch, size, static_cast<char*>(out) + first * stride, stride);
  }
}

template <class Form>
inline void denseQuantized(const QuantizedDense& layer, std::size_t batch, const std::uint8_t* in, void* out,
                           std::uint32_t* scratch) {
  const auto put = [&](std::size_t row, std::uint32_t* to) {
    rewriteRow<Form>(in + row * layer.inputs, layer.inputs, layer.flip, to);
  };
  multiplyQuantized<Form>(layer, batch, put, out, scratch);
}

/// A copy by loads and stores of known sizes: calls for a few bytes would take longer than their products.
TFAOT_INLINE void copyBytes(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  if (count >= 16) {
    for (std::size_t i = 0; i + 16 < count; i += 16) std::memcpy(to + i, from + i, 16);
    std::memcpy(to + count - 16, from + count - 16, 16);
  } else if (count >= 8) {
    std::uint64_t first, last;
    std::memcpy(&first, from, 8);
    std::memcpy(&last, from + count - 8, 8);
    std::memcpy(to, &first, 8);
    std::memcpy(to + count - 8, &last, 8);
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

/// Lines of windows: all of some images, or some of one image.
struct LinesOfImages {
  std::size_t images, first, count;  ///< the last two are those of an image
};

/// Some lines of an image, between its padding, as bytes without a sign.
class CopiedLines {
 public:
  CopiedLines(const QuantizedConv2d& layer, std::size_t columns, std::uint8_t* memory)
      : layer_(layer), memory_(memory), size_(columns * layer.window.channels) {}

  std::size_t sizeOfLine() const { return size_; }
  const std::uint8_t* line(std::size_t number) const { return memory_ + number * size_; }

  /// Those that `count` lines of windows cover, from `first` on.
  void copy(const std::uint8_t* image, std::size_t first, std::size_t count) const {
    const Window& window = layer_.window;
    const std::size_t lines = (count - 1) * window.strideHeight + reach(window.height, window.dilationHeight);
    const std::uint8_t flip = layer_.product.flip, padding = layer_.padding ^ flip;
    const std::size_t left = window.padLeft * window.channels, sizeOfImage = window.inWidth * window.channels;
    const std::size_t inside = left < size_ ? (sizeOfImage < size_ - left ? sizeOfImage : size_ - left) : 0;
    for (std::size_t i = 0; i < lines; ++i) {
      std::uint8_t* const to = memory_ + i * size_;
      const std::size_t y = first * window.strideHeight + i - window.padTop;  // modulo 2^64: what lies before the image is beyond its size
      if (y >= window.inHeight || inside == 0) {
        std::memset(to, padding, size_);
        continue;
      }
      std::memset(to, padding, left);
      const std::uint8_t* const from = image + y * sizeOfImage;
      if (flip == 0) {
        std::memcpy(to + left, from, inside);
      } else {
        rewriteRow<InFours>(from, inside, flip, reinterpret_cast<std::uint32_t*>(to + left));
      }
      std::memset(to + left + inside, padding, size_ - left - inside);
    }
  }

 private:
  const QuantizedConv2d& layer_;
  std::uint8_t* const memory_;
  const std::size_t size_;
};

/// A copy of whole steps of 16 bytes, up to 15 behind the last one: calls for a few bytes would take longer than their products.
TFAOT_INLINE void copySteps(std::uint8_t* to, const std::uint8_t* from, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kCopied) std::memcpy(to + i, from + i, kCopied);
}

/// The windows of images, one after the other, as bytes without a sign. They are copied from lines between their padding, of which some
/// at a time are in `scratch`.
class WindowsInOrder {
 public:
  WindowsInOrder(const QuantizedConv2d& layer, LinesOfImages all, const std::uint8_t* images, std::uint32_t* scratch)
      : layer_(layer), all_(all), band_(bandOfBytes(layer.window)), lines_(layer, band_.columns, reinterpret_cast<std::uint8_t*>(scratch)),
        line_(layer.window.dilationHeight * lines_.sizeOfLine()), apart_(layer.window.dilationWidth * layer.window.channels),
        runs_(layer.window.dilationWidth == 1 ? 1 : layer.window.width),
        run_((layer.window.dilationWidth == 1 ? layer.window.width : 1) * layer.window.channels), image_(images), next_(all.first),
        behind_(scratch + wordsOfLines(layer.window)) {}

  /// The rest of `scratch`.
  std::uint32_t* behindLines() const { return behind_; }

  /// Writes layer.product.inputs bytes, and up to kCopied of any value behind them.
  TFAOT_INLINE void copyNext(std::uint8_t* to) {
    const Window& window = layer_.window;
    if (y_ == count_) copyLines();
    const std::uint8_t* from = lines_.line(y_ * window.strideHeight) + x_ * window.strideWidth * window.channels;
    for (std::size_t i = 0; i < window.height; ++i, from += line_) {
      for (std::size_t j = 0; j < runs_; ++j, to += run_) copySteps(to, from + j * apart_, run_);
    }
    if (++x_ < window.outWidth) return;
    x_ = 0;
    ++y_;
  }

 private:
  void copyLines() {
    const std::size_t end = all_.first + all_.count;
    if (next_ == end) {
      next_ = all_.first;
      image_ += layer_.window.inHeight * layer_.window.inWidth * layer_.window.channels;
    }
    count_ = end - next_ < band_.lines ? end - next_ : band_.lines;
    lines_.copy(image_, next_, count_);
    next_ += count_;
    y_ = 0;
  }

  const QuantizedConv2d& layer_;
  const LinesOfImages all_;
  const CopiedBand band_;
  const CopiedLines lines_;
  const std::size_t line_, apart_;  ///< bytes between lines and between pixels of a window
  const std::size_t runs_, run_;    ///< of adjacent bytes in a line of a window, and their size
  const std::uint8_t* image_;
  std::size_t next_, count_ = 0, x_ = 0, y_ = 0;  ///< the line that is copied next; lines of windows that are copied, and the place in them
  std::uint32_t* const behind_;
};

/// The windows of an image are rows. A window is copied to its place among them, or first behind them if the form rewrites it.
template <class Form>
inline void convolveQuantized(const QuantizedConv2d& layer, LinesOfImages all, const std::uint8_t* in, void* out,
                              std::uint32_t* scratch) {
  const std::size_t inputs = layer.product.inputs, count = all.images * all.count * layer.window.outWidth;
  WindowsInOrder windows(layer, all, in, scratch);
  std::uint32_t* const rows = windows.behindLines();
  auto* const copy = reinterpret_cast<std::uint8_t*>(rows + quantizedDenseScratch(inputs + kCopied));
  const auto put = [&](std::size_t, std::uint32_t* to) {
    constexpr bool kIsInPlace = std::is_same_v<Form, InFours>;
    windows.copyNext(kIsInPlace ? reinterpret_cast<std::uint8_t*>(to) : copy);
    if constexpr (!kIsInPlace) rewriteRow<Form>(copy, inputs, 0, to);
  };
  multiplyQuantized<Form>(layer.product, count, put, out, rows);
}

/// Whether the CPU has an instruction that adds the products of four bytes.
inline bool hasDots() {
  if constexpr (kMayAddDots<Integers>) return addsDots();
  return false;
}

/// Calls `run(Form)` with the fastest form of the CPU.
template <class Run>
inline void withForm(Run run) {
  if constexpr (kMayAddDots<Integers>) {
    if (hasDots()) return run(InFours{});
  }
  run(InPairs{});
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_QUANTIZED_H_
