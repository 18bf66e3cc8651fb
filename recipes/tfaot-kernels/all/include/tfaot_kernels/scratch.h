// tfaot_kernels/scratch.h: the order in which convolutions read their input, and the memory that they need for it. Both are
// known at compile time, so that callers can check the memory that they reserve. Part of kernels.h.
#ifndef TFAOT_KERNELS_SCRATCH_H_
#define TFAOT_KERNELS_SCRATCH_H_

#include "tfaot_kernels/kernels.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The most rows that are multiplied with weights at a time (products.h): more of them if they have few inputs each, which
/// stay in the L1 cache. With 64 for all, a pointwise convolution of 16 channels spends 5 % of its time between blocks.
constexpr std::size_t rowsAtATime(std::size_t inputs) { return inputs <= 16 ? 256 : inputs <= 32 ? 128 : 64; }
inline constexpr std::size_t kMostRowsAtATime = rowsAtATime(1);
/// Rows that fill blocks of any size nearly evenly.
inline constexpr std::size_t kManyRows = 64;

/// The number of lines that a window covers, or of columns.
constexpr std::size_t reach(std::size_t kernel, std::size_t dilation) { return (kernel - 1) * dilation + 1; }

/// How a convolution reads its input.
struct Reading {
  std::size_t columns = 0, lines = 0;  ///< of the input that a line of windows covers
  bool padded = false;                 ///< whether some of that is padding
  std::size_t linesAtATime = 0;    ///< of the output; if the input is padded, it is copied between zeros for so many lines

  constexpr explicit Reading(const Conv2d& layer) {
    const Window& window = layer.window;
    columns = (window.outWidth - 1) * window.strideWidth + reach(window.width, window.dilationWidth);
    lines = reach(window.height, window.dilationHeight);
    padded = window.padTop > 0 || window.padLeft > 0 || columns > window.inWidth ||
             (window.outHeight - 1) * window.strideHeight + lines > window.inHeight;
    linesAtATime = window.outHeight;
    if (!padded) return;
    // At most 64 KiB, which the caches near the core hold, but enough lines to fill blocks.
    constexpr std::size_t kFloats = 16384;
    const std::size_t most = kFloats / (columns * window.channels);
    const std::size_t least = (kManyRows + window.outWidth - 1) / window.outWidth;
    std::size_t chosen = most > lines ? (most - lines) / window.strideHeight + 1 : 1;
    if (chosen < least) chosen = least;
    if (chosen < linesAtATime) linesAtATime = chosen;
  }

  constexpr std::size_t scratch(const Window& window) const {
    if (!padded) return 0;
    return ((linesAtATime - 1) * window.strideHeight + lines) * columns * window.channels;
  }
};

/// The most filters of a convolution that computes windows side by side, in the lanes of a vector (places.h).
inline constexpr std::size_t kMostFewFilters = 7;
/// The most elements of such a filter, over all channels.
inline constexpr std::size_t kMostTaps = 64;
/// The most filters of such a transposed convolution, times the pixels of a line per column of the image.
inline constexpr std::size_t kMostInterleaved = 8;

/// An axis of a convolution, or of a transposed one, whose result has `phases` pixels for each place of a window.
struct Placing {
  std::size_t made, in;  ///< pixels of the result and of the image
  std::size_t kernel, stride, dilation, phases;
  std::size_t pad;  ///< zeros before the image, and of a transposed convolution those after zeros were put between its pixels

  /// The first element of the filters that a phase multiplies, how many, and its first column: windows of later phases may
  /// begin one column later.
  constexpr std::size_t first(std::size_t phase) const { return phases == 1 ? 0 : (pad - phase) % phases; }
  constexpr std::size_t taps(std::size_t phase) const { return (kernel - first(phase) + phases - 1) / phases; }
  constexpr std::size_t ahead(std::size_t phase) const { return phases == 1 ? 0 : pad / phases - (pad - phase) / phases; }

  constexpr std::size_t before() const { return pad / phases; }
  constexpr std::size_t places() const { return (made + phases - 1) / phases; }
  /// Steps of the stride that the windows of one place cover.
  constexpr std::size_t reached() const {
    std::size_t most = 0;
    for (std::size_t phase = 0; phase < phases; ++phase) {
      const std::size_t end = ahead(phase) + (taps(phase) - 1) * dilation / stride + 1;
      if (end > most) most = end;
    }
    return most;
  }
};

/// How a convolution with few filters reads its image: some lines at a time, and of long lines some columns, as planes in
/// which each channel's columns are adjacent. Each column of a stride, and each line of one, has a plane of its own.
struct Planes {
  Placing rows, columns;
  std::size_t channels, filters;
  std::size_t rowsReached, columnsReached;
  std::size_t linesAtATime, columnsAtATime;  ///< places of windows

  constexpr Planes(const Conv2d& layer, bool isTransposed)
      : rows(axis(layer.window.outHeight, layer.window.inHeight, layer.window.height, layer.window.strideHeight,
                  layer.window.dilationHeight, layer.window.padTop, isTransposed)),
        columns(axis(layer.window.outWidth, layer.window.inWidth, layer.window.width, layer.window.strideWidth,
                     layer.window.dilationWidth, layer.window.padLeft, isTransposed)),
        channels(layer.window.channels), filters(layer.filters), rowsReached(rows.reached()),
        columnsReached(columns.reached()), linesAtATime(rows.places()), columnsAtATime(columns.places()) {
    constexpr std::size_t kFloats = 8192;  // what the first cache holds beside the sums
    const std::size_t line = channels * rows.stride * columns.stride;
    const std::size_t most = kFloats / (line * rowsReached);
    constexpr std::size_t kLeast = 4 * kPanel;
    const std::size_t fitting = most > columnsReached + kLeast ? most - columnsReached : kLeast;
    const bool isPointwise = rows.kernel * columns.kernel * rows.stride * columns.stride == 1;
    // Pixels of all images may come as one line.
    if (fitting < columnsAtATime || isPointwise) columnsAtATime = fitting;
    if (isPointwise) linesAtATime = 1;
    const std::size_t lines = kFloats / (line * width());
    const std::size_t chosen = lines > 2 * rowsReached ? lines - rowsReached : rowsReached;
    if (chosen < linesAtATime) linesAtATime = chosen;
  }

  /// Floats of a column of all channels, and columns of a line.
  constexpr std::size_t across() const { return channels * columns.stride; }
  constexpr std::size_t width() const { return columnsAtATime - 1 + columnsReached; }
  /// Floats of a plane, and of the sums of a filter; vectors may end up to kPanel behind them.
  constexpr std::size_t planeSize() const { return (linesAtATime - 1 + rowsReached) * width() + kPanel; }
  constexpr std::size_t sumsSize() const { return linesAtATime * width() + kPanel; }
  constexpr std::size_t lineSize() const { return (width() + 2 * kPanel) * across(); }
  constexpr std::size_t scratch() const {
    return lineSize() + rows.stride * across() * planeSize() + filters * columns.phases * sumsSize();
  }

 private:
  static constexpr Placing axis(std::size_t made, std::size_t in, std::size_t kernel, std::size_t stride,
                                std::size_t dilation, std::size_t pad, bool isTransposed) {
    if (isTransposed) return {made, in, kernel, 1, 1, stride, pad};
    return {made, in, kernel, stride, dilation, 1, pad};
  }
};

/// Whether a convolution has so few filters that windows may be computed side by side. Filters of one pixel use each number of a
/// plane only once, so that bringing it there must be worth it.
constexpr bool mayPlace(const Conv2d& layer) {
  const std::size_t taps = layer.window.height * layer.window.width;
  return layer.groups == 1 && taps <= kMostTaps && layer.filters <= (taps == 1 ? 2 : kMostFewFilters);
}

/// Lines of a convolution that are kept for pooling: line y at y % lines.
struct Ring {
  std::size_t lineSize = 0;  ///< floats
  std::size_t lines = 0;
  std::size_t pooledAtATime = 0;  ///< lines of the output that are computed from the kept lines

  constexpr Ring(const Conv2d& layer, const Window& pool) {
    const std::size_t width = layer.window.outWidth;
    lineSize = width * layer.filters;
    // Enough to fill the convolution's blocks.
    pooledAtATime = 1 + kManyRows / (pool.strideHeight * width);
    if (pooledAtATime > pool.outHeight) pooledAtATime = pool.outHeight;
    lines = (pooledAtATime - 1) * pool.strideHeight + reach(pool.height, pool.dilationHeight);
  }
};

constexpr std::size_t conv2dScratch(const Conv2d& layer) noexcept {
  const std::size_t lines = Reading(layer).scratch(layer.window), planes = mayPlace(layer) ? Planes(layer, false).scratch() : 0;
  return lines > planes ? lines : planes;
}

constexpr std::size_t transposedConv2dScratch(const Conv2d& layer) noexcept { return Planes(layer, true).scratch(); }

/// Lines of inputs, a line of zeros, and lines of sums.
constexpr std::size_t sparseDenseScratch(std::size_t inputs, std::size_t outputs) noexcept {
  return kSparseRows * (inputs + 1 + outputs);
}

/// Rows of bytes that are multiplied at a time (quantized.h), for each of which memory holds the inputs as 16 bits.
inline constexpr std::size_t kQuantizedRowsAtATime = 16;

/// Groups of four bytes, the last of which may not be full.
constexpr std::size_t foursOf(std::size_t bytes) { return (bytes + 3) / 4; }

/// A tile of the CPU (targets/amx.h) has 16 rows of 16 groups; two tiles of rows are multiplied at a time.
inline constexpr std::size_t kTileRows = 16, kTileFours = 16, kTileBytes = 4 * kTileFours;
inline constexpr std::size_t kRowsOfTwoTiles = 2 * kTileRows;
static_assert(2 * kQuantizedRowsAtATime <= kRowsOfTwoTiles, "the scratch memory below");

/// Bytes between rows: lines of the cache, by an odd number, so that rows lie in different sets of it.
constexpr std::size_t bytesOfTiledRow(std::size_t inputs) {
  return ((inputs + kTileBytes - 1) / kTileBytes | 1) * kTileBytes;
}

/// Rows that are copied for tiles at a time: loads of tiles wait for stores just before them, so that more short rows are faster
/// (windows of three colours take 14 us instead of 20, decision 088). They are no more than a third of the first cache.
constexpr std::size_t copiedRows(std::size_t inputs) {
  constexpr std::size_t kMostBytes = 16384, kMostPairs = 4;
  const std::size_t pairs = kMostBytes / (kRowsOfTwoTiles * bytesOfTiledRow(inputs));
  return (pairs < 1 ? 1 : pairs < kMostPairs ? pairs : kMostPairs) * kRowsOfTwoTiles;
}

constexpr std::size_t quantizedDenseScratch(std::size_t inputs) noexcept {
  return copiedRows(inputs) * bytesOfTiledRow(inputs) / sizeof(std::uint32_t);
}

/// Lines of an image, of which some are copied at a time, between their padding: windows that are side by side are then rows with
/// one distance, and the numbers of a line of a window follow one another, so that tiles read them in place.
struct CopiedBand {
  std::size_t tilesOfLine, rows;  ///< tiles for a line of windows, and windows of each
  std::size_t columns, lines;     ///< pixels of a copied line, and lines of windows at a time
  std::size_t channels;           ///< numbers of a copied pixel, the last of which may be zeros
  std::size_t runs;               ///< of adjacent numbers in a line of a window: its pixels if there are others between them
  std::size_t blocks, fours;      ///< tiles of a run, and groups of four bytes of each
  bool isInPlace;                 ///< whether tiles can read windows in place
  std::size_t bytes;

  /// For numbers of so many bytes, with about `most` bytes in all, but for at least so many lines of windows. Tiles of a window have at
  /// least `leastFours` groups, and adjacent pixels are filled up to such groups if `fills`.
  constexpr CopiedBand(const Window& window, std::size_t bytesOfNumber, std::size_t most, std::size_t least, std::size_t leastFours,
                       bool fills)
      : tilesOfLine((window.outWidth + kTileRows - 1) / kTileRows), rows((window.outWidth + tilesOfLine - 1) / tilesOfLine),
        columns((tilesOfLine * rows - 1) * window.strideWidth + reach(window.width, window.dilationWidth)),
        lines(window.outHeight), channels(window.channels), runs(window.dilationWidth == 1 ? 1 : window.width), blocks(1),
        fours(kTileFours), isInPlace(false), bytes(0) {
    const bool isFilled = fills && runs == 1;
    const std::size_t filled = isFilled ? foursOf(window.channels * bytesOfNumber) * 4 / bytesOfNumber : window.channels;
    const std::size_t size = window.width / runs * filled * bytesOfNumber, all = size / 4;
    // Blocks of wider numbers decide the order of sums, which would be another one in copied windows.
    if (size % 4 == 0 && (runs == 1 || bytesOfNumber == 1 || size % kTileBytes == 0)) {
      std::size_t parts = (all + kTileFours - 1) / kTileFours;
      // Of equal sizes, because there are no registers for two shapes.
      while (all % parts != 0) ++parts;
      isInPlace = all / parts >= leastFours || window.height * runs * parts == 1;
      if (isInPlace) {
        channels = filled;
        blocks = parts;
        fours = all / parts;
      }
    }
    const std::size_t reached = reach(window.height, window.dilationHeight), line = columns * channels * bytesOfNumber;
    const std::size_t fitting = most / line;
    std::size_t chosen = fitting > reached ? (fitting - reached) / window.strideHeight + 1 : 1;
    if (chosen < least) chosen = least;
    if (chosen < lines) lines = chosen;
    bytes = ((lines - 1) * window.strideHeight + reached) * line;
  }
};

/// Of bytes: no more than the first cache holds beside weights. Small tiles are multiplied as slowly as full ones.
constexpr CopiedBand bandOfBytes(const Window& window) { return {window, 1, 32768, 1, kTileFours / 2, false}; }

/// Steps of layers of bytes (quantized_steps.h): columns that have the same, orders of bytes, and rows at a time.
inline constexpr std::size_t kStepColumns = 8, kStepOrders = 3, kStepRows = 8;
static_assert(kStepOrders * (kStepRows + 1) <= 2 * kQuantizedRowsAtATime, "the scratch memory above, with the places of words");

/// Lines of an image of bytes, of which some are copied at a time, between their padding.
struct BandOfSteps {
  std::size_t columns, lines;  ///< pixels of a copied line, and lines of windows at a time
  bool isInPlace;              ///< whether groups of four bytes are those of the image, and lines have rows for a block
  std::size_t bytes;

  constexpr explicit BandOfSteps(const Window& window)
      : columns((window.outWidth - 1) * window.strideWidth + reach(window.width, window.dilationWidth)), lines(window.outHeight),
        isInPlace(window.channels % 4 == 0 && window.outWidth >= kStepRows / 2), bytes(0) {
    constexpr std::size_t kMost = 32768 / kStepOrders;  // as in bandOfBytes
    const std::size_t fitting = kMost / (columns * window.channels), reached = reach(window.height, window.dilationHeight);
    const std::size_t chosen = fitting > reached ? (fitting - reached) / window.strideHeight + 1 : 1;
    if (chosen < lines) lines = chosen;
    bytes = linesOf(window, lines) * columns * window.channels;
  }

  /// Lines of the image that so many lines of windows cover.
  static constexpr std::size_t linesOf(const Window& window, std::size_t count) {
    return (count - 1) * window.strideHeight + reach(window.height, window.dilationHeight);
  }
  constexpr std::size_t bytesOfOrder() const { return (bytes + kTileBytes - 1) / kTileBytes * kTileBytes; }
};

/// Bytes of a window that are copied at once, so that up to as many of any value are behind it.
inline constexpr std::size_t kCopied = 16;

/// Words of lines that windows are copied from, up to lines of the cache.
constexpr std::size_t wordsOfLines(const Window& window) {
  return (bandOfBytes(window).bytes + kCopied + kTileBytes - 1) / kTileBytes * kTileFours;
}

/// With rows, a copy of a window, and the lines that both are copied from, or with lines that are read in place.
constexpr std::size_t quantizedConv2dScratch(const Window& window, std::size_t inputs) noexcept {
  const CopiedBand tiles = bandOfBytes(window);
  const BandOfSteps steps(window);
  std::size_t most = wordsOfLines(window) + quantizedDenseScratch(inputs + kCopied) + foursOf(inputs + kCopied);
  if (tiles.isInPlace && foursOf(tiles.bytes) > most) most = foursOf(tiles.bytes);
  const std::size_t ordered = kStepOrders * (foursOf(steps.bytesOfOrder()) + foursOf(inputs));
  return steps.isInPlace && ordered > most ? ordered : most;
}

constexpr std::size_t panelsOf(std::size_t columns) { return (columns + kPanel - 1) / kPanel; }

/// Bytes of the packed weights of a group.
constexpr std::size_t sizeOfGroup(std::size_t inputs, std::size_t outputs) {
  const std::size_t fours = foursOf(inputs), behind = fours > kTileFours ? (kTileFours - fours % kTileFours) % kTileFours : 0;
  return (panelsOf(outputs) * fours + behind) * kPanel * 4;
}

/// Pixels of a line at which groups of four taps begin.
constexpr std::size_t columnsOfFours(const Window& window) {
  return (window.outWidth - 1) * window.strideWidth + (foursOf(window.width) - 1) * 4 * window.dilationWidth + 1;
}

/// With the lines that a window sees, of the channels of a vector.
constexpr std::size_t quantizedDepthwiseScratch(const Window& window) noexcept {
  const std::size_t lines = reach(window.height, window.dilationHeight) * columnsOfFours(window);
  return window.height * foursOf(window.width) + lines * kPanel;
}

/// With a copy of a window, or of lines.
constexpr std::size_t quantizedGroupsScratch(const Window& window, std::size_t inputs) noexcept {
  const std::size_t windows = quantizedDenseScratch(inputs) + foursOf(inputs), band = foursOf(bandOfBytes(window).bytes);
  return windows > band ? windows : band;
}

/// Inputs of a layer of bfloat16 whose products are added at a time, unless a convolution has smaller blocks, and rows that are
/// multiplied at a time (bfloat16.h).
inline constexpr std::size_t kBfloat16Block = 32, kBfloat16Rows = 32;

constexpr std::size_t blocksOfBfloat16(std::size_t inputs) { return (inputs + kBfloat16Block - 1) / kBfloat16Block; }

/// The products of parts of inputs and weights.
constexpr std::size_t productsOfParts(std::size_t parts) { return parts * (parts + 1) / 2; }

/// Numbers between rows that are rounded, as floats or in twice as many rows as bfloat16. The parts of a row follow one another.
constexpr std::size_t apartInBfloat16(std::size_t inputs, std::size_t parts) {
  return bytesOfTiledRow(2 * kBfloat16Block * blocksOfBfloat16(inputs) * parts) / 2;
}

constexpr std::size_t packedBfloat16Size(std::size_t inputs, std::size_t outputs) noexcept {
  return panelsOf(outputs) * kPanel * blocksOfBfloat16(inputs) * (kBfloat16Block / 2);
}

constexpr std::size_t bfloat16DenseScratch(std::size_t inputs, std::size_t parts) noexcept {
  return kBfloat16Rows * apartInBfloat16(inputs, parts);
}

/// Of bfloat16: lines that overlap are rounded again for the next ones. Windows of one pixel are rows of a dense layer, whose
/// blocks they have. A copy of a window takes longer than a few small tiles (decision 093).
constexpr CopiedBand bandOfBfloat16(const Window& window) {
  const bool isPixel = window.height * window.width == 1;
  CopiedBand band(window, 2, 65536, 2 * reach(window.height, window.dilationHeight), kTileFours / 4, !isPixel);
  if (isPixel && band.fours != kTileFours) {
    band.isInPlace = false;
    band.fours = kTileFours;
  }
  return band;
}

constexpr std::size_t blockOfBfloat16(const Window& window) noexcept { return 2 * bandOfBfloat16(window).fours; }

constexpr std::size_t channelsOfBfloat16(const Window& window) noexcept { return bandOfBfloat16(window).channels; }

/// Words of a part of the lines as floats, up to lines of the cache: rows of tiles across two of these take twice the time.
constexpr std::size_t wordsOfBand(const CopiedBand& band) { return (band.bytes / 2 + kPanel - 1) / kPanel * kPanel; }

/// Lines, and windows that are copied from them.
constexpr std::size_t bfloat16Conv2dScratch(const Window& window, std::size_t parts) noexcept {
  const CopiedBand band = bandOfBfloat16(window);
  const std::size_t windows = band.isInPlace ? 0 : bfloat16DenseScratch(window.height * window.width * window.channels, parts);
  return parts * wordsOfBand(band) + windows;
}

constexpr std::size_t conv2dMaxPoolScratch(const Conv2d& layer, const Window& pool) noexcept {
  const Ring ring(layer, pool);
  return conv2dScratch(layer) + ring.lines * ring.lineSize;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_SCRATCH_H_
