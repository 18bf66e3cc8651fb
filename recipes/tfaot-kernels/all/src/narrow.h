// narrow.h: dense layers of float32 whose weights have fewer bits in memory: bfloat16, or bytes with a scale for each column.
//
// Weights are widened in registers, once for all rows of a block. Sums have one chain of fused multiply-adds in the order of inputs, so
// that every target with these gives the same bits. What counts is the time to read the weights: one row reads each once.
#ifndef TFAOT_KERNELS_NARROW_H_
#define TFAOT_KERNELS_NARROW_H_

#include <type_traits>

#include "finish_rows.h"
#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

TFAOT_INLINE Vector widenedWeights(const std::uint16_t* from) { return bitsAs<Vector>(widened(from) << 16); }
TFAOT_INLINE Vector widenedWeights(const std::int8_t* from) { return __builtin_convertvector(widened(from), Vector); }

/// Sums of `kRows` rows and `kWidth` vectors of columns from `vector` on, scaled; those of a row lie `stride` floats apart.
template <class Weight, int kRows, int kWidth>
TFAOT_ALONE void sumNarrow(const NarrowDense& layer, const float* rows, std::size_t vector, float* out, std::size_t stride) {
  const std::size_t inputs = layer.inputs;
  const Weight* weights[kWidth];
  Vector sums[kRows][kWidth] = {};
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) {
    const std::size_t number = vector + v;
    weights[v] = static_cast<const Weight*>(layer.weights) + number / kVectors * inputs * kPanel + number % kVectors * kLanes;
  }
  for (std::size_t i = 0; i < inputs; ++i, ++rows) {
    Vector wide[kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      wide[v] = widenedWeights(weights[v]);
      weights[v] += kPanel;
    }
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vector x = broadcast(rows[r * inputs]);
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = multiplyAdd(x, wide[v], sums[r][v]);
    }
  }
  TFAOT_UNROLL
  for (int v = 0; v < kWidth; ++v) {
    if constexpr (std::is_same_v<Weight, std::int8_t>) {
      const Vector scale = load(layer.scales + (vector + v) * kLanes);
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) sums[r][v] = sums[r][v] * scale;
    }
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) store(out + r * stride + v * kLanes, sums[r][v]);
  }
}

/// The same for `vectors` vectors, kWidth at a time.
template <class Weight, int kRows, int kWidth>
TFAOT_INLINE void sumNarrow(const NarrowDense& layer, const float* rows, std::size_t vector, std::size_t vectors, float* out,
                            std::size_t stride) {
  std::size_t done = 0;
  for (; done + kWidth <= vectors; done += kWidth) sumNarrow<Weight, kRows, kWidth>(layer, rows, vector + done, out + done * kLanes, stride);
  for (; done < vectors; ++done) sumNarrow<Weight, kRows, 1>(layer, rows, vector + done, out + done * kLanes, stride);
}

template <class Weight>
inline void denseNarrow(const Dispatch& dispatch, const NarrowDense& layer, std::size_t batch, const float* in, float* out) {
  // Sums of a block and its weights are in registers; a row alone has as many sums as hide the time of an addition.
  constexpr int kRows = 4, kWide = kRegisters >= 32 ? 4 : 2, kWidest = kRegisters >= 32 ? 8 : 4;
  constexpr std::size_t kRowsAtATime = 16, kColumns = 8 * kPanel;
  const FinishRows finish(dispatch, layer.outputs, layer.bias, layer.activation);
  for (std::size_t first = 0, size; first < batch; first += size, in += size * layer.inputs, out += size * layer.outputs) {
    size = batch - first < kRowsAtATime ? batch - first : kRowsAtATime;
    for (std::size_t column = 0; column < layer.outputs; column += kColumns) {
      alignas(64) float sums[kRowsAtATime * kColumns];
      const std::size_t left = layer.outputs - column, columns = left < kColumns ? left : kColumns;
      const std::size_t vector = column / kLanes, vectors = vectorsOf(columns);
      std::size_t row = 0;
      for (; row + kRows <= size; row += kRows) {
        sumNarrow<Weight, kRows, kWide>(layer, in + row * layer.inputs, vector, vectors, sums + row * kColumns, kColumns);
      }
      for (; row < size; ++row) {
        sumNarrow<Weight, 1, kWidest>(layer, in + row * layer.inputs, vector, vectors, sums + row * kColumns, kColumns);
      }
      finish(sums, kColumns, size, column, columns, out);
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_NARROW_H_
