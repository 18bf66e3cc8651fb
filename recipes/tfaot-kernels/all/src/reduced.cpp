// reduced.cpp: layers of bytes and bfloat16, and of weights in fewer bits. They use those of the other parts.
#include "tfaot_kernels/kernels.h"

#include <cstdint>

#pragma GCC visibility push(hidden)
#include "bfloat16_products.h"
#include "look_up.h"
#include "narrow.h"
#include "quantized_groups.h"
#include "reachable_functions.h"
#include "reduced_layers.h"
#pragma GCC visibility pop

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

std::uint32_t permissions = 0;

std::uint32_t permitTiles(bool isGranted) noexcept {
  const std::uint32_t known = TilesOf<Integers>::known();
  __atomic_store_n(&permissions, isGranted ? known : 0, __ATOMIC_RELAXED);
  return known;
}

void quantizedDepthwise(const QuantizedConv2d& layer, std::size_t batch, const void* in, void* out,
                        std::uint32_t* scratch) noexcept {
  const auto* const bytes = static_cast<const std::uint8_t*>(in);
  withForm([&](auto form) { convolveDepthwise<decltype(form)>(layer, batch, bytes, out, scratch); });
}

void quantizedGroups(const QuantizedGroups& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept {
  const auto* const bytes = static_cast<const std::uint8_t*>(in);
  withForm([&](auto form) { convolveGroups<decltype(form)>(layer.layer, layer.groups, batch, bytes, out, scratch); });
}

void maxPool(const Window& window, std::size_t batch, const std::uint8_t* in, std::uint8_t* out) noexcept {
  maxPoolBytes(window, batch, in, out);
}

void maxPool(const Window& window, std::size_t batch, const std::int8_t* in, std::int8_t* out) noexcept {
  maxPoolBytes(window, batch, in, out);
}

void lookUp(const std::uint8_t* table, std::size_t count, const void* in, void* out) noexcept {
  lookUpBytes(table, count, static_cast<const std::uint8_t*>(in), static_cast<std::uint8_t*>(out));
}

void quantizedDense(const QuantizedDense& layer, std::size_t batch, const void* in, void* out,
                    std::uint32_t* scratch) noexcept {
  quantizedDense(nullptr, layer, batch, in, out, scratch);
}

void quantizedDense(const Team* team, const QuantizedDense& layer, std::size_t batch, const void* in, void* out,
                    std::uint32_t* scratch) noexcept {
  denseOfBytes(team, layer, batch, static_cast<const std::uint8_t*>(in), static_cast<char*>(out), scratch);
}

void quantizedConv2d(const QuantizedConv2d& layer, std::size_t batch, const void* in, void* out,
                     std::uint32_t* scratch) noexcept {
  quantizedConv2d(nullptr, layer, batch, in, out, scratch);
}

void quantizedConv2d(const Team* team, const QuantizedConv2d& layer, std::size_t batch, const void* in, void* out,
                     std::uint32_t* scratch) noexcept {
  conv2dOfBytes(team, layer, batch, static_cast<const std::uint8_t*>(in), static_cast<char*>(out), scratch);
}

void bfloat16Dense(const Team* team, const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t batch, const void* in,
                   void* out, std::uint32_t* scratch) noexcept {
  denseOfBfloat16(team, dispatch, layer, batch, static_cast<const std::uint8_t*>(in), static_cast<char*>(out), scratch);
}

void bfloat16Pack(const float* matrix, std::size_t inputs, std::size_t outputs, std::size_t down, std::size_t right,
                  std::uint32_t* packed) noexcept {
  packComputed(matrix, inputs, outputs, down, right, packed);
}

void bfloat16Product(const Dispatch& dispatch, Bfloat16Dense layer, std::size_t batch, const float* in, std::size_t inStride,
                     float* out, std::uint32_t* packed) noexcept {
  layer.weights = packed;
  multiplyComputed(dispatch, layer, batch, in, inStride, out, packed + packedBfloat16Size(layer.inputs, layer.outputs));
}

void narrowDense(const Dispatch& dispatch, const NarrowDense& layer, std::size_t batch, const float* in, float* out) noexcept {
  if (layer.scales == nullptr) return denseNarrow<std::uint16_t>(dispatch, layer, batch, in, out);
  denseNarrow<std::int8_t>(dispatch, layer, batch, in, out);
}

void bfloat16Conv2d(const Team* team, const Dispatch& dispatch, const Bfloat16Conv2d& layer, std::size_t batch, const void* in,
                    void* out, std::uint32_t* scratch) noexcept {
  conv2dOfBfloat16(team, dispatch, layer, batch, static_cast<const std::uint8_t*>(in), static_cast<char*>(out), scratch);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels
