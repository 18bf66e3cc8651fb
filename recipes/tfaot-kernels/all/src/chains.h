// chains.h: layers that have too few columns to keep the arithmetic units busy: their sums are computed in four chains.
#ifndef TFAOT_KERNELS_CHAINS_H_
#define TFAOT_KERNELS_CHAINS_H_

#include "blocks.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The sums of `kRows` rows in four chains at a time, each of a quarter of the inputs; the last one takes the remainder.
template <int kRows, int kWidth>
void sumInChains(const Strip& strip, std::size_t length, const float* const* rows, Target out) {
  const std::size_t part = length / kChains;
  const float* from[kRows];
  Vector sums[kChains][kRows][kWidth] = {};
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    from[r] = rows[r];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) sums[0][r][v] = load(strip.bias + v * kLanes);
  }
  const auto add = [&](int chain, std::size_t k) __attribute__((always_inline)) {
    Vector weight[kWidth];
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      weight[v] = load(strip.weights[v] + k * kPanel);
      if constexpr (kRows > 1) keepInRegister(weight[v]);
    }
    TFAOT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vector input = broadcast(from[r][k]);
      TFAOT_UNROLL
      for (int v = 0; v < kWidth; ++v) sums[chain][r][v] = multiplyAdd(weight[v], input, sums[chain][r][v]);
    }
  };
  for (std::size_t k = 0; k < part; ++k) {
    TFAOT_UNROLL
    for (int i = 0; i < static_cast<int>(kChains); ++i) add(i, i * part + k);
  }
  for (std::size_t k = kChains * part; k < length; ++k) add(kChains - 1, k);
  TFAOT_UNROLL
  for (int r = 0; r < kRows; ++r, out.data += out.stride) {
    TFAOT_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      store(out.data + v * kLanes, (sums[0][r][v] + sums[1][r][v]) + (sums[2][r][v] + sums[3][r][v]));
    }
  }
}

/// One chain after the other, for enough rows to keep the units busy.
inline void sumChainByChain(const Strip& strip, const Product& product, const float* const* rows, std::size_t count,
                            std::size_t width, Target out) {
  alignas(64) float parts[kChains][kMostSums];
  const std::size_t length = product.segments.length, part = length / kChains;
  Strip rest = strip;
  Product chain = product;
  chain.activation = Activation::none;
  const float* from[kBlockRows];
  for (std::size_t i = 0; i < kChains; ++i) {
    for (std::size_t r = 0; r < count; ++r) from[r] = rows[r] + i * part;
    chain.segments = {i == kChains - 1 ? length - i * part : part};
    product.dispatch->blocks[count - 1][width - 1](rest, chain, from, 1, {parts[i], width * kLanes});
    for (std::size_t v = 0; v < width; ++v) rest.weights[v] += part * kPanel;
    rest.bias = kZeros;
  }
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t v = 0; v < width; ++v) {
      const std::size_t i = (r * width + v) * kLanes;
      store(out.data + r * out.stride + v * kLanes,
            (load(parts[0] + i) + load(parts[1] + i)) + (load(parts[2] + i) + load(parts[3] + i)));
    }
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_CHAINS_H_
