// activating.h: activations of rows in memory.
#ifndef TFAOT_KERNELS_ACTIVATING_H_
#define TFAOT_KERNELS_ACTIVATING_H_

#include "activations.h"
#include "dispatch.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

template <int kKind>
TFAOT_INLINE Vector activated([[maybe_unused]] Activation activation, Vector x) {
  if constexpr (kKind == Activation::relu) return positivePart(x);
  if constexpr (kKind == Activation::elu) return elu(x);
  if constexpr (kKind == Activation::selu) return selu(x);
  if constexpr (kKind == Activation::tanh) return hyperbolicTangent(x);
  if constexpr (kKind == Activation::sigmoid) return sigmoid(x);
  if constexpr (kKind == Activation::softplus) return softplus(x);
  if constexpr (kKind == Activation::gelu_erf) return geluErf(x);
  if constexpr (kKind == Activation::gelu_tanh) return geluTanh(x);
  if constexpr (kKind == Activation::swish) return swish(x);
  if constexpr (kKind == Activation::hard_swish) return hardSwish(x);
  if constexpr (kKind == Activation::leaky_relu) return leakyRelu(x, activation.slope);
  if constexpr (kKind == Activation::clip) return clipped(x, activation.low, activation.high);
  return x;
}

/// Activates `rows` rows of `width` vectors in place. It is called per block and not inlined, so that all kernels share it.
template <int kKind>
void activateBlock(Activation activation, float* data, std::size_t rows, std::size_t width, std::size_t stride) {
  for (std::size_t row = 0; row < rows; ++row, data += stride) {
    for (std::size_t v = 0; v < width; ++v) {
      store(data + v * kLanes, activated<kKind>(activation, load(data + v * kLanes)));
    }
  }
}

/// Activates `count` floats in place; the last vector is filled with zeros.
inline void activateRow(const Dispatch& dispatch, Activation activation, float* data, std::size_t count) {
  if (activation == Activation::none) return;
  const ActivateBlock activate = dispatch.activations[activation];
  const std::size_t whole = count / kLanes;
  activate(activation, data, 1, whole, 0);
  if (const std::size_t rest = count % kLanes) {
    float padded[kLanes] = {};
    std::memcpy(padded, data + whole * kLanes, rest * sizeof(float));
    activate(activation, padded, 1, 1, 0);
    std::memcpy(data + whole * kLanes, padded, rest * sizeof(float));
  }
}

/// Adds `count` floats and activates the sums, so many at a time that they are still in the L1 cache when activated.
inline void addRow(const Dispatch& dispatch, Activation activation, std::size_t count, const float* first,
                   const float* second, float* out) {
  constexpr std::size_t kAtATime = 2048;
  for (std::size_t begin = 0; begin < count; begin += kAtATime) {
    const std::size_t end = count - begin < kAtATime ? count : begin + kAtATime;
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) store(out + i, load(first + i) + load(second + i));
    for (; i < end; ++i) out[i] = first[i] + second[i];
    activateRow(dispatch, activation, out + begin, end - begin);
  }
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_ACTIVATING_H_
