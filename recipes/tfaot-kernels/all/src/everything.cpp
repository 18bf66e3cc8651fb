// everything.cpp: the layers of kernels.h that choose among all functions. Programs call those with a table of their own.
#include "tfaot_kernels/kernels.h"

#include <cstddef>
#include <cstdint>

// All that follows is hidden as well, so that libraries for several targets, or of several versions, share nothing.
#pragma GCC visibility push(hidden)
#include "activating.h"
#include "reachable_functions.h"
#pragma GCC visibility pop

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

constexpr Dispatch kEverything = Reached{}.activations().products().images().table();

void activate(Activation activation, std::size_t count, const float* in, float* out) noexcept {
  activate(kEverything, activation, count, in, out);
}

void add(Activation activation, std::size_t count, const float* first, const float* second, float* out) noexcept {
  addRow(kEverything, activation, count, first, second, out);
}

void dense(const Dense& layer, std::size_t batch, const float* in, float* out) noexcept {
  dense(kEverything, layer, batch, in, layer.inputs, out, layer.outputs);
}

void dense(const Dense& layer, std::size_t batch, const float* in, std::size_t inStride, float* out,
           std::size_t outStride) noexcept {
  dense(kEverything, layer, batch, in, inStride, out, outStride);
}

void sparseDense(const SparseDense& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept {
  sparseDense(kEverything, layer, batch, in, out, scratch);
}

void conv2d(const Conv2d& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept {
  conv2d(kEverything, layer, batch, in, out, scratch);
}

void transposedConv2d(const Conv2d& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept {
  transposedConv2d(kEverything, layer, batch, in, out, scratch);
}

template <bool kKeepsNan>
void conv2dMaxPool(const Conv2d& layer, const Window& pool, std::size_t batch, const float* in, float* out,
                   float* scratch) noexcept {
  conv2dMaxPool<kKeepsNan>(kEverything, layer, pool, batch, in, out, scratch);
}
template void conv2dMaxPool<false>(const Conv2d&, const Window&, std::size_t, const float*, float*, float*) noexcept;
template void conv2dMaxPool<true>(const Conv2d&, const Window&, std::size_t, const float*, float*, float*) noexcept;

void bfloat16Dense(const Bfloat16Dense& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept {
  bfloat16Dense(nullptr, kEverything, layer, batch, in, out, scratch);
}

void narrowDense(const NarrowDense& layer, std::size_t batch, const float* in, float* out) noexcept {
  narrowDense(kEverything, layer, batch, in, out);
}

void bfloat16Conv2d(const Bfloat16Conv2d& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept {
  bfloat16Conv2d(nullptr, kEverything, layer, batch, in, out, scratch);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels
