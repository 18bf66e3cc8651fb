// bfloat16_tiles.h: layers of bfloat16 by tiles of the CPU (targets/amx.h), whose sums are those that bfloat16.h defines.
#ifndef TFAOT_KERNELS_BFLOAT16_TILES_H_
#define TFAOT_KERNELS_BFLOAT16_TILES_H_

#include "bfloat16.h"
#include "permissions.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Results as bfloat16, by the instruction of CPUs that have tiles.
template <class Tiles>
struct StoredByTiles {
  using Element = std::uint16_t;

  static TFAOT_INLINE void put(Vector x, Element* to) { Tiles::put(Tiles::template rounded<true>(x), to); }
  static TFAOT_INLINE void put(Vector x, std::size_t count, Element* to) { Tiles::put(Tiles::template rounded<true>(x), count, to); }
};

/// What tiles of bfloat16 are multiplied with, and what is made of their sums.
template <class Tiles>
class TiledPairs {
 public:
  using Sum = float;
  static constexpr int kMostParts = static_cast<int>(tfaot_kernels::kMostParts);

  /// `out`: where results begin.
  TiledPairs(const Dispatch& dispatch, const Bfloat16Dense& layer, const char* out) : layer_(layer), finish_(dispatch, layer, out) {}

  std::size_t outputs() const { return layer_.outputs; }
  std::size_t outStride() const { return strideOf(layer_) * sizeOfResult(layer_); }
  const void* weights() const { return layer_.weights; }

  template <int kSums>
  static TFAOT_INLINE void begin(std::size_t) {
    Tiles::template zero<kSums>();
  }
  template <int kSums, int kRows, int kColumns>
  static TFAOT_INLINE void add() {
    Tiles::template addPairs<kSums, kRows, kColumns>();
  }
  void finish(const float* sums, std::size_t stride, std::size_t rows, std::size_t column, std::size_t columns, char* to) const {
    finish_(sums, stride, rows, column, columns, to);
  }

 private:
  const Bfloat16Dense& layer_;
  const FinishBfloat16<StoredByTiles<Tiles>> finish_;
};

/// Inputs as numbers of 16 bits. A block of packed weights of a panel is a tile.
template <class Tiles>
struct AsPairs {
  using Element = std::uint16_t;
  using Product = TiledProduct<Tiles, TiledPairs<Tiles>>;

  template <bool kIsLastPart>
  static TFAOT_INLINE auto rounded(Vector x) {
    return Tiles::template rounded<kIsLastPart>(x);
  }
  template <class Rounded>
  static TFAOT_INLINE Vector asFloats(Rounded rounded) {
    return Tiles::asFloats(rounded);
  }
  template <class Rounded>
  static TFAOT_INLINE void put(Rounded rounded, std::uint16_t* to) {
    Tiles::put(rounded, to);
  }
  template <class Rounded>
  static TFAOT_INLINE void put(Rounded rounded, std::size_t count, std::uint16_t* to) {
    Tiles::put(rounded, count, to);
  }
  static TFAOT_INLINE void copy(const std::uint16_t* from, std::size_t count, std::uint16_t* to) {
    copyRun(reinterpret_cast<std::uint8_t*>(to), reinterpret_cast<const std::uint8_t*>(from), count * sizeof *to);
  }
};
static_assert(kBfloat16Block * sizeof(std::uint16_t) == kTileBytes, "the shape of tiles");

inline std::size_t multiplyAddsOf(const Bfloat16Dense& layer, std::size_t rows) {
  return rows * layer.inputs * layer.outputs * productsOfParts(layer.parts);
}

/// Calls `run(Form)` with the fastest form for so many rows that this CPU has and the process may use. Tiles cost 0.1 us at first.
template <class Run>
inline void withFormOfBfloat16(const Bfloat16Dense& layer, std::size_t rows, Run run) {
  using Tiles = TilesOf<Integers>;
  constexpr std::size_t kMultiplyAdds = 1 << 13;
  if constexpr (Tiles::kMayExist) {
    if (multiplyAddsOf(layer, rows) >= kMultiplyAdds && isPermitted(kTilesOfBfloat16)) return run(AsPairs<Tiles>{});
  }
  run(AsFloats{});
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BFLOAT16_TILES_H_
