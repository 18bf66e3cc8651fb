// quantized_tiles.h: quantized layers by tiles of the CPU (targets/amx.h).
//
// Packed weights are tiles as they are: sixteen groups of four inputs of a panel, 64 bytes each. The sums of two tiles of
// rows by two panels are in tiles as well, so that each tile that is loaded is multiplied twice. Sums are the same modulo 2^32.
#ifndef TFAOT_KERNELS_QUANTIZED_TILES_H_
#define TFAOT_KERNELS_QUANTIZED_TILES_H_

#include "permissions.h"
#include "quantized.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// How the rows of a product lie in memory: in pieces, which consist of blocks, one for each tile.
struct Tiling {
  std::size_t stride;  ///< bytes between rows
  std::size_t pieces, piece;  ///< their number, and bytes between them
  std::size_t blocks, fours;  ///< of a piece, and groups of four bytes of a block
};

/// Rows of at most two tiles, and where their results go.
struct TiledRows {
  const std::uint8_t* in[2];
  char* out[2];
  std::size_t count[2];  ///< none of the second tile if that is 0
};

/// The sums of `kDown` tiles of rows by `kAcross` panels.
template <class Tiles, int kDown, int kAcross>
TFAOT_ALONE void sumTiles(const QuantizedDense& layer, const Tiling& tiling, const TiledRows& rows, std::size_t panel,
                          std::int32_t* sums) {
  // Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights.
  const std::size_t sizeOfPanel = foursOf(layer.inputs) * kPanelOfFours, stride = tiling.stride;
  const std::int8_t* weights = layer.weights + panel * sizeOfPanel;
  const std::int32_t* const bias = layer.bias + panel * kPanel;
  // All rows of a tile begin with the same bias.
  Tiles::template load<0>(bias, 0);
  if constexpr (kAcross == 2) Tiles::template load<1>(bias + kPanel, 0);
  if constexpr (kDown == 2) Tiles::template load<2>(bias, 0);
  if constexpr (kDown == 2 && kAcross == 2) Tiles::template load<3>(bias + kPanel, 0);
  for (std::size_t piece = 0; piece < tiling.pieces; ++piece) {
    const std::uint8_t* upper = rows.in[0] + piece * tiling.piece;
    [[maybe_unused]] const std::uint8_t* lower = rows.in[1] + piece * tiling.piece;
    for (std::size_t block = 0; block < tiling.blocks; ++block) {
      Tiles::template load<6>(weights, kPanelOfFours);
      Tiles::template load<4>(upper, stride);
      Tiles::template addDots<0, 4, 6>();
      if constexpr (kDown == 2) {
        Tiles::template load<5>(lower, stride);
        Tiles::template addDots<2, 5, 6>();
      }
      if constexpr (kAcross == 2) {
        Tiles::template load<7>(weights + sizeOfPanel, kPanelOfFours);
        Tiles::template addDots<1, 4, 7>();
        if constexpr (kDown == 2) Tiles::template addDots<3, 5, 7>();
      }
      upper += tiling.fours * 4;
      lower += tiling.fours * 4;
      weights += tiling.fours * kPanelOfFours;
    }
  }
  constexpr std::size_t kStride = kAcross * kPanel;
  Tiles::template store<0>(sums, kStride * sizeof *sums);
  if constexpr (kAcross == 2) Tiles::template store<1>(sums + kPanel, kStride * sizeof *sums);
  sums += kTileRows * kStride;
  if constexpr (kDown == 2) Tiles::template store<2>(sums, kStride * sizeof *sums);
  if constexpr (kDown == 2 && kAcross == 2) Tiles::template store<3>(sums + kPanel, kStride * sizeof *sums);
}

/// A layer by tiles, which are in use as long as this lives.
template <class Tiles>
class TiledProduct {
 public:
  TiledProduct(const QuantizedDense& layer, const Tiling& tiling)
      : layer_(layer), tiling_(tiling), finish_(layer), outStride_(bytesOfResult(layer)) {}
  TiledProduct(const TiledProduct&) = delete;
  TiledProduct& operator=(const TiledProduct&) = delete;
  ~TiledProduct() { Tiles::release(); }

  std::size_t outStride() const { return outStride_; }

  /// Tiles of so many rows.
  void shape(std::size_t upper, std::size_t lower) {
    if (upper == upper_ && lower == lower_) return;
    upper_ = upper;
    lower_ = lower;
    typename Tiles::Shapes shapes;
    shapes.set(4, upper, tiling_.fours * 4);
    if (lower > 0) shapes.set(5, lower, tiling_.fours * 4);
    for (int each : {0, 1}) {
      shapes.set(each, upper, kPanel * sizeof(std::int32_t));
      if (lower > 0) shapes.set(2 + each, lower, kPanel * sizeof(std::int32_t));
      shapes.set(6 + each, tiling_.fours, kPanelOfFours);
    }
    Tiles::configure(shapes);
  }

  /// Pairs of tiles of rows one after the other for each pair of panels, whose weights the first cache holds meanwhile.
  void multiply(const TiledRows* pairs, std::size_t count) const {
    for (std::size_t column = 0; column < layer_.outputs; column += 2 * kPanel) {
      for (std::size_t i = 0; i < count; ++i) multiply(pairs[i], column);
    }
  }

 private:
  void multiply(const TiledRows& rows, std::size_t column) const {
    alignas(64) std::int32_t sums[2 * kTileRows * 2 * kPanel];
    const std::size_t panel = column / kPanel, left = layer_.outputs - column;
    const bool isPair = left > kPanel;
    if (rows.count[1] > 0) {
      if (isPair) {
        sumTiles<Tiles, 2, 2>(layer_, tiling_, rows, panel, sums);
      } else {
        sumTiles<Tiles, 2, 1>(layer_, tiling_, rows, panel, sums);
      }
    } else {
      if (isPair) {
        sumTiles<Tiles, 1, 2>(layer_, tiling_, rows, panel, sums);
      } else {
        sumTiles<Tiles, 1, 1>(layer_, tiling_, rows, panel, sums);
      }
    }
    const std::size_t stride = isPair ? 2 * kPanel : kPanel, columns = left < stride ? left : stride;
    for (int tile : {0, 1}) {
      const std::int32_t* from = sums + tile * kTileRows * stride;
      char* to = rows.out[tile];
      for (std::size_t r = rows.count[tile]; r > 0; --r, from += stride, to += outStride_) finish_(from, column, columns, to);
    }
  }

  const QuantizedDense& layer_;
  const Tiling tiling_;
  const Finish finish_;
  const std::size_t outStride_;
  std::size_t upper_ = 0, lower_ = 0;
};

/// Pairs of tiles of rows that are multiplied with a pair of panels, one after the other.
inline constexpr std::size_t kTilePairs = 4;

/// Rows that follow one another, `stride` bytes apart.
template <class Tiles>
inline void multiplyRows(TiledProduct<Tiles>& product, const std::uint8_t* in, std::size_t stride, std::size_t count, char* out) {
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

inline Tiling tilingOfRow(std::size_t inputs, std::size_t stride) {
  const std::size_t fours = foursOf(inputs);
  return {stride, 1, 0, (fours + kTileFours - 1) / kTileFours, fours < kTileFours ? fours : kTileFours};
}

/// `count` rows that `put(row, to)` writes, one after the other, each at most up to a multiple of four bytes.
template <class Tiles, class Put>
inline void multiplyCopied(const QuantizedDense& layer, std::size_t count, Put put, void* out, std::uint32_t* scratch) {
  auto* const memory = reinterpret_cast<std::uint8_t*>(scratch);
  const std::size_t stride = bytesOfTiledRow(layer.inputs);
  TiledProduct<Tiles> product(layer, tilingOfRow(layer.inputs, stride));
  auto* to = static_cast<char*>(out);
  std::memset(memory, 0, (count < kRowsOfTwoTiles ? count : kRowsOfTwoTiles) * stride);  // what is behind the bytes of a row
  for (std::size_t first = 0, size; first < count; first += size, to += size * product.outStride()) {
    size = count - first < kRowsOfTwoTiles ? count - first : kRowsOfTwoTiles;
    for (std::size_t r = 0; r < size; ++r) put(first + r, memory + r * stride);
    multiplyRows(product, memory, stride, size, to);
  }
}

template <class Tiles>
inline void denseByTiles(const QuantizedDense& layer, std::size_t batch, const std::uint8_t* in, void* out,
                         std::uint32_t* scratch) {
  const bool areTiles = layer.inputs % (layer.inputs < kTileBytes ? 4 : kTileBytes) == 0;
  if (layer.flip == 0 && areTiles) {
    TiledProduct<Tiles> product(layer, tilingOfRow(layer.inputs, layer.inputs));
    return multiplyRows(product, in, layer.inputs, batch, static_cast<char*>(out));
  }
  const auto put = [&](std::size_t row, std::uint8_t* to) {
    rewriteRow<InFours>(in + row * layer.inputs, layer.inputs, layer.flip, reinterpret_cast<std::uint32_t*>(to));
  };
  multiplyCopied<Tiles>(layer, batch, put, out, scratch);
}

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
      const std::size_t y = first * window.strideHeight + i - window.padTop;  // modulo 2^64, as in copyWindow
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

/// Windows of lines that lie between their padding are rows of tiles as they are: each line of a window is a piece.
template <class Tiles>
inline void convolveLines(const QuantizedConv2d& layer, const BandOfBytes& bytes, std::size_t batch, const std::uint8_t* in,
                          char* out, std::uint32_t* scratch) {
  const Window& window = layer.window;
  const CopiedLines band(layer, bytes.columns, reinterpret_cast<std::uint8_t*>(scratch));
  const std::size_t across = window.strideWidth * window.channels, down = window.dilationHeight * band.sizeOfLine();
  TiledProduct<Tiles> product(layer.product, {across, window.height, down, bytes.blocks, bytes.fours});
  product.shape(bytes.rows, bytes.rows);
  for (; batch > 0; --batch, in += window.inHeight * window.inWidth * window.channels) {
    for (std::size_t first = 0, lines; first < window.outHeight; first += lines) {
      lines = window.outHeight - first < bytes.lines ? window.outHeight - first : bytes.lines;
      band.copy(in, first, lines);
      const std::size_t tiles = lines * bytes.tilesOfLine;
      TiledRows pairs[kTilePairs];
      for (std::size_t tile = 0; tile < tiles;) {
        std::size_t number = 0;
        for (; number < kTilePairs && tile < tiles; ++number) {
          TiledRows& pair = pairs[number];
          pair = {};
          for (int i = 0; i < 2 && tile < tiles; ++i, ++tile) {
            const std::size_t y = tile / bytes.tilesOfLine, x = tile % bytes.tilesOfLine * bytes.rows;
            const std::size_t left = window.outWidth - x;
            pair.in[i] = band.line(y * window.strideHeight) + x * across;
            pair.count[i] = left < bytes.rows ? left : bytes.rows;
            pair.out[i] = out;
            out += pair.count[i] * product.outStride();
          }
        }
        product.multiply(pairs, number);
      }
    }
  }
}

template <class Tiles>
inline void convolveByTiles(const QuantizedConv2d& layer, std::size_t batch, const std::uint8_t* in, void* out,
                            std::uint32_t* scratch) {
  const BandOfBytes band(layer.window);
  if (band.isPossible) return convolveLines<Tiles>(layer, band, batch, in, static_cast<char*>(out), scratch);
  WindowsInOrder windows(layer, in);
  const auto put = [&](std::size_t, std::uint8_t* to) {
    windows.copyNext(to);
    const std::uint8_t flip = layer.product.flip;
    if (flip != 0) rewriteRow<InFours>(to, layer.product.inputs, flip, reinterpret_cast<std::uint32_t*>(to));
  };
  multiplyCopied<Tiles>(layer.product, batch * windows.ofImage(), put, out, scratch);
}

/// Whether tiles are faster: a single row reads each weight once in either way, and tiles cost 0.1 us at first.
inline bool isForTiles(const QuantizedDense& layer, std::size_t rows) {
  constexpr std::size_t kMultiplyAdds = 1 << 16;
  return rows > 1 && rows * layer.inputs * layer.outputs >= kMultiplyAdds;
}

/// Calls `run(Tiles)` if the CPU has tiles for products of bytes, and the process may use them.
template <class Run>
inline bool withTiles(Run run) {
  using Tiles = TilesOf<Integers>;
  if constexpr (Tiles::kMayExist) {
    if (!isPermitted(kTilesOfBytes)) return false;
    run(Tiles{});
    return true;
  }
  return false;
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_QUANTIZED_TILES_H_
