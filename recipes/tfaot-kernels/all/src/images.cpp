// images.cpp: convolutions and pooling of float32.
#include "tfaot_kernels/kernels.h"

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

// All that follows is hidden as well, so that libraries for several targets, or of several versions, share nothing.
#pragma GCC visibility push(hidden)
#include "convolution.h"
#include "fusion.h"
#include "places.h"
#include "pooling.h"
#include "reachable_functions.h"
#include "team_layers.h"
#pragma GCC visibility pop

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

// With external linkage, because programs have their own tables, which use some of the functions instantiated here.
constexpr Dispatch kConvolving = Reached{}.images().table();

std::size_t packedConv2dSize(const Conv2d& layer) noexcept {
  if (isDepthwise(layer)) return windowSize(layer) * layer.filters;
  return layer.groups * packedSize(windowSize(layer), layer.filters / layer.groups);
}

void packConv2d(const Conv2d& layer, const float* filters, float* packed) noexcept {
  const std::size_t rows = windowSize(layer);
  const std::size_t columns = layer.filters / layer.groups;
  if (isDepthwise(layer)) {
    std::memcpy(packed, filters, rows * layer.filters * sizeof(float));
    return;
  }
  for (std::size_t group = 0; group < layer.groups; ++group) {
    for (std::size_t panel = 0; panel < columns; panel += kPanel) {
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t column = panel; column < panel + kPanel; ++column) {
          *packed++ = column < columns ? filters[row * layer.filters + group * columns + column] : 0.0f;
        }
      }
    }
  }
}

void conv2d(const Team& team, const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in,
            float* out) noexcept {
  const Reading reading(layer);
  if (convolvingOf(layer) != convolving_groups) {
    convolveLinesByTeam(team, dispatch, layer, reading, batch, in, out);
  } else if (isPointwise(layer)) {
    const Conv2d line = asOneLine(layer, batch);
    convolveWindowsByTeam(team, dispatch, line, Reading(line), 1, in, out);
  } else {
    convolveWindowsByTeam(team, dispatch, layer, reading, batch, in, out);
  }
}

void conv2d(const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in, float* out,
            float* scratch) noexcept {
  const ConvolveLines convolve = dispatch.convolutions[convolvingOf(layer)];
  const Window& window = layer.window;
  const Reading reading(layer);
  if (isPointwise(layer)) return convolve(dispatch, asOneLine(layer, batch), reading, in, 0, 1, out, scratch);
  for (std::size_t i = 0; i < batch; ++i) {
    convolve(dispatch, layer, reading, in, 0, window.outHeight, out, scratch);
    in += window.inHeight * window.inWidth * window.channels;
    out += window.outHeight * window.outWidth * layer.filters;
  }
}

void transposedConv2d(const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in, float* out,
                      float* scratch) noexcept {
  const Planes planes(layer, true);
  const Window& window = layer.window;
  for (std::size_t i = 0; i < batch; ++i) {
    convolvePlaces(dispatch, layer, planes, in, 0, planes.rows.places(), out, scratch);
    in += window.inHeight * window.inWidth * window.channels;
    out += window.outHeight * window.outWidth * layer.filters;
  }
}

template <bool kKeepsNan>
void conv2dMaxPool(const Dispatch& dispatch, const Conv2d& layer, const Window& pool, std::size_t batch, const float* in,
                   float* out, float* scratch) noexcept {
  const Reading reading(layer);
  const Ring ring(layer, pool);
  Conv2d first = layer;
  Activation last = Activation::none;
  if (isMonotone(layer.activation)) std::swap(first.activation, last);
  for (std::size_t i = 0; i < batch; ++i) {
    convolveAndPool<kKeepsNan>(dispatch, first, reading, pool, ring, last, 0, pool.outHeight, in, out, scratch);
    in += layer.window.inHeight * layer.window.inWidth * layer.window.channels;
    out += pool.outHeight * pool.outWidth * pool.channels;
  }
}

template <bool kKeepsNan>
void conv2dMaxPool(const Team& team, const Dispatch& dispatch, const Conv2d& layer, const Window& pool, std::size_t batch,
                   const float* in, float* out) noexcept {
  Conv2d first = layer;
  Activation last = Activation::none;
  if (isMonotone(layer.activation)) std::swap(first.activation, last);
  conv2dMaxPoolByTeam<kKeepsNan>(team, dispatch, first, pool, last, batch, in, out);
}

template <bool kKeepsNan>
void maxPool(const Window& window, std::size_t batch, const float* in, float* out) noexcept {
  visitLines(window, batch, in, out,
             [&](auto lineOf, std::size_t row, float* line) { kLargest<kKeepsNan>(window, row, lineOf, line); });
}

// Both rules are functions of their own, so that a library has those that it calls.
template void conv2dMaxPool<false>(const Dispatch&, const Conv2d&, const Window&, std::size_t, const float*, float*,
                                   float*) noexcept;
template void conv2dMaxPool<true>(const Dispatch&, const Conv2d&, const Window&, std::size_t, const float*, float*,
                                  float*) noexcept;
template void conv2dMaxPool<false>(const Team&, const Dispatch&, const Conv2d&, const Window&, std::size_t, const float*,
                                   float*) noexcept;
template void conv2dMaxPool<true>(const Team&, const Dispatch&, const Conv2d&, const Window&, std::size_t, const float*,
                                  float*) noexcept;
template void maxPool<false>(const Window&, std::size_t, const float*, float*) noexcept;
template void maxPool<true>(const Window&, std::size_t, const float*, float*) noexcept;

void averagePool(const Window& window, std::size_t batch, const float* in, float* out) noexcept {
  visitLines(window, batch, in, out, [&](auto lineOf, std::size_t row, float* line) {
    kSum(window, row, lineOf, line);
    divideByCounts(window, row, line);
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels
