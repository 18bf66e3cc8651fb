// quantized_tiles.h: quantized layers by tiles of the CPU (targets/amx.h).
//
// Packed weights are tiles as they are: sixteen groups of four inputs of a panel, 64 bytes each. Sums are the same modulo 2^32.
#ifndef TFAOT_KERNELS_QUANTIZED_TILES_H_
#define TFAOT_KERNELS_QUANTIZED_TILES_H_

#include "permissions.h"
#include "quantized.h"
#include "tiled_rows.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// What tiles of bytes are multiplied with, and what is made of their sums.
template <class Tiles>
class TiledBytes {
 public:
  using Sum = std::int32_t;
  static constexpr int kMostParts = 1;
  TiledBytes(const QuantizedDense& layer, const void* out) : layer_(layer), finish_(layer, out) {}

  std::size_t outputs() const { return layer_.outputs; }
  std::size_t outStride() const { return strideOf(layer_) * sizeOfResult(layer_); }
  const void* weights() const { return layer_.weights; }

  /// All rows of a tile begin with the same bias.
  template <int kSums>
  TFAOT_INLINE void begin(std::size_t panel) const {
    Tiles::template load<kSums>(layer_.bias + panel * kPanel, 0);
  }
  template <int kSums, int kRows, int kColumns>
  static TFAOT_INLINE void add() {
    Tiles::template addDots<kSums, kRows, kColumns>();
  }
  void finish(const Sum* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, char* to) const {
    finish_(sums, stride, rows, column, columns, to, outStride());
  }

 private:
  const QuantizedDense& layer_;
  const Finish finish_;
};
template <class Tiles>
using ProductOfBytes = TiledProduct<Tiles, TiledBytes<Tiles>>;

inline Tiling tilingOfRow(std::size_t inputs, std::size_t stride) {
  const std::size_t fours = foursOf(inputs);
  return {stride, 1, 0, 1, 0, (fours + kTileFours - 1) / kTileFours, fours < kTileFours ? fours : kTileFours,
          fours * kPanelOfFours};
}

/// `count` rows that `put(row, to)` writes, one after the other, each with zeros up to a multiple of four bytes, or `behind` bytes.
template <class Tiles, class Put>
inline void multiplyCopied(const QuantizedDense& layer, std::size_t count, Put put, void* out, std::uint32_t* scratch,
                           std::size_t behind = 0) {
  auto* const memory = reinterpret_cast<std::uint8_t*>(scratch);
  const std::size_t stride = bytesOfTiledRow(layer.inputs + behind), most = copiedRows(layer.inputs + behind);
  ProductOfBytes<Tiles> product(tilingOfRow(layer.inputs, stride), layer, out);
  auto* to = static_cast<char*>(out);
  std::memset(memory, 0, (count < most ? count : most) * stride);  // what is behind the bytes of a row
  for (std::size_t first = 0, size; first < count; first += size, to += size * product.outStride()) {
    size = count - first < most ? count - first : most;
    for (std::size_t r = 0; r < size; ++r) put(first + r, memory + r * stride);
    multiplyRows(product, memory, stride, size, to);
  }
}

template <class Tiles>
inline void denseByTiles(const QuantizedDense& layer, std::size_t batch, const std::uint8_t* in, void* out,
                         std::uint32_t* scratch) {
  const bool areTiles = layer.inputs % (layer.inputs < kTileBytes ? 4 : kTileBytes) == 0;
  if (layer.flip == 0 && areTiles) {
    ProductOfBytes<Tiles> product(tilingOfRow(layer.inputs, layer.inputs), layer, out);
    return multiplyRows(product, in, layer.inputs, batch, static_cast<char*>(out));
  }
  const auto put = [&](std::size_t row, std::uint8_t* to) {
    rewriteRow<InFours>(in + row * layer.inputs, layer.inputs, layer.flip, reinterpret_cast<std::uint32_t*>(to));
  };
  multiplyCopied<Tiles>(layer, batch, put, out, scratch);
}

/// Each line of a window is a piece, and each pixel of it a run if there are others between them.
template <class Tiles>
inline void convolveLines(const QuantizedConv2d& layer, const CopiedBand& band, LinesOfImages all, const std::uint8_t* in,
                          char* out, std::uint32_t* scratch) {
  const Window& window = layer.window;
  const CopiedLines copied(layer, band.columns, reinterpret_cast<std::uint8_t*>(scratch));
  ProductOfBytes<Tiles> product(tilingOfLines(window, band, 1), layer.product, out);
  product.shape(band.rows, band.rows);
  for (; all.images > 0; --all.images, in += window.inHeight * window.inWidth * window.channels) {
    const std::size_t end = all.first + all.count;
    for (std::size_t first = all.first, lines; first < end; first += lines) {
      lines = end - first < band.lines ? end - first : band.lines;
      copied.copy(in, first, lines);
      out = multiplyLines(product, window, band, copied.line(0), copied.sizeOfLine(), lines, out);
    }
  }
}

template <class Tiles>
inline void convolveByTiles(const QuantizedConv2d& layer, LinesOfImages lines, const std::uint8_t* in, void* out,
                            std::uint32_t* scratch) {
  const CopiedBand band = bandOfBytes(layer.window);
  if (band.isInPlace) return convolveLines<Tiles>(layer, band, lines, in, static_cast<char*>(out), scratch);
  WindowsInOrder windows(layer, lines, in, scratch);
  const std::size_t inputs = layer.product.inputs, count = lines.images * lines.count * layer.window.outWidth;
  const auto put = [&](std::size_t, std::uint8_t* to) {
    windows.copyNext(to);
    std::memset(to + inputs, 0, kCopied);  // a tile multiplies it with weights of other columns
  };
  multiplyCopied<Tiles>(layer.product, count, put, out, windows.behindLines(), kCopied);
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
