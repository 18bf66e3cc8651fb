// bfloat16_products.h: products of two computed arrays in bfloat16, as in attention. The second one is packed as weights are.
#ifndef TFAOT_KERNELS_BFLOAT16_PRODUCTS_H_
#define TFAOT_KERNELS_BFLOAT16_PRODUCTS_H_

#include "bfloat16_tiles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Up to a vector of numbers from `place` on, which lie `apart` floats apart, rounded, with zeros behind them.
TFAOT_INLINE Unsigned roundedPart(const float* matrix, std::size_t place, std::size_t count, std::size_t apart) {
  if (count == 0) return Unsigned{};
  const float* const from = matrix + place;
  if (apart != 1) return roundedToBfloat16<true>(loadApart(from, count, static_cast<std::ptrdiff_t>(apart)));
  return roundedToBfloat16<true>(count == kLanes ? load(from) : loadFirst(from, count));
}

/// Two rows of the matrix become one of words.
inline void packComputed(const float* matrix, std::size_t inputs, std::size_t outputs, std::size_t down, std::size_t right,
                         std::uint32_t* packed) {
  const std::size_t rows = blocksOfBfloat16(inputs) * kBfloat16Block;
  for (std::size_t panel = 0; panel < outputs; panel += kPanel) {
    for (std::size_t row = 0; row < rows; row += 2, packed += kPanel) {
      for (std::size_t lane = 0; lane < kPanel; lane += kLanes) {
        const std::size_t column = panel + lane, left = column < outputs ? outputs - column : 0;
        const std::size_t count = left < kLanes ? left : kLanes, place = row * down + column * right;
        const Unsigned even = roundedPart(matrix, place, row < inputs ? count : 0, right);
        const Unsigned odd = roundedPart(matrix, place + down, row + 1 < inputs ? count : 0, right);
        store(packed + lane, even >> 16 | odd);
      }
    }
  }
}

inline void multiplyComputed(const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t batch, const float* in,
                             std::size_t inStride, float* out, std::uint32_t* scratch) {
  withFormOfBfloat16(layer, batch, [&](auto form) {
    using Form = decltype(form);
    const InputParts parts = partsOfRows(layer);
    const auto put = [&](std::size_t row, typename Form::Element* to) { putRounded<Form>(parts, in + row * inStride, layer.inputs, to); };
    multiplyBfloat16<Form>(dispatch, layer, batch, put, reinterpret_cast<char*>(out), scratch);
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BFLOAT16_PRODUCTS_H_
