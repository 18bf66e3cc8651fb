// sparse.h: dense layers that skip the zeros of pruned weights, with the bits of those that do not.
//
// Rows lie in the lanes of vectors, so that each column multiplies its own weights only: inputs and sums of kSparseRows rows
// are lines of as many floats, in memory of the caller. A sum begins with the bias and adds fused products in the order of
// the inputs, as in blocks.h. The product of a zero changes such a sum only if the input is not finite or the sum is -0
// (decision 095): rows in which either occurs are computed with all weights.
#ifndef TFAOT_KERNELS_SPARSE_H_
#define TFAOT_KERNELS_SPARSE_H_

#include "activating.h"
#include "dispatch.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kVectorsOfLine = static_cast<int>(kSparseRows) / kLanes;
/// The columns and the vectors of a line whose sums are in registers. With AVX-512, 4 columns take 1.1 of the time of 8.
inline constexpr int kSparseAtATime = kVectorsOfLine == 1 ? 8 : 4;
inline constexpr int kSparseWidth = kVectorsOfLine < 2 || kRegisters >= 32 ? kVectorsOfLine : 2;

/// Whether the numbers of all lanes, none of which has another sign, are zero.
TFAOT_INLINE bool isZero(Vector x) {
  float lanes[kLanes], sum = 0.0f;
  store(lanes, x);
  for (const float lane : lanes) sum += lane;
  return sum == 0.0f;
}

/// A transposed block: kLanes columns of kLanes rows, or `columns` of them. Rows after the last one repeat it.
TFAOT_INLINE void loadBlock(const float* from, std::size_t row, std::size_t rows, std::size_t stride, std::size_t columns,
                            Vector (&block)[kLanes]) {
  TFAOT_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    const float* const at = from + (row + i < rows ? row + i : rows - 1) * stride;
    block[i] = columns == kLanes ? load(at) : loadFirst(at, columns);
  }
}

/// Writes `columns` numbers of each of `rows` rows to lines. Returns whether all are finite.
TFAOT_ALONE inline bool putLines(const float* from, std::size_t rows, std::size_t columns, float* lines) {
  Vector products[4] = {};  // with zero: NaN for numbers that are not finite
  const auto put = [&](std::size_t column, std::size_t count) __attribute__((always_inline)) {
    for (int v = 0; v < kVectorsOfLine; ++v) {
      Vector block[kLanes];
      loadBlock(from + column, v * kLanes, rows, columns, count, block);
      TFAOT_UNROLL
      for (int i = 0; i < kLanes; ++i) products[i % 4] = multiplyAdd(block[i], zeros(), products[i % 4]);
      transpose(block);
      TFAOT_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        if (static_cast<std::size_t>(i) < count) store(lines + (column + i) * kSparseRows + v * kLanes, block[i]);
      }
    }
  };
  std::size_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) put(column, kLanes);
  if (column < columns) put(column, columns - column);
  return isZero((products[0] + products[1]) + (products[2] + products[3]));
}

/// Writes lines of sums, activated, to the columns of rows.
TFAOT_ALONE inline void takeLines(const Dispatch& dispatch, Activation activation, const float* lines, std::size_t rows,
                                  std::size_t columns, float* out) {
  const auto take = [&](std::size_t column, std::size_t count) __attribute__((always_inline)) {
    for (int v = 0; v < kVectorsOfLine; ++v) {
      Vector block[kLanes] = {};
      TFAOT_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        if (static_cast<std::size_t>(i) < count) block[i] = load(lines + (column + i) * kSparseRows + v * kLanes);
        if (activation == Activation::relu) block[i] = positivePart(block[i]);
        if (activation == Activation::clip) block[i] = clipped(block[i], activation.low, activation.high);
      }
      transpose(block);
      TFAOT_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        const std::size_t row = v * kLanes + i;
        if (row < rows) storeFirst(out + row * columns + column, count, block[i]);
      }
    }
  };
  std::size_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) take(column, kLanes);
  if (column < columns) take(column, columns - column);
  if (!isBounds(activation)) activateRow(dispatch, activation, out, rows * columns);
}

/// Adds `count` products to sums of kSparseAtATime columns, whose weights begin here.
TFAOT_INLINE void addSparse(const float* weights, const std::uint16_t* places, std::size_t count, const float* inputs,
                            Vector (&sums)[kSparseAtATime][kSparseWidth]) {
  for (; count > 0; --count, weights += kSparseColumns, places += kSparseColumns) {
    // The units that load are the busiest ones: four places at a time.
    std::uint64_t fours[kSparseAtATime / 4];
    std::memcpy(fours, places, sizeof fours);
    TFAOT_UNROLL
    for (int c = 0; c < kSparseAtATime; ++c) {
      const Vector weight = broadcast(weights[c]);
      const float* const line = inputs + (fours[c / 4] >> (c % 4 * 16) & 0xffff) * kSparseRows;
      TFAOT_UNROLL
      for (int v = 0; v < kSparseWidth; ++v) sums[c][v] = multiplyAdd(weight, load(line + v * kLanes), sums[c][v]);
    }
  }
}

/// The sums of all columns. Returns whether none is -0.
TFAOT_ALONE inline bool sumSparse(const SparseDense& layer, const float* inputs, float* lines) {
  const float* weights = layer.weights;
  const std::uint16_t* places = layer.places;
  const std::uint32_t* columns = layer.columns;
  const float* const bias = layer.dense.bias;
  const Mask minusZero = bitsAs<Mask>(broadcast(-0.0f));
  Mask found = {};
  for (std::size_t left = layer.dense.outputs, group = 0; left > 0; ++group) {
    const std::size_t count = layer.counts[group];
    for (std::size_t first = 0; first < kSparseColumns; first += kSparseAtATime) {
      for (int vector = 0; vector < kVectorsOfLine; vector += kSparseWidth) {
        Vector sums[kSparseAtATime][kSparseWidth];
        TFAOT_UNROLL
        for (int c = 0; c < kSparseAtATime; ++c) {
          const std::size_t column = columns[first + c];
          TFAOT_UNROLL
          for (int v = 0; v < kSparseWidth; ++v) sums[c][v] = bias == nullptr ? zeros() : broadcast(bias[column]);
        }
        addSparse(weights + first, places + first, count, inputs + vector * kLanes, sums);
        TFAOT_UNROLL
        for (int c = 0; c < kSparseAtATime; ++c) {
          TFAOT_UNROLL
          for (int v = 0; v < kSparseWidth; ++v) {
            found = found | (bitsAs<Mask>(sums[c][v]) == minusZero);
            store(lines + columns[first + c] * kSparseRows + (vector + v) * kLanes, sums[c][v]);
          }
        }
      }
    }
    weights += count * kSparseColumns;
    places += count * kSparseColumns;
    columns += kSparseColumns;
    left -= left < kSparseColumns ? left : kSparseColumns;
  }
  return isZero(__builtin_convertvector(found, Vector));
}

inline void denseSparse(const Dispatch& dispatch, const SparseDense& layer, std::size_t batch, const float* in, float* out,
                        float* scratch) {
  const Dense& whole = layer.dense;
  float* const end = scratch + whole.inputs * kSparseRows;
  float* const sums = end + kSparseRows;
  std::memset(end, 0, kSparseRows * sizeof *end);
  for (std::size_t count; batch > 0; batch -= count, in += count * whole.inputs, out += count * whole.outputs) {
    count = batch < kSparseRows ? batch : kSparseRows;
    if (count >= layer.fewest && putLines(in, count, whole.inputs, scratch) && sumSparse(layer, scratch, sums)) {
      takeLines(dispatch, whole.activation, sums, count, whole.outputs, out);
    } else {
      dense(dispatch, whole, count, in, whole.inputs, out, whole.outputs);
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_SPARSE_H_
