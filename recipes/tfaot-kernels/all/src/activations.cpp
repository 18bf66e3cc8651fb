// activations.cpp: activations, softmax and packing.
#include "tfaot_kernels/kernels.h"

#include <cstddef>
#include <cstring>

// All that follows is hidden as well, so that libraries for several targets, or of several versions, share nothing.
#pragma GCC visibility push(hidden)
#include "activating.h"
#include "packing.h"
#include "reachable_functions.h"
#include "softmax.h"
#pragma GCC visibility pop

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// With external linkage, because programs have their own tables, which use some of the functions instantiated here.
constexpr Dispatch kActivating = Reached{}.activations().table();

void activate(const Dispatch& dispatch, Activation activation, std::size_t count, const float* in, float* out) noexcept {
  if (out != in) std::memcpy(out, in, count * sizeof(float));
  activateRow(dispatch, activation, out, count);
}

void softmaxLong(std::size_t rows, std::size_t size, const float* in, float* out) {
  for (std::size_t row = 0; row < rows; ++row) softmaxRow(size, in + row * size, out + row * size);
}

void softmax(std::size_t rows, std::size_t size, const float* in, float* out) noexcept {
  softmaxRows(rows, size, in, out);
}

void pack(const float* weights, std::size_t rows, std::size_t columns, float* packed) noexcept {
  pack(weights, rows, columns, columns, 1, packed);
}

void pack(const float* weights, std::size_t rows, std::size_t columns, std::size_t down, std::size_t right,
          float* packed) noexcept {
  packPanels(weights, rows, columns, down, right, packed);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels
