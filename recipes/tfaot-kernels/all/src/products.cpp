// products.cpp: dense layers of float32, and the products of which convolutions consist.
#include "tfaot_kernels/kernels.h"

#include <cstddef>

// All that follows is hidden as well, so that libraries for several targets, or of several versions, share nothing.
#pragma GCC visibility push(hidden)
#include "chains.h"
#include "products.h"
#include "reachable_functions.h"
#include "sparse.h"
#include "team_layers.h"
#pragma GCC visibility pop

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// The sums of layers that have too few columns to keep the arithmetic units busy if there is only one row: in four chains,
/// which are added in a fixed order. Few rows compute all chains at a time, more rows one chain after the other; the bits are
/// the same.
void sumChains(const Strip& strip, const Product& product, const float* const* rows, std::size_t count,
                      std::size_t width, Target out) {
  if (isChainByChain(count, width)) {
    sumChainByChain(strip, product, rows, count, width, out);
  } else {
    divideChains(count, width, [&](std::size_t done, std::size_t size) {
      const Target to = {out.data + done * out.stride, out.stride};
      product.dispatch->chainBlocks[size - 1][width - 1](strip, product.segments.length, rows + done, to);
    });
  }
  const Activation activation = product.activation;
  if (activation == Activation::none) return;
  product.dispatch->activations[activation](activation, out.data, count, width, out.stride);
}

// With external linkage, because programs have their own tables, which use some of the functions instantiated here.
constexpr Dispatch kMultiplying = Reached{}.products().table();

void dense(const Dispatch& dispatch, const Dense& layer, std::size_t batch, const float* in, std::size_t inStride, float* out,
           std::size_t outStride) noexcept {
  multiplyRows(productOf(dispatch, layer), layer.inputs, batch, in, inStride, out, outStride);
}

void dense(const Team& team, const Dispatch& dispatch, const Dense& layer, std::size_t batch, const float* in,
           float* out) noexcept {
  denseByTeam(team, productOf(dispatch, layer), layer.inputs, batch, in, out);
}

void sparseDense(const Dispatch& dispatch, const SparseDense& layer, std::size_t batch, const float* in, float* out,
                 float* scratch) noexcept {
  denseSparse(dispatch, layer, batch, in, out, scratch);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels
