// tiled_rows.h: products of rows that lie in memory by packed weights, tile by tile of rows: where the rows are, and in which
// order they are multiplied. Layers of bytes and of bfloat16 share it.
//
// The sums of two tiles of rows by two panels are in tiles of the CPU (targets/amx.h) as well, so that each tile that is loaded is
// multiplied twice. Weights are groups of four bytes of each column of a panel, 64 bytes for a panel.
#ifndef TFAOT_KERNELS_TILED_ROWS_H_
#define TFAOT_KERNELS_TILED_ROWS_H_

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// How the rows of a product lie in memory: in pieces, which consist of runs, and these of blocks, one for each tile.
struct Tiling {
  std::size_t stride;  ///< bytes between rows
  std::size_t pieces, piece;  ///< their number, and bytes between them
  std::size_t runs, run;      ///< of a piece, likewise
  std::size_t blocks, fours;  ///< of a run, and groups of four bytes of a block
  std::size_t panel;          ///< bytes between the panels of the weights
  /// If numbers are sums of parts (bfloat16.h): how many, and bytes between those of a row and of a panel.
  std::size_t parts = 1, partOfRow = 0, partOfPanel = 0;
};

/// Parts of rows and weights that are multiplied for each block, one pair after the other. Neighbours share a part, so that its tile
/// is not loaded again.
struct PairsOfParts {
  std::size_t count;
  struct Pair {
    std::size_t ofRow, ofPanel;
  } pairs[5];
};

/// What is multiplied in all blocks before the next of these: of numbers of n parts that at n - 1, then that two places before it.
/// The small products of three parts are added before large ones, so that fewer sums are rounded at the size of the result.
inline constexpr PairsOfParts kPairsOfParts[kMostParts] = {
    {1, {{0, 0}}},
    {3, {{1, 0}, {0, 0}, {0, 1}}},
    {5, {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}}},
};

/// Rows of at most two tiles, and where their results go.
struct TiledRows {
  const std::uint8_t* in[2];
  char* out[2];
  std::size_t count[2];  ///< none of the second tile if that is 0
};

/// Adds the products of `kDown` tiles of rows and `kAcross` panels, in pairs of parts of this number.
template <class Tiles, int kDown, int kAcross, int kPairs, class Layer>
TFAOT_INLINE void addTiles(const Tiling& tiling, const TiledRows& rows, const std::uint8_t* weights) {
  constexpr std::size_t kRow = kPanel * 4;
  const PairsOfParts& parts = kPairsOfParts[kPairs];
  for (std::size_t number = 0, piece = 0, run = 0; number < tiling.pieces * tiling.runs; ++number) {
    const std::size_t place = piece * tiling.piece + run * tiling.run;
    const std::uint8_t* upper = rows.in[0] + place;
    [[maybe_unused]] const std::uint8_t* lower = rows.in[1] + place;
    for (std::size_t block = 0; block < tiling.blocks; ++block) {
      TFAOT_UNROLL
      for (std::size_t i = 0; i < parts.count; ++i) {
        const std::size_t row = parts.pairs[i].ofRow * tiling.partOfRow, panel = parts.pairs[i].ofPanel * tiling.partOfPanel;
        const bool isOtherRow = i == 0 || parts.pairs[i].ofRow != parts.pairs[i - 1].ofRow;
        const bool isOtherPanel = i == 0 || parts.pairs[i].ofPanel != parts.pairs[i - 1].ofPanel;
        if (isOtherPanel) Tiles::template load<6>(weights + panel, kRow);
        if (isOtherRow) Tiles::template load<4>(upper + row, tiling.stride);
        Layer::template add<0, 4, 6>();
        if constexpr (kDown == 2) {
          if (isOtherRow) Tiles::template load<5>(lower + row, tiling.stride);
          Layer::template add<2, 5, 6>();
        }
        if constexpr (kAcross == 2) {
          if (isOtherPanel) Tiles::template load<7>(weights + tiling.panel + panel, kRow);
          Layer::template add<1, 4, 7>();
          if constexpr (kDown == 2) Layer::template add<3, 5, 7>();
        }
      }
      upper += tiling.fours * 4;
      lower += tiling.fours * 4;
      weights += tiling.fours * kRow;
    }
    if (++run < tiling.runs) continue;
    run = 0;
    ++piece;
  }
}

/// The sums of `kDown` tiles of rows by `kAcross` panels, of numbers of `kParts` parts. Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7
/// weights.
template <class Tiles, int kDown, int kAcross, int kParts, class Layer>
TFAOT_ALONE void sumTiles(const Layer& layer, const Tiling& tiling, const TiledRows& rows, std::size_t panel,
                          typename Layer::Sum* sums) {
  const auto* const weights = static_cast<const std::uint8_t*>(layer.weights()) + panel * tiling.panel;
  layer.template begin<0>(panel);
  if constexpr (kAcross == 2) layer.template begin<1>(panel + 1);
  if constexpr (kDown == 2) layer.template begin<2>(panel);
  if constexpr (kDown == 2 && kAcross == 2) layer.template begin<3>(panel + 1);
  addTiles<Tiles, kDown, kAcross, kParts - 1, Layer>(tiling, rows, weights);
  if constexpr (kParts > 2) addTiles<Tiles, kDown, kAcross, kParts - 3, Layer>(tiling, rows, weights);
  constexpr std::size_t kStride = kAcross * kPanel;
  Tiles::template store<0>(sums, kStride * sizeof *sums);
  if constexpr (kAcross == 2) Tiles::template store<1>(sums + kPanel, kStride * sizeof *sums);
  sums += kTileRows * kStride;
  if constexpr (kDown == 2) Tiles::template store<2>(sums, kStride * sizeof *sums);
  if constexpr (kDown == 2 && kAcross == 2) Tiles::template store<3>(sums + kPanel, kStride * sizeof *sums);
}

/// A layer by tiles of the CPU, which are in use as long as this lives.
template <class Tiles, class Layer>
class TiledProduct {
 public:
  /// `of`: what a layer is made of.
  template <class... Of>
  explicit TiledProduct(const Tiling& tiling, const Of&... of) : layer_(of...), tiling_(tiling) {}
  TiledProduct(const TiledProduct&) = delete;
  TiledProduct& operator=(const TiledProduct&) = delete;
  ~TiledProduct() { Tiles::release(); }

  std::size_t outStride() const { return layer_.outStride(); }

  /// Tiles of so many rows.
  void shape(std::size_t upper, std::size_t lower) {
    if (upper == upper_ && lower == lower_) return;
    upper_ = upper;
    lower_ = lower;
    typename Tiles::Shapes shapes;
    shapes.set(4, upper, tiling_.fours * 4);
    if (lower > 0) shapes.set(5, lower, tiling_.fours * 4);
    for (int each : {0, 1}) {
      shapes.set(each, upper, kPanel * 4);
      if (lower > 0) shapes.set(2 + each, lower, kPanel * 4);
      shapes.set(6 + each, tiling_.fours, kPanel * 4);
    }
    Tiles::configure(shapes);
  }

  /// Pairs of tiles of rows one after the other for each pair of panels, whose weights the first cache holds meanwhile.
  void multiply(const TiledRows* pairs, std::size_t count) const {
    for (std::size_t column = 0; column < layer_.outputs(); column += 2 * kPanel) {
      for (std::size_t i = 0; i < count; ++i) multiply<Layer::kMostParts>(pairs[i], column);
    }
  }

 private:
  template <int kParts>
  void multiply(const TiledRows& rows, std::size_t column) const {
    if constexpr (kParts > 1) {
      if (tiling_.parts < kParts) return multiply<kParts - 1>(rows, column);
    }
    alignas(64) typename Layer::Sum sums[2 * kTileRows * 2 * kPanel];
    const std::size_t panel = column / kPanel, left = layer_.outputs() - column;
    const bool isPair = left > kPanel;
    if (rows.count[1] > 0) {
      if (isPair) {
        sumTiles<Tiles, 2, 2, kParts>(layer_, tiling_, rows, panel, sums);
      } else {
        sumTiles<Tiles, 2, 1, kParts>(layer_, tiling_, rows, panel, sums);
      }
    } else {
      if (isPair) {
        sumTiles<Tiles, 1, 2, kParts>(layer_, tiling_, rows, panel, sums);
      } else {
        sumTiles<Tiles, 1, 1, kParts>(layer_, tiling_, rows, panel, sums);
      }
    }
    const std::size_t stride = isPair ? 2 * kPanel : kPanel, columns = left < stride ? left : stride;
    const std::size_t upper = rows.count[0], lower = rows.count[1];
    // The results of both tiles follow one another, and of full tiles the sums do, too.
    if (upper == kTileRows) return layer_.finish(sums, stride, upper + lower, column, columns, rows.out[0]);
    layer_.finish(sums, stride, upper, column, columns, rows.out[0]);
    layer_.finish(sums + kTileRows * stride, stride, lower, column, columns, rows.out[1]);
  }

  const Layer layer_;
  const Tiling tiling_;
  std::size_t upper_ = 0, lower_ = 0;
};

/// Pairs of tiles of rows that are multiplied with a pair of panels, one after the other.
inline constexpr std::size_t kTilePairs = 4;

/// Rows that follow one another, `stride` bytes apart.
template <class Product>
inline void multiplyRows(Product& product, const std::uint8_t* in, std::size_t stride, std::size_t count, char* out) {
  constexpr std::size_t kPair = 2 * kTileRows;
  while (count > 0) {
    TiledRows pairs[kTilePairs];
    std::size_t number = 0;
    do {
      const std::size_t size = count < kPair ? count : kPair, upper = size < kTileRows ? size : kTileRows;
      pairs[number++] = {{in, in + upper * stride}, {out, out + upper * product.outStride()}, {upper, size - upper}};
      in += size * stride;
      out += size * product.outStride();
      count -= size;
    } while (count >= kPair && number < kTilePairs);
    product.shape(pairs[0].count[0], pairs[0].count[1]);
    product.multiply(pairs, number);
  }
}

/// The windows of copied lines, whose numbers have so many bytes.
inline Tiling tilingOfLines(const Window& window, const CopiedBand& band, std::size_t bytesOfNumber) {
  const std::size_t pixel = band.channels * bytesOfNumber, down = window.dilationHeight * band.columns * pixel;
  const std::size_t panel = window.height * band.runs * band.blocks * band.fours * kPanel * 4;
  return {window.strideWidth * pixel, window.height, down, band.runs, window.dilationWidth * pixel, band.blocks, band.fours, panel};
}

/// Windows of lines that lie between their padding, `size` bytes each, are rows of tiles as they are. Returns the end of `out`.
template <class Product>
inline char* multiplyLines(const Product& product, const Window& window, const CopiedBand& band, const std::uint8_t* copy,
                           std::size_t size, std::size_t lines, char* out) {
  const std::size_t across = window.strideWidth * (size / band.columns), tiles = lines * band.tilesOfLine;
  TiledRows pairs[kTilePairs];
  for (std::size_t tile = 0; tile < tiles;) {
    std::size_t number = 0;
    for (; number < kTilePairs && tile < tiles; ++number) {
      TiledRows& pair = pairs[number];
      pair = {};
      for (int i = 0; i < 2 && tile < tiles; ++i, ++tile) {
        const std::size_t y = tile / band.tilesOfLine, x = tile % band.tilesOfLine * band.rows;
        const std::size_t left = window.outWidth - x;
        pair.in[i] = copy + y * window.strideHeight * size + x * across;
        pair.count[i] = left < band.rows ? left : band.rows;
        pair.out[i] = out;
        out += pair.count[i] * product.outStride();
      }
    }
    product.multiply(pairs, number);
  }
  return out;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TILED_ROWS_H_
