// blocks.h: the one micro-kernel: a block of rows times panels of packed weights, with bias and activation.
//
// Dense layers and convolutions of every kind are made of it. What a row is, the caller says: it lies in one or more
// segments, so that a convolution's window need not be copied.
#ifndef TFAOT_KERNELS_BLOCKS_H_
#define TFAOT_KERNELS_BLOCKS_H_

#include "activations.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Rows that are handled together: their inputs stay in the cache while panel after panel passes.
inline constexpr std::size_t kRowsAtATime = 64;

/// One row of a left-hand matrix: segments that lie `stride` floats apart.
struct Row {
  const float* data;
  std::size_t stride;
};

/// How every row is cut: `count` segments of `length` floats.
struct Segments {
  std::size_t count, length;
};

/// The right-hand side and what happens to the product.
struct Product {
  const float* weights;  ///< packed
  const float* bias;     ///< or null
  std::size_t columns;
  std::size_t panelSize;  ///< floats of one panel
  Activation activation;
  /// Whether sums are made in kChains chains, see `chained`. Rows have one segment then.
  bool chained;
  /// Whether to ask for weights before they are used: it pays where few rows use them.
  bool fetchAhead;
};

inline constexpr int kChains = 4;

template <int kRows, int kStrands>
using Sums = Vector[kRows][kStrands][kVectors];

/// Adds the products of `kRows` rows with `kStrands` strips of weights. Strand i reads the rows from i * rowStep on and
/// the weights from i * weightStep on: several panels (rowStep 0), or several stretches of one panel.
template <int kRows, int kStrands>
TFAOT_INLINE void accumulate(Sums<kRows, kStrands>& sums, const Row* rows, std::size_t rowStep, const float* weights,
                             std::size_t weightStep, Segments segments, [[maybe_unused]] bool fetchAhead = false) {
  const float* from[kRows];
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) from[r] = rows[r].data;
  for (std::size_t s = 0;;) {
    for (std::size_t k = 0; k < segments.length; ++k, weights += kPanel) {
      TFAOT_UNROLL
      for (int i = 0; i < kStrands; ++i) {
        if constexpr (kStrands == 1) {  // several strands are several streams, which hardware follows well enough
          if (fetchAhead) prefetch(weights);
        }
        Vector weight[kVectors];
        TFAOT_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          weight[v] = load(weights + i * weightStep + v * kLanes);
          if constexpr (kRows > 1) keepInRegister(weight[v]);
        }
        TFAOT_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const Vector input = broadcast(from[r][i * rowStep + k]);
          TFAOT_UNROLL
          for (int v = 0; v < kVectors; ++v) sums[r][i][v] += input * weight[v];
        }
      }
    }
    if (++s == segments.count) return;
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) from[r] += rows[r].stride;
  }
}

/// Where a block's result goes.
struct Target {
  float* data;
  std::size_t stride;  ///< floats from row to row
};

/// The bias of the panel that begins at `column`, with zeros behind the last one.
TFAOT_INLINE void loadBias(const Product& product, std::size_t column, Vector (&bias)[kVectors]) {
  float padded[kPanel] = {};
  const float* from = padded;
  if (product.bias != nullptr) {
    if (product.columns - column >= kPanel) {
      from = product.bias + column;
    } else {
      std::memcpy(padded, product.bias + column, (product.columns - column) * sizeof(float));
    }
  }
  TFAOT_UNROLL
  for (int v = 0; v < kVectors; ++v) bias[v] = load(from + v * kLanes);
}

/// Activates and stores the sums of one panel. What is not there of a last panel is not stored.
template <int kRows, int kStrands>
TFAOT_INLINE void finish(const Sums<kRows, kStrands>& sums, int strand, const Product& product, std::size_t column,
                         Target out) {
  float last[kRows * kPanel];
  const std::size_t columns = product.columns - column;
  const Target to = columns >= kPanel ? Target{out.data + column, out.stride} : Target{last, kPanel};
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kVectors; ++v) store(to.data + r * to.stride + v * kLanes, sums[r][strand][v]);
  }
  if (product.activation != Activation::none) activateBlock(product.activation, to.data, kRows, to.stride);
  if (columns >= kPanel) return;
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(out.data + r * out.stride + column, last + r * kPanel, columns * sizeof(float));
  }
}

/// `kRows` rows times `kPanels` panels from `panel` on.
template <int kRows, int kPanels>
void block(const Product& product, Segments segments, const Row* rows, std::size_t panel, Target out) {
  Sums<kRows, kPanels> sums;
  TFAOT_UNROLL
  for (int i = 0; i < kPanels; ++i) {
    Vector bias[kVectors];
    loadBias(product, (panel + i) * kPanel, bias);
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      TFAOT_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[r][i][v] = bias[v];
    }
  }
  accumulate<kRows, kPanels>(sums, rows, 0, product.weights + panel * product.panelSize, product.panelSize, segments,
                             product.fetchAhead);
  TFAOT_UNROLL
  for (int i = 0; i < kPanels; ++i) finish<kRows, kPanels>(sums, i, product, (panel + i) * kPanel, out);
}

/// The same for one panel of a layer that has too few columns to keep the arithmetic units busy when there is one row
/// only: a quarter of the sum in each of four chains, the remainder in the first one's, added in a fixed order. One row
/// runs all chains at once, more rows run one chain after the other; the bits are the same.
template <int kRows>
void chained(const Product& product, std::size_t length, const Row* rows, std::size_t panel, Target out) {
  const std::size_t part = length / kChains;
  const std::size_t rest = length % kChains;
  const float* weights = product.weights + panel * product.panelSize;
  Sums<kRows, kChains> sums = {};
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) loadBias(product, panel * kPanel, sums[r][0]);
  if constexpr (kRows == 1) {
    accumulate<kRows, kChains>(sums, rows, part, weights, part * kPanel, {1, part});
  } else {
    TFAOT_UNROLL
    for (int i = 0; i < kChains; ++i) {
      Row shifted[kRows];
      Sums<kRows, 1> chain;
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        shifted[r] = {rows[r].data + i * part, 0};
        TFAOT_UNROLL
        for (int v = 0; v < kVectors; ++v) chain[r][0][v] = sums[r][i][v];
      }
      accumulate<kRows, 1>(chain, shifted, 0, weights + i * part * kPanel, 0, {1, part});
      TFAOT_UNROLL
      for (int r = 0; r < kRows; ++r) {
        TFAOT_UNROLL
        for (int v = 0; v < kVectors; ++v) sums[r][i][v] = chain[r][0][v];
      }
    }
  }
  Sums<kRows, 1> total;
  Row end[kRows];
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    end[r] = {rows[r].data + kChains * part, 0};
    TFAOT_UNROLL
    for (int v = 0; v < kVectors; ++v) total[r][0][v] = sums[r][0][v];
  }
  accumulate<kRows, 1>(total, end, 0, weights + kChains * part * kPanel, 0, {1, rest});
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    TFAOT_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      total[r][0][v] = (total[r][0][v] + sums[r][1][v]) + (sums[r][2][v] + sums[r][3][v]);
    }
  }
  finish<kRows, 1>(total, 0, product, panel * kPanel, out);
}

/// `count` rows times one panel, 0 < count <= kRows.
template <int kRows = kBlockRows>
TFAOT_INLINE void onePanel(const Product& product, Segments segments, const Row* rows, std::size_t count,
                           std::size_t panel, Target out) {
  if constexpr (kRows > 1) {
    if (count < kRows) return onePanel<kRows - 1>(product, segments, rows, count, panel, out);
  }
  if (product.chained) return chained<kRows>(product, segments.length, rows, panel, out);
  block<kRows, 1>(product, segments, rows, panel, out);
}

/// Few rows: several panels at a time, so that there are 8 sums.
template <int kRows, int kPanels>
std::size_t wide(const Product& product, Segments segments, const Row* rows, std::size_t panels, Target out) {
  std::size_t panel = 0;
  if (!product.chained) {
    for (; panel + kPanels <= panels; panel += kPanels) block<kRows, kPanels>(product, segments, rows, panel, out);
  }
  return panel;
}

/// At most kRowsAtATime rows times all panels.
inline void multiply(const Product& product, Segments segments, const Row* rows, std::size_t count, Target out) {
  const std::size_t panels = (product.columns + kPanel - 1) / kPanel;
  std::size_t panel = 0;
  if (count == 1) panel = wide<1, 8 / kVectors>(product, segments, rows, panels, out);
  if (count == 2) panel = wide<2, 4 / kVectors>(product, segments, rows, panels, out);
  for (; panel < panels; ++panel) {
    // Blocks of equal size, or nearly so: 8 rows are 4 and 4 rather than 6 and 2, which would take longer.
    std::size_t blocks = (count + kBlockRows - 1) / kBlockRows;
    for (std::size_t row = 0; row < count; --blocks) {
      const std::size_t size = (count - row + blocks - 1) / blocks;
      onePanel(product, segments, rows + row, size, panel, {out.data + row * out.stride, out.stride});
      row += size;
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_BLOCKS_H_
