// packing.h: copies matrices into panels.
#ifndef TFAOT_KERNELS_PACKING_H_
#define TFAOT_KERNELS_PACKING_H_

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Packs a panel of a matrix whose columns are contiguous and lie `right` apart: kLanes elements of each at a time.
inline void packTurned(const float* from, std::size_t rows, std::size_t right, float* to) {
  std::size_t i = 0;
  for (; i + kLanes <= rows; i += kLanes) {
    for (std::size_t j = 0; j < kPanel; j += kLanes) {
      Vector tile[kLanes];
      TFAOT_UNROLL
      for (std::size_t c = 0; c < kLanes; ++c) tile[c] = load(from + (j + c) * right + i);
      transpose(tile);
      TFAOT_UNROLL
      for (std::size_t r = 0; r < kLanes; ++r) store(to + (i + r) * kPanel + j, tile[r]);
    }
  }
  for (; i < rows; ++i) {
    for (std::size_t j = 0; j < kPanel; ++j) to[i * kPanel + j] = from[i + j * right];
  }
}

/// Packs a matrix of `rows` x `columns`, whose element of row i and column j is from[i * down + j * right], into panels.
inline void packPanels(const float* from, std::size_t rows, std::size_t columns, std::size_t down, std::size_t right,
                       float* to) {
  for (std::size_t panel = 0; panel < columns; panel += kPanel, to += rows * kPanel, from += kPanel * right) {
    const std::size_t here = columns - panel < kPanel ? columns - panel : kPanel;
    if (here < kPanel) std::memset(to, 0, rows * kPanel * sizeof(float));
    if (right == 1) {
      for (std::size_t i = 0; i < rows; ++i) {
        if (here == kPanel) {  // a constant size, so that compilers use vectors
          std::memcpy(to + i * kPanel, from + i * down, kPanel * sizeof(float));
        } else {
          std::memcpy(to + i * kPanel, from + i * down, here * sizeof(float));
        }
      }
    } else if (here == kPanel && down == 1) {
      packTurned(from, rows, right, to);
    } else if (here == kPanel) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < kPanel; ++j) to[i * kPanel + j] = from[i * down + j * right];
      }
    } else {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < here; ++j) to[i * kPanel + j] = from[i * down + j * right];
      }
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_PACKING_H_
