// small_dense.h: dense layers for a few rows, by code that is specialized for their sizes.
//
// A call of `dense` (kernels.h) takes about 80 ns in addition to its multiply-adds, because it divides rows and columns
// into blocks. A small layer takes less than that for one row (docs/decisions/038).
#ifndef TFAOT_KERNELS_SMALL_DENSE_H_
#define TFAOT_KERNELS_SMALL_DENSE_H_

#include "activating.h"
#include "dispatch.h"
#include "elementwise.h"
#include "softmax.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Floats of packed weights: with more, the cost of a call does not matter.
inline constexpr std::size_t kFewWeights = 1 << 15;

/// Floats of packed weights that stay in the L1 cache: any number of rows is computed here, kFewRows at a time. An
/// autoencoder of 9 KB took 0.69 of its time for 16 rows (benchmarks/families.py).
inline constexpr std::size_t kTinyWeights = 1 << 12;

/// The most rows of a layer that are computed here.
constexpr std::size_t mostFew(std::size_t inputs, std::size_t outputs) {
  const std::size_t size = packedSize(inputs, outputs);
  if (size > kFewWeights || isChained(inputs, outputs)) return 0;
  return size <= kTinyWeights ? static_cast<std::size_t>(-1) : kFewRows;
}

/// Rows that are computed at a time if there are many: four rows with one vector of sums each would wait for these sums half
/// of the time. With twice the rows the autoencoder takes 0.96 of its time for 16 rows.
constexpr std::size_t manyRows(std::size_t outputs) { return outputs <= kLanes ? kFewRowsOfOne : kFewRows; }

/// The products of each of kRows rows, `step` apart, and a column, added in the tree of a row's sums (`reduced`) up to its last
/// kLanes numbers.
template <std::size_t kRows>
TFAOT_INLINE void productsInTree(std::size_t inner, const float* rows, std::size_t step, const float* column,
                                 Vector (&products)[kRows]) {
  Vector partial[kRows][kPartialVectors] = {};
  std::size_t k = 0;
  for (; k + kPartial <= inner; k += kPartial) {
    TFAOT_UNROLL
    for (std::size_t v = 0; v < kPartialVectors; ++v) {
      const Vector numbers = load(column + k + v * kLanes);
      TFAOT_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) partial[r][v] = multiplyAdd(load(rows + r * step + k + v * kLanes), numbers, partial[r][v]);
    }
  }
  for (std::size_t v = 0; k < inner; ++v, k += kLanes) {
    const std::size_t count = inner - k < kLanes ? inner - k : kLanes;
    const Vector numbers = loadFirst(column + k, count);
    TFAOT_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) partial[r][v] = multiplyAdd(loadFirst(rows + r * step + k, count), numbers, partial[r][v]);
  }
  TFAOT_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int count = kPartialVectors / 2; count > 0; count /= 2) {
      TFAOT_UNROLL
      for (int v = 0; v < count; ++v) partial[r][v] += partial[r][v + count];
    }
    products[r] = partial[r][0];
  }
}
/// The same for one row.
TFAOT_INLINE Vector productsInTree(std::size_t inner, const float* row, const float* column) {
  Vector products[1];
  productsInTree(inner, row, 0, column, products);
  return products[0];
}

/// The lanes of each of kCount vectors, added in the same tree. The sum of vector i is in lane i * kLanes / kCount.
template <int kCount, int kStep = kLanes / 2>
TFAOT_INLINE Vector sumsOfLanes(const Vector (&rows)[kCount]) {
  if constexpr (kCount > 1) {
    Vector pairs[kCount / 2];
    TFAOT_UNROLL
    for (int i = 0; i < kCount / 2; ++i) {
      // Each vector of a pair needs half of the lanes.
      const Vector a = rows[i], b = rows[i + kCount / 2];
      pairs[i] = mixedLanes<kStep, false>(a, b) + mixedLanes<kStep, true>(a, b);
    }
    return sumsOfLanes<kCount / 2, kStep / 2>(pairs);
  } else if constexpr (kStep > 0) {
    const Vector half[] = {rows[0] + exchanged<kStep>(rows[0])};
    return sumsOfLanes<1, kStep / 2>(half);
  } else {
    return rows[0];
  }
}

/// Each of `rows` rows of `inner` floats times a column: sums of products in the tree of a row's sums. Rows lie `step` apart,
/// their columns `columnStep`, and their results `outStep`.
template <int kRows = kLanes>
TFAOT_INLINE void timesColumn(std::size_t rows, std::size_t inner, const float* in, std::size_t step, const float* column,
                              std::size_t columnStep, float* out, std::size_t outStep) {
  for (; rows >= kRows; rows -= kRows, in += kRows * step, column += kRows * columnStep, out += kRows * outStep) {
    Vector products[kRows];
    TFAOT_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) products[r] = productsInTree(inner, in + r * step, column + r * columnStep);
    const Vector sums = permuted(sumsOfLanes(products), [](int lane) { return lane * (kLanes / kRows) % kLanes; });
    if (outStep == 1) {
      storePart(out, kRows, sums);
    } else {
      TFAOT_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) out[r * outStep] = sums[r];
    }
  }
  if constexpr (kRows > 1) timesColumn<kRows / 2>(rows, inner, in, step, column, columnStep, out, outStep);
}

/// Rows of floats, `step` apart and the floats of each `along` apart, times a matrix of few columns that is not packed: its
/// rows lie `down` apart.
struct NarrowProduct {
  std::size_t inner;
  const float* in;
  std::size_t step, along;
  const float* matrix;
  std::size_t down;
  float* out;
  std::size_t outStep;
};
/// The sums of kRows rows and kColumns columns, in the order of `dense`.
template <int kColumns, int kRows>
TFAOT_INLINE void sumNarrow(const NarrowProduct& product) {
  constexpr int kWidth = vectorsOf(kColumns), kLast = kColumns - (kWidth - 1) * kLanes;
  Vector sums[kRows][kWidth] = {};
  for (std::size_t k = 0; k < product.inner; ++k) {
    const float *in = product.in + k * product.along, *matrix = product.matrix + k * product.down;
    Vector weights[kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      weights[v] = v + 1 < kWidth || kLast == kLanes ? load(matrix + v * kLanes) : loadFirst(matrix + v * kLanes, kLast);
    }
    TFAOT_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) {
      const Vector input = broadcast(in[r * product.step]);
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[r][v] = multiplyAdd(input, weights[v], sums[r][v]);
    }
  }
  TFAOT_UNROLL
  for (std::size_t r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      storePart(product.out + r * product.outStep + v * kLanes, v + 1 < kWidth ? kLanes : kLast, sums[r][v]);
    }
  }
}
/// The most rows at a time, a power of two: registers hold their sums beside a row of the matrix.
constexpr int narrowRows(int columns) {
  int rows = 8;
  while (rows * vectorsOf(columns) > kRegisters / 2) rows /= 2;
  return rows;
}
/// `rows` rows times kColumns columns, at most kPanel.
template <int kColumns, int kRows = narrowRows(kColumns)>
TFAOT_INLINE void timesNarrow(NarrowProduct product, std::size_t rows) {
  for (; rows >= kRows; rows -= kRows) {
    sumNarrow<kColumns, kRows>(product);
    product.in += kRows * product.step, product.out += kRows * product.outStep;
  }
  if constexpr (kRows > 1) timesNarrow<kColumns, kRows / 2>(product, rows);
}

/// A row of `inner` floats times a matrix, whose rows lie `down` apart, with sums as in `dense`.
TFAOT_INLINE void timesMatrix(std::size_t inner, std::size_t width, const float* row, const float* matrix, std::size_t down,
                              float* out) {
  eachTogether(width, [&](auto... places) {
    Vector sums[] = {places.fill(0.0f)...};
    for (std::size_t k = 0; k < inner; ++k) {
      const Vector x = broadcast(row[k]);
      Vector* sum = sums;
      ((*sum = multiplyAdd(x, places.load(matrix + k * down), *sum), ++sum), ...);
    }
    const Vector* sum = sums;
    (places.store(out, *sum++), ...);
  });
}

/// Rows of a small layer's input and output.
struct FewRows {
  const float* in;
  float* out;
  bool rectified;  ///< whether Activation::relu is applied here, because it is not worth a call
};

/// Columns that `rows` rows are multiplied by at a time.
constexpr std::size_t stripOfFew(std::size_t rows) { return (rows > kFewRows ? 1 : kFewPanels[rows]) * kPanel; }

/// The sums of `kRows` rows times `kColumns` columns of packed weights. The order of additions is that of `sumBlocks`.
template <std::size_t kInputs, std::size_t kColumns, std::size_t kRows, std::size_t kWidth>
TFAOT_INLINE void sumFew(const float* weights, const float* bias, const float* in, Vector (&sums)[kRows][kWidth]) {
  constexpr std::size_t kLast = kColumns - (kWidth - 1) * kLanes;
  TFAOT_UNROLL
  for (std::size_t v = 0; v < kWidth; ++v) {
    Vector start{};
    if (bias != nullptr) start = v + 1 < kWidth || kLast == kLanes ? load(bias + v * kLanes) : loadFirst(bias + v * kLanes, kLast);
    TFAOT_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) sums[r][v] = start;
  }
  for (std::size_t k = 0; k < kInputs; ++k, weights += kPanel) {
    Vector inputs[kRows];
    TFAOT_UNROLL
    for (std::size_t r = 0; r < kRows; ++r) inputs[r] = broadcast(in[r * kInputs + k]);
    TFAOT_UNROLL
    for (std::size_t v = 0; v < kWidth; ++v) {
      const Vector weight = load(weights + v / kVectors * kInputs * kPanel + v % kVectors * kLanes);
      TFAOT_UNROLL
      for (std::size_t r = 0; r < kRows; ++r) sums[r][v] = multiplyAdd(weight, inputs[r], sums[r][v]);
    }
  }
}

/// Stores `kRows` rows of `kColumns` columns, which lie `kOutputs` apart.
template <std::size_t kOutputs, std::size_t kColumns, std::size_t kRows, std::size_t kWidth>
TFAOT_INLINE void storeFew(const Vector (&sums)[kRows][kWidth], float* out) {
  TFAOT_UNROLL
  for (std::size_t r = 0; r < kRows; ++r, out += kOutputs) {
    TFAOT_UNROLL
    for (std::size_t v = 0; v + 1 < kWidth; ++v) store(out + v * kLanes, sums[r][v]);
    storeFirst<kColumns - (kWidth - 1) * kLanes>(out + (kWidth - 1) * kLanes, sums[r][kWidth - 1]);
  }
}

/// `kRows` rows times `kColumns` of `kOutputs` columns.
template <std::size_t kRows, std::size_t kInputs, std::size_t kOutputs, std::size_t kColumns>
TFAOT_INLINE void multiplyStripOfFew(const float* weights, const float* bias, FewRows rows) {
  Vector sums[kRows][vectorsOf(kColumns)];
  sumFew<kInputs, kColumns>(weights, bias, rows.in, sums);
  if (rows.rectified) {
    TFAOT_UNROLL
    for (auto& row : sums) {
      TFAOT_UNROLL
      for (Vector& sum : row) sum = positivePart(sum);
    }
  }
  storeFew<kOutputs, kColumns>(sums, rows.out);
}

/// The same times all columns, some at a time.
template <std::size_t kRows, std::size_t kInputs, std::size_t kOutputs>
TFAOT_INLINE void multiplyFewHere(const float* weights, const float* bias, FewRows rows) {
  constexpr std::size_t kStrip = stripOfFew(kRows), kRest = kOutputs % kStrip;
  for (std::size_t column = 0; column + kStrip <= kOutputs; column += kStrip) {
    multiplyStripOfFew<kRows, kInputs, kOutputs, kStrip>(weights, bias, rows);
    weights += kStrip * kInputs;
    if (bias != nullptr) bias += kStrip;
    rows.out += kStrip;
  }
  if constexpr (kRest != 0) multiplyStripOfFew<kRows, kInputs, kOutputs, kRest>(weights, bias, rows);
}

template <std::size_t kRows, std::size_t kInputs, std::size_t kOutputs>
TFAOT_ALONE void multiplyFewAlone(const float* weights, const float* bias, FewRows rows) {
  multiplyFewHere<kRows, kInputs, kOutputs>(weights, bias, rows);
}

/// With at least this many sums at a time the product is not inlined. Inlined into a program, whose loops keep the numbers of
/// their activations in registers, GCC kept 24 sums of 64 x 256 weights on the stack, which took 1.85 times as long for 16
/// rows of an LSTM (AVX-512), and 8 of 50 x 200 weights: 2.05 times for 4 rows of an LSTM (AVX2). A call takes 5 ns.
inline constexpr std::size_t kSumsAlone = 8;

template <std::size_t kRows, std::size_t kInputs, std::size_t kOutputs>
TFAOT_INLINE void multiplyFew(const float* weights, const float* bias, FewRows rows) {
  if constexpr (kRows * vectorsOf(std::min(kOutputs, stripOfFew(kRows))) < kSumsAlone) {
    multiplyFewHere<kRows, kInputs, kOutputs>(weights, bias, rows);
  } else {
    multiplyFewAlone<kRows, kInputs, kOutputs>(weights, bias, rows);
  }
}

template <std::size_t kInputs, std::size_t kOutputs, std::size_t... kRow>
TFAOT_INLINE void multiplyFewOf(const float* weights, const float* bias, std::size_t count, FewRows rows,
                                std::index_sequence<kRow...>) {
  ((count == kRow + 1 ? multiplyFew<kRow + 1, kInputs, kOutputs>(weights, bias, rows) : void()), ...);
}

/// One row of a layer with few outputs, activated in registers: between products and activation no load waits for a store.
template <std::size_t kInputs, std::size_t kOutputs, int kKind>
TFAOT_INLINE void denseOfOne(const float* weights, const float* bias, Activation activation, const float* in, float* out) {
  Vector sums[1][vectorsOf(kOutputs)];
  sumFew<kInputs, kOutputs>(weights, bias, in, sums);
  TFAOT_UNROLL
  for (Vector& sum : sums[0]) sum = activated<kKind>(activation, sum);
  storeFew<kOutputs, kOutputs>(sums, out);
}

/// A dense layer (kernels.h) whose sizes are known at compile time.
template <std::size_t kInputs, std::size_t kOutputs>
inline void dense(const Dispatch& dispatch, const float* weights, const float* bias, Activation activation,
                  std::size_t batch, const float* in, float* out) {
  constexpr std::size_t kMost = mostFew(kInputs, kOutputs);
  if constexpr (kMost > 0) {
    if (batch <= kMost) {
      const bool rectified = activation == Activation::relu;
      FewRows rows = {in, out, rectified};
      std::size_t left = batch;
      [[maybe_unused]] const auto multiply = [&](auto count) __attribute__((always_inline)) {
        constexpr std::size_t kRows = decltype(count)::value;
        multiplyFew<kRows, kInputs, kOutputs>(weights, bias, rows);
        left -= kRows;
        rows.in += kRows * kInputs;
        rows.out += kRows * kOutputs;
      };
      if constexpr (kMost > kFewRows) {
        constexpr std::size_t kMany = manyRows(kOutputs);
        while (left >= kMany) multiply(std::integral_constant<std::size_t, kMany>{});
        while (left > kFewRows) multiply(std::integral_constant<std::size_t, kFewRows>{});
      }
      multiplyFewOf<kInputs, kOutputs>(weights, bias, left, rows, std::make_index_sequence<kFewRows>{});
      if (activation != Activation::none && !rectified) activate(dispatch, activation, batch * kOutputs, out, out);
      return;
    }
  }
  if constexpr (kMost <= kFewRows) {
    dense(dispatch, {kInputs, kOutputs, weights, bias, activation}, batch, in, kInputs, out, kOutputs);
  }
}

/// The same for one panel of outputs, and an activation that is known, too.
template <std::size_t kInputs, std::size_t kOutputs, int kKind>
inline void dense(const Dispatch& dispatch, const float* weights, const float* bias, Activation activation,
                  std::size_t batch, const float* in, float* out) {
  static_assert(kOutputs <= kPanel);
  if constexpr (!isChained(kInputs, kOutputs)) {
    if (batch == 1) return denseOfOne<kInputs, kOutputs, kKind>(weights, bias, activation, in, out);
  }
  dense<kInputs, kOutputs>(dispatch, weights, bias, activation, batch, in, out);
}

/// The same by a team, which may be null.
template <std::size_t kInputs, std::size_t kOutputs>
inline void denseByTeam(const Team* team, const Dispatch& dispatch, const float* weights, const float* bias,
                        Activation activation, std::size_t batch, const float* in, float* out) {
  if (team == nullptr || batch <= mostFew(kInputs, kOutputs)) {
    return dense<kInputs, kOutputs>(dispatch, weights, bias, activation, batch, in, out);
  }
  dense(*team, dispatch, {kInputs, kOutputs, weights, bias, activation}, batch, in, out);
}

/// Rows whose products share the loads of weights. Fewer are computed one by one.
inline constexpr std::size_t kTogetherInTree = 4;

/// The sums of one row and at most four outputs, in the first lanes.
template <std::size_t kInputs, std::size_t kOutputs>
TFAOT_INLINE Vector rowInTree(const float* weights, const float* bias, const float* in) {
  constexpr int kVectorsAdded = kOutputs > 2 ? 4 : kOutputs;  // a power of two
  Vector products[kVectorsAdded] = {};
  TFAOT_UNROLL
  for (std::size_t i = 0; i < kOutputs; ++i) products[i] = productsInTree(kInputs, in, weights + i * kInputs);
  const Vector sums = permuted(sumsOfLanes(products), [](int lane) { return lane * (kLanes / kVectorsAdded) % kLanes; });
  return bias == nullptr ? sums : sums + loadFirst(bias, kOutputs);
}

/// Any number of rows times at most four outputs: a vector of sums for each, whose lanes are added together.
template <std::size_t kInputs, std::size_t kOutputs>
TFAOT_ALONE void rowsInTree(const float* weights, const float* bias, std::size_t count, FewRows rows) {
  constexpr std::size_t kMost = kLanes / kOutputs, kTogether = kMost < kTogetherInTree ? kMost : kTogetherInTree;
  Vector start = filled(Adding::kStart);  // a sum of products that vanish is -0 if they are negative
  if (bias != nullptr) start = permuted(loadFirst(bias, kOutputs), [](int lane) { return lane % int{kOutputs}; });
  Vector products[kLanes] = {};
  while (count > 0) {
    const std::size_t here = count < kMost ? count : kMost;
    const auto add = [&](std::size_t row, auto number) __attribute__((always_inline)) {
      constexpr std::size_t kRows = decltype(number)::value;
      for (std::size_t column = 0; column < kOutputs; ++column) {
        Vector some[kRows];
        productsInTree(kInputs, rows.in + row * kInputs, kInputs, weights + column * kInputs, some);
        TFAOT_UNROLL
        for (std::size_t r = 0; r < kRows; ++r) products[(row + r) * kOutputs + column] = some[r];
      }
    };
    std::size_t row = 0;
    for (; row + kTogether <= here; row += kTogether) add(row, std::integral_constant<std::size_t, kTogether>{});
    for (; row < here; ++row) add(row, std::integral_constant<std::size_t, 1>{});
    const Vector sums = sumsOfLanes(products) + start;
    storeFirst(rows.out, here * kOutputs, rows.rectified ? positivePart(sums) : sums);
    rows.in += here * kInputs, rows.out += here * kOutputs, count -= here;
  }
}

/// A dense layer of at most four outputs. `weights` are kInputs floats for each of them: packed, few lanes of a vector would
/// be used, and each sum would wait for itself. Products are added in the tree of a row's sums. A layer of 120 inputs and
/// two outputs takes 0.14 of its time for one row, and 0.31 for 64 (AVX-512; AVX2: 0.17 and 0.34).
template <std::size_t kInputs, std::size_t kOutputs>
inline void denseInTree(const Dispatch& dispatch, const float* weights, const float* bias, Activation activation,
                        std::size_t batch, const float* in, float* out) {
  const bool rectified = activation == Activation::relu;
  if (batch < kTogetherInTree) {
    for (std::size_t row = 0; row < batch; ++row) {
      const Vector sums = rowInTree<kInputs, kOutputs>(weights, bias, in + row * kInputs);
      storeFirst(out + row * kOutputs, kOutputs, rectified ? positivePart(sums) : sums);
    }
  } else {
    rowsInTree<kInputs, kOutputs>(weights, bias, batch, {in, out, rectified});
  }
  if (activation != Activation::none && !rectified) activate(dispatch, activation, batch * kOutputs, out, out);
}

/// The same with an activation that is known, too.
template <std::size_t kInputs, std::size_t kOutputs, int kKind>
inline void denseInTree(const Dispatch& dispatch, const float* weights, const float* bias, Activation activation,
                        std::size_t batch, const float* in, float* out) {
  if (batch != 1) return denseInTree<kInputs, kOutputs>(dispatch, weights, bias, activation, batch, in, out);
  storeFirst(out, kOutputs, activated<kKind>(activation, rowInTree<kInputs, kOutputs>(weights, bias, in)));
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_SMALL_DENSE_H_
