// bfloat16_tiles.h: layers of bfloat16 by tiles of the CPU (targets/amx.h), whose sums are those that bfloat16.h defines.
#ifndef TFAOT_KERNELS_BFLOAT16_TILES_H_
#define TFAOT_KERNELS_BFLOAT16_TILES_H_

#include "bfloat16.h"
#include "permissions.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Inputs as numbers of 16 bits. A block of packed weights of a panel is a tile.
template <class Tiles>
struct AsPairs {
  using Element = std::uint16_t;
  static constexpr std::size_t kPanels = 2;

  /// Tiles of so many rows, as long as this lives: 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights.
  class Block {
   public:
    explicit Block(std::size_t rows) {
      const std::size_t upper = rows < kTileRows ? rows : kTileRows, lower = rows - upper;
      typename Tiles::Shapes shapes;
      shapes.set(4, upper, kTileBytes);
      if (lower > 0) shapes.set(5, lower, kTileBytes);
      for (int each : {0, 1}) {
        shapes.set(each, upper, kPanel * sizeof(float));
        if (lower > 0) shapes.set(2 + each, lower, kPanel * sizeof(float));
        shapes.set(6 + each, kPairsOfBlock, kPanel * sizeof(std::uint32_t));
      }
      Tiles::configure(shapes);
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() { Tiles::release(); }
  };

  static TFAOT_INLINE void round(const float* from, std::size_t count, std::uint16_t* to) {
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      storeNarrowed(to + i, bitsAs<Integers>(roundedToBfloat16(load(from + i)) >> 16));
    }
    if (const std::size_t rest = count - i) {
      storeNarrowed(to + i, rest, bitsAs<Integers>(roundedToBfloat16(loadFirst(from + i, rest)) >> 16));
    }
  }

  template <int kDown, int kAcross>
  static TFAOT_ALONE void sumTiles(const Bfloat16Dense& layer, const std::uint16_t* rows, std::size_t panel, float* sums) {
    const std::size_t blocks = blocksOfBfloat16(layer.inputs), apart = blocks * kBfloat16Block, stride = apart * sizeof *rows;
    const std::uint32_t* weights = layer.weights + panel * blocks * kBlockOfPanel;
    constexpr std::size_t kRow = kPanel * sizeof(std::uint32_t);
    Tiles::template zero<0>();
    if constexpr (kAcross == 2) Tiles::template zero<1>();
    if constexpr (kDown == 2) Tiles::template zero<2>();
    if constexpr (kDown == 2 && kAcross == 2) Tiles::template zero<3>();
    for (std::size_t i = 0; i < blocks; ++i, rows += kBfloat16Block, weights += kBlockOfPanel) {
      Tiles::template load<6>(weights, kRow);
      Tiles::template load<4>(rows, stride);
      Tiles::template addPairs<0, 4, 6>();
      if constexpr (kDown == 2) {
        Tiles::template load<5>(rows + kTileRows * apart, stride);
        Tiles::template addPairs<2, 5, 6>();
      }
      if constexpr (kAcross == 2) {
        Tiles::template load<7>(weights + blocks * kBlockOfPanel, kRow);
        Tiles::template addPairs<1, 4, 7>();
        if constexpr (kDown == 2) Tiles::template addPairs<3, 5, 7>();
      }
    }
    constexpr std::size_t kStride = kPanels * kPanel;
    Tiles::template store<0>(sums, kStride * sizeof *sums);
    if constexpr (kAcross == 2) Tiles::template store<1>(sums + kPanel, kStride * sizeof *sums);
    sums += kTileRows * kStride;
    if constexpr (kDown == 2) Tiles::template store<2>(sums, kStride * sizeof *sums);
    if constexpr (kDown == 2 && kAcross == 2) Tiles::template store<3>(sums + kPanel, kStride * sizeof *sums);
  }

  static void sum(const Bfloat16Dense& layer, const std::uint16_t* rows, std::size_t count, std::size_t panel, std::size_t panels,
                  float* sums) {
    if (count > kTileRows) {
      if (panels == 2) return sumTiles<2, 2>(layer, rows, panel, sums);
      return sumTiles<2, 1>(layer, rows, panel, sums);
    }
    if (panels == 2) return sumTiles<1, 2>(layer, rows, panel, sums);
    sumTiles<1, 1>(layer, rows, panel, sums);
  }
};
static_assert(kBfloat16Rows == kRowsOfTwoTiles && kBfloat16Block * sizeof(std::uint16_t) == kTileBytes, "the shapes of tiles");

/// Calls `run(Form)` with the fastest form for so many rows that this CPU has and the process may use. Tiles cost 0.1 us at first.
template <class Run>
inline void withFormOfBfloat16(const Bfloat16Dense& layer, std::size_t rows, Run run) {
  using Tiles = TilesOf<Integers>;
  constexpr std::size_t kMultiplyAdds = 1 << 13;
  if constexpr (Tiles::kMayExist) {
    if (rows * layer.inputs * layer.outputs >= kMultiplyAdds && isPermitted(kTilesOfBfloat16)) return run(AsPairs<Tiles>{});
  }
  run(AsFloats{});
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BFLOAT16_TILES_H_
