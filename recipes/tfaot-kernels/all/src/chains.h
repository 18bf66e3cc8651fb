// chains.h: layers that have too few columns to keep the arithmetic units busy: their sums are made in four chains.
#ifndef TFAOT_KERNELS_CHAINS_H_
#define TFAOT_KERNELS_CHAINS_H_

#include "blocks.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

inline constexpr int kChains = 4;
inline constexpr std::size_t kMostSums = 32 * kLanes;  // floats of the largest block's sums

/// Sums of `kRows` rows in four chains at once, of a quarter of the inputs each, the remainder in the last one's.
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
    for (int i = 0; i < kChains; ++i) add(i, i * part + k);
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

using ChainBlock = void (*)(const Strip&, std::size_t length, const float* const* rows, Target out);

template <int kRows, int kWidth>
constexpr ChainBlock chainBlockOf() {
  if constexpr (kRows * kWidth * kChains <= kChainSums) return &sumInChains<kRows, kWidth>;
  return nullptr;
}

inline constexpr int kChainRows = kChainSums / kChains;

struct ChainBlocks {
  ChainBlock byRowsAndWidth[kChainRows][2];  ///< both less one
};

template <int... kRow>
constexpr ChainBlocks allChainBlocks(std::integer_sequence<int, kRow...>) {
  return {{{chainBlockOf<kRow + 1, 1>(), chainBlockOf<kRow + 1, 2>()}...}};
}

inline constexpr ChainBlocks kChainBlocks = allChainBlocks(std::make_integer_sequence<int, kChainRows>{});

/// One chain after the other: for so many rows that the units are busy.
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
    kBlocks.byRowsAndWidth[count - 1][width - 1](rest, chain, from, 1, {parts[i], width * kLanes});
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

/// The sums of layers that have too few columns to keep the arithmetic units busy when there is one row only: in four
/// chains, added in a fixed order. Few rows run all chains at once, more rows run one chain after the other; the bits
/// are the same.
inline void sumChains(const Strip& strip, const Product& product, const float* const* rows, std::size_t count,
                      std::size_t width, Target out) {
  if (count * width > 2 * kChains) {
    sumChainByChain(strip, product, rows, count, width, out);
  } else {
    const std::size_t most = kChainRows / width;
    std::size_t groups = (count + most - 1) / most;
    for (std::size_t done = 0; done < count; --groups) {
      const std::size_t size = (count - done + groups - 1) / groups;
      const Target to = {out.data + done * out.stride, out.stride};
      kChainBlocks.byRowsAndWidth[size - 1][width - 1](strip, product.segments.length, rows + done, to);
      done += size;
    }
  }
  if (product.activation != Activation::none) activateBlock(product.activation, out.data, count, width, out.stride);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_CHAINS_H_
