// reachable_functions.h: which functions of the kernel library the layers of a program can reach, and a table of them.
#ifndef TFAOT_KERNELS_REACHABLE_FUNCTIONS_H_
#define TFAOT_KERNELS_REACHABLE_FUNCTIONS_H_

#include "small_dense.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// Declarations; the library's parts have the definitions. Program and library are linked into one object.
template <int kRows, int kWidth, bool kShares>
void sumBlocks(const Strip& strip, const Product& product, const float* const* rows, std::size_t blocks, Target out);
template <int kRows, int kWidth>
void sumInChains(const Strip& strip, std::size_t length, const float* const* rows, Target out);
void sumChains(const Strip& strip, const Product& product, const float* const* rows, std::size_t count, std::size_t width,
               Target out);
template <int kKind>
void activateBlock(Activation activation, float* data, std::size_t rows, std::size_t width, std::size_t stride);
template <Convolving kConvolving>
void convolveLines(const Dispatch& dispatch, const Conv2d& layer, const Reading& reading, const float* image,
                   std::size_t line, std::size_t count, float* out, float* scratch);
template <int kFilters>
void sumPlaces(const SeenTaps& taps, std::size_t places, float* sums, std::size_t stride);
template <int kRows>
void interleave(const float* sums, std::size_t stride, std::size_t places, std::size_t count, float* out);
template <int kTaps, int kStride>
void convolveLineOfTaps(const Dispatch& dispatch, const Conv2d& layer, const SeenLines& seen, float* out);

/// The number of rows that a layer gets: `constant`, and `perRow` times each number from 1 to `most`.
struct Rows {
  std::size_t constant, perRow, most;
};

/// The functions that layers can reach. Each member function returns what can be reached with one more layer.
class Reached {
 public:
  /// With a layer of `dense` (small_dense.h).
  constexpr Reached dense(std::size_t inputs, std::size_t outputs, Activation activation, Rows rows) const {
    return withDense({inputs, outputs, isChained(inputs, outputs)}, activation, rows, mostFew(inputs, outputs));
  }

  /// With a layer of `dense` (dispatch.h).
  constexpr Reached product(std::size_t inputs, std::size_t outputs, Activation activation, Rows rows) const {
    return withDense({inputs, outputs, isChained(inputs, outputs)}, activation, rows, 0);
  }

  /// With a layer of `denseInTree` (small_dense.h).
  constexpr Reached activating(Activation activation) const {
    Reached all = *this;
    all.activations_[activation] = true;
    return all;
  }

  /// With layers of `dense` whose sizes are known only at run time.
  constexpr Reached products() const {
    Reached all = *this;
    for (std::size_t rows = 1; rows <= kBlockRows; ++rows) {
      for (std::size_t width = 1; width <= widestOf({}, rows); ++width) {
        all.blocks_[rows - 1][width - 1] = true;
        all.sharing_[rows - 1][width - 1] = isShared(1, rows, width);
      }
    }
    for (std::size_t rows = 1; rows <= kChainRows; ++rows) {
      for (std::size_t width = 1; rows * width <= kChainRows && width <= kChainWidth; ++width) {
        all.chainBlocks_[rows - 1][width - 1] = true;
      }
    }
    all.chains_ = true;
    return all;
  }

  /// With all activations.
  constexpr Reached activations() const {
    Reached all = *this;
    for (bool& activation : all.activations_) activation = true;
    return all;
  }

  /// With convolutions of all kinds; they need `products`, too.
  constexpr Reached images() const {
    Reached all = *this;
    for (bool& convolution : all.convolutions_) convolution = true;
    for (int i = 0; i < 4; ++i) all.taps_[i / 2][i % 2] = true;  // GCC 9 cannot refer to a row of them in a constant
    for (bool& filters : all.places_) filters = true;
    for (bool& rows : all.interleaved_) rows = true;
    return all;
  }

  constexpr Reached conv2d(const Conv2d& layer, Rows images) const {
    Reached all = with(layer);
    if (convolvingOf(layer) != convolving_groups) return all;
    Counts counts(extentOf(layer));
    const Window& window = layer.window;
    if (isPointwise(layer)) {
      const std::size_t pixels = window.inHeight * window.inWidth;
      counts.add({images.constant * pixels, images.perRow * pixels, images.most});
    } else {
      const std::size_t atATime = Reading(layer).linesAtATime;
      counts.add(atATime * window.outWidth);
      counts.add(window.outHeight % atATime * window.outWidth);
    }
    return all.with(extentOf(layer), layer.activation, counts);
  }

  constexpr Reached transposedConv2d(const Conv2d& layer) const {
    Reached all = *this;
    all.activations_[layer.activation] = true;
    all.places_[layer.filters - 1] = all.interleaved_[layer.filters * layer.window.strideWidth - 1] = true;
    return all;
  }

  constexpr Reached conv2dMaxPool(const Conv2d& layer, const Window& pool) const {
    Reached all = with(layer);
    if (convolvingOf(layer) != convolving_groups) return all;
    Counts counts(extentOf(layer));
    const std::size_t kept = Ring(layer, pool).lines, atATime = Reading(layer).linesAtATime;
    counts.add({0, layer.window.outWidth, kept < atATime ? kept : atATime});
    return all.with(extentOf(layer), layer.activation, counts);
  }

  constexpr Dispatch table() const;

 private:
  /// The numbers of rows that may be multiplied at a time.
  struct Counts {
    std::size_t most;
    bool has[kMostRowsAtATime + 1] = {};

    constexpr explicit Counts(const Extent& extent) : most(rowsAtATime(extent.inputs)) {}

    constexpr void add(std::size_t rows) {
      if (rows >= most) has[most] = true;
      has[rows % most] = true;
    }

    /// Adds those above `few`.
    constexpr void add(Rows rows, std::size_t few = 0) {
      for (std::size_t i = 1; i <= rows.most; ++i) {
        const std::size_t count = rows.constant + i * rows.perRow;
        if (count > few) add(count);
      }
    }
  };

  static constexpr Extent extentOf(const Conv2d& layer) { return {windowSize(layer), layer.filters / layer.groups, false}; }

  constexpr Reached withDense(const Extent& extent, Activation activation, Rows rows, std::size_t few) const {
    Counts counts(extent);
    counts.add(rows, few);
    return with(extent, activation, counts).activating(activation);
  }

  constexpr Reached with(const Conv2d& layer) const {
    Reached all = *this;
    const Convolving convolving = convolvingOf(layer);
    all.activations_[layer.activation] = true;
    all.convolutions_[convolving] = true;
    if (convolving == convolving_places) all.places_[layer.filters - 1] = all.interleaved_[layer.filters - 1] = true;
    if (convolving == convolving_taps) all.taps_[layer.window.width / 2 - 1][layer.window.strideWidth - 1] = true;
    return all;
  }

  constexpr Reached with(const Extent& extent, Activation activation, const Counts& counts) const {
    Reached all = *this;
    // Other activations read sums again from memory, so rows with gaps share no vectors (`multiplyLastStrip`).
    const bool alwaysShares = activation == Activation::none || isBounds(activation);
    for (std::size_t count = 1; count <= counts.most; ++count) {
      if (!counts.has[count]) continue;
      divideRows(extent, count, [&](std::size_t, std::size_t size, std::size_t more, std::size_t blocks, std::size_t most) {
        const Strips strips(extent.columns, most);
        for (std::size_t width = strips.width; width <= strips.width + (strips.wider > 0); ++width) {
          const bool isLast = width == strips.width, isOnlyLast = isLast && strips.count == strips.wider + 1;
          if (more > 0) all.addBlock(extent, size + 1, width, isLast, alwaysShares && isOnlyLast);
          if (blocks > 0) all.addBlock(extent, size, width, isLast, alwaysShares && isOnlyLast);
        }
      });
    }
    return all;
  }

  /// A block of so many rows and vectors. `shares`: whether rows share the last vector if they can, `always`: without exception.
  constexpr void addBlock(const Extent& extent, std::size_t rows, std::size_t width, bool shares, bool always) {
    if (extent.chained) chains_ = true;
    if (!extent.chained || isChainByChain(rows, width)) {
      shares = shares && !extent.chained && isShared(extent.columns, rows, width);
      if (shares) sharing_[rows - 1][width - 1] = true;
      if (!shares || !always) blocks_[rows - 1][width - 1] = true;
    } else {
      divideChains(rows, width, [&](std::size_t, std::size_t size) { chainBlocks_[size - 1][width - 1] = true; });
    }
  }

  template <std::size_t... kPlace>
  constexpr void fillBlocks(Dispatch& table, std::index_sequence<kPlace...>) const {
    (fillBlock<kPlace / kMostWidth + 1, kPlace % kMostWidth + 1>(table), ...);
  }

  /// Using a block that does not exist is not a constant expression, so such a program does not compile.
  template <int kRows, int kWidth>
  constexpr void fillBlock(Dispatch& table) const {
    if constexpr (kWidth <= kBlockWidth[kRows]) {
      if (blocks_[kRows - 1][kWidth - 1]) table.blocks[kRows - 1][kWidth - 1] = &sumBlocks<kRows, kWidth, false>;
      if constexpr (isShared(1, kRows, kWidth)) {
        if (sharing_[kRows - 1][kWidth - 1]) table.sharing[kRows - 1][kWidth - 1] = &sumBlocks<kRows, kWidth, true>;
      }
    } else {
      if (blocks_[kRows - 1][kWidth - 1]) __builtin_trap();
    }
  }

  template <std::size_t... kPlace>
  constexpr void fillChainBlocks(Dispatch& table, std::index_sequence<kPlace...>) const {
    (fillChainBlock<kPlace / kChainWidth + 1, kPlace % kChainWidth + 1>(table), ...);
  }

  template <int kRows, int kWidth>
  constexpr void fillChainBlock(Dispatch& table) const {
    if constexpr (kRows * kWidth * kChains <= kChainSums) {
      if (chainBlocks_[kRows - 1][kWidth - 1]) table.chainBlocks[kRows - 1][kWidth - 1] = &sumInChains<kRows, kWidth>;
    } else {
      if (chainBlocks_[kRows - 1][kWidth - 1]) __builtin_trap();
    }
  }

  template <std::size_t... kFilters>
  constexpr void fillPlaces(Dispatch& table, std::index_sequence<kFilters...>) const {
    ((places_[kFilters] ? void(table.places[kFilters] = &sumPlaces<kFilters + 1>) : void()), ...);
  }

  template <std::size_t... kRows>
  constexpr void fillInterleaved(Dispatch& table, std::index_sequence<kRows...>) const {
    ((interleaved_[kRows] ? void(table.interleaved[kRows] = &interleave<kRows + 1>) : void()), ...);
  }

  template <std::size_t... kKind>
  constexpr void fillActivations(Dispatch& table, std::index_sequence<kKind...>) const {
    ((kKind != Activation::none && activations_[kKind] ? void(table.activations[kKind] = &activateBlock<kKind>) : void()), ...);
  }

  bool blocks_[kBlockRows][kMostWidth] = {};
  bool sharing_[kBlockRows][kMostWidth] = {};
  bool chainBlocks_[kChainRows][kChainWidth] = {};
  bool activations_[kActivations] = {};
  bool convolutions_[kConvolvings] = {};
  bool taps_[2][2] = {};
  bool places_[kMostFewFilters] = {};
  bool interleaved_[kMostInterleaved] = {};
  bool chains_ = false;
};

// Outside of the class, because Clang instantiates the called functions only after the class is complete.
constexpr Dispatch Reached::table() const {
  Dispatch table{};
  fillBlocks(table, std::make_index_sequence<kBlockRows * kMostWidth>{});
  fillChainBlocks(table, std::make_index_sequence<kChainRows * kChainWidth>{});
  fillActivations(table, std::make_index_sequence<kActivations>{});
  fillPlaces(table, std::make_index_sequence<kMostFewFilters>{});
  fillInterleaved(table, std::make_index_sequence<kMostInterleaved>{});
  if (chains_) table.chains = &sumChains;
  if (convolutions_[convolving_groups]) table.convolutions[convolving_groups] = &convolveLines<convolving_groups>;
  if (convolutions_[convolving_channels]) table.convolutions[convolving_channels] = &convolveLines<convolving_channels>;
  if (convolutions_[convolving_taps]) table.convolutions[convolving_taps] = &convolveLines<convolving_taps>;
  if (convolutions_[convolving_places]) table.convolutions[convolving_places] = &convolveLines<convolving_places>;
  if (taps_[0][0]) table.taps[0][0] = &convolveLineOfTaps<3, 1>;
  if (taps_[0][1]) table.taps[0][1] = &convolveLineOfTaps<3, 2>;
  if (taps_[1][0]) table.taps[1][0] = &convolveLineOfTaps<5, 1>;
  if (taps_[1][1]) table.taps[1][1] = &convolveLineOfTaps<5, 2>;
  return table;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_REACHABLE_FUNCTIONS_H_
