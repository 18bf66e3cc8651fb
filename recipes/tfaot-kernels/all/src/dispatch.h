// dispatch.h: the functions among which layers choose at run time.
//
// Each shape of a block, activation and kind of convolution has a function, which layers call through a table. The library's
// own table has all functions; the table of a program has only those that its layers can reach (reachable_functions.h), so
// that linkers drop the others.
#ifndef TFAOT_KERNELS_DISPATCH_H_
#define TFAOT_KERNELS_DISPATCH_H_

#include "division.h"
#include "tfaot_kernels/team.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

struct Product;
struct SeenLines;
struct SeenTaps;
struct Strip;
struct Target;
struct Dispatch;

using Block = void (*)(const Strip&, const Product&, const float* const* rows, std::size_t blocks, Target out);
using ChainBlock = void (*)(const Strip&, std::size_t length, const float* const* rows, Target out);
using Chains = void (*)(const Strip&, const Product&, const float* const* rows, std::size_t count, std::size_t width,
                        Target out);
using ActivateBlock = void (*)(Activation, float* data, std::size_t rows, std::size_t width, std::size_t stride);
using ConvolveLines = void (*)(const Dispatch&, const Conv2d&, const Reading&, const float* image, std::size_t line,
                               std::size_t count, float* out, float* scratch);
using SumPlaces = void (*)(const SeenTaps&, std::size_t places, float* sums, std::size_t stride);
using Interleave = void (*)(const float* sums, std::size_t stride, std::size_t places, std::size_t count, float* out);
using TapLine = void (*)(const Dispatch&, const Conv2d&, const SeenLines&, float* out);

/// How convolutions are computed.
enum Convolving : int {
  convolving_groups = 0,   ///< as products of windows with packed filters
  convolving_channels = 1, ///< channel by channel
  convolving_taps = 2,     ///< the same for windows of the usual sizes
  convolving_places = 3,   ///< windows side by side in the lanes of a vector
};

inline constexpr std::size_t kActivations = Activation::clip + 1, kConvolvings = convolving_places + 1;

/// Functions that no layer can reach are null.
struct Dispatch {
  Block blocks[kBlockRows][kMostWidth];             ///< by rows and width, both less one
  Block sharing[kBlockRows][kMostWidth];            ///< the same where two rows share the last vector
  ChainBlock chainBlocks[kChainRows][kChainWidth];  ///< likewise
  Chains chains;
  ActivateBlock activations[kActivations];  ///< by Activation::Kind
  ConvolveLines convolutions[kConvolvings];
  TapLine taps[2][2];  ///< of 3 and of 5 columns, by stride less one
  SumPlaces places[kMostFewFilters];         ///< by filters less one
  Interleave interleaved[kMostInterleaved];  ///< by rows less one
};

/// Whether an activation is applied while the sums are in registers.
constexpr bool isBounds(Activation activation) {
  return activation == Activation::relu || activation == Activation::clip;
}

/// The table with all functions, and those with the functions of one part of the library each.
extern const Dispatch kEverything, kActivating, kMultiplying, kConvolving;

/// Whether each channel has one filter of its own; such filters are not packed.
constexpr bool isDepthwise(const Conv2d& layer) {
  return layer.groups > 1 && layer.groups == layer.window.channels && layer.groups == layer.filters;
}

/// Whether each pixel of the output depends only on the same pixel of the input.
constexpr bool isPointwise(const Conv2d& layer) {
  const Window& window = layer.window;
  return !isDepthwise(layer) && window.height * window.width == 1 && window.inHeight == window.outHeight &&
         window.inWidth == window.outWidth && window.padTop == 0 && window.padLeft == 0 && window.strideHeight == 1 &&
         window.strideWidth == 1;
}

constexpr std::size_t windowSize(const Conv2d& layer) {
  return layer.window.height * layer.window.width * (layer.window.channels / layer.groups);
}

/// Whether windows are computed side by side: with so few filters, most lanes of a vector of filters would be empty.
constexpr bool isPlaced(const Conv2d& layer) { return mayPlace(layer) && 2 * layer.filters < kLanes; }

inline constexpr std::size_t kFewColumns = 4;    ///< adjacent windows that `convolveTaps` computes at a time
inline constexpr std::size_t kMostTapLines = 8;  ///< most lines of a window that it takes

/// Depthwise convolutions with windows of 3 or 5 columns, the most frequent ones, have code of their own. Loading an input
/// for each multiply-add takes up to twice as long (benchmarks/kernels.py). The order of additions is the same.
constexpr Convolving convolvingOf(const Conv2d& layer) {
  const Window& window = layer.window;
  if (isPlaced(layer)) return convolving_places;
  if (!isDepthwise(layer)) return convolving_groups;
  const bool isUsual = (window.width == 3 || window.width == 5) && window.strideWidth <= 2 && window.dilationWidth == 1;
  const bool isLarge = window.channels >= kLanes && window.outWidth >= kFewColumns;
  // No window consists of padding only, and only the first and last columns of a block of windows are padding.
  const std::size_t right = (window.outWidth - 1) * window.strideWidth + window.width;
  const bool isInside = window.padLeft < window.width && right < window.padLeft + window.inWidth + window.width;
  return isUsual && isLarge && isInside && window.height <= kMostTapLines ? convolving_taps : convolving_channels;
}

// The layers of kernels.h, with a table. The functions in kernels.h use `kEverything`.

void activate(const Dispatch& dispatch, Activation activation, std::size_t count, const float* in, float* out) noexcept;

void dense(const Dispatch& dispatch, const Dense& layer, std::size_t batch, const float* in, std::size_t inStride, float* out,
           std::size_t outStride) noexcept;

void sparseDense(const Dispatch& dispatch, const SparseDense& layer, std::size_t batch, const float* in, float* out,
                 float* scratch) noexcept;

void conv2d(const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in, float* out,
            float* scratch) noexcept;

void transposedConv2d(const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in, float* out,
                      float* scratch) noexcept;

template <bool kKeepsNan = false>
void conv2dMaxPool(const Dispatch& dispatch, const Conv2d& layer, const Window& pool, std::size_t batch, const float* in,
                   float* out, float* scratch) noexcept;

// Layers of bytes and bfloat16 take a team, which may be null; each of its threads has scratch memory of this size.

void quantizedDense(const Team* team, const QuantizedDense& layer, std::size_t batch, const void* in, void* out,
                    std::uint32_t* scratch) noexcept;

void quantizedConv2d(const Team* team, const QuantizedConv2d& layer, std::size_t batch, const void* in, void* out,
                     std::uint32_t* scratch) noexcept;

void bfloat16Dense(const Team* team, const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t batch, const void* in,
                   void* out, std::uint32_t* scratch) noexcept;

void bfloat16Conv2d(const Team* team, const Dispatch& dispatch, const Bfloat16Conv2d& layer, std::size_t batch, const void* in,
                    void* out, std::uint32_t* scratch) noexcept;

/// Rows that lie `inStride` floats apart, times the matrix that bfloat16Pack has written to `packed`, in place of weights. The scratch is
/// behind it.
void bfloat16Product(const Dispatch& dispatch, Bfloat16Dense layer, std::size_t batch, const float* in, std::size_t inStride,
                     float* out, std::uint32_t* packed) noexcept;

void narrowDense(const Dispatch& dispatch, const NarrowDense& layer, std::size_t batch, const float* in, float* out) noexcept;

// The others by a team of threads (team_layers.h). Their own code runs once for each layer, and is compiled for size
// ([[gnu::cold]]); that of a part is not.

void dense(const Team& team, const Dispatch& dispatch, const Dense& layer, std::size_t batch, const float* in,
           float* out) noexcept;

/// Each thread has scratch memory of conv2dScratch.
[[gnu::cold]] void conv2d(const Team& team, const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in,
                          float* out) noexcept;

/// Each thread has scratch memory of conv2dMaxPoolScratch.
template <bool kKeepsNan = false>
[[gnu::cold]] void conv2dMaxPool(const Team& team, const Dispatch& dispatch, const Conv2d& layer, const Window& pool,
                                 std::size_t batch, const float* in, float* out) noexcept;

/// A convolution as a program calls it: its team may be null.
inline void conv2dByTeam(const Team* team, const Dispatch& dispatch, const Conv2d& layer, std::size_t batch, const float* in,
                         float* out, float* scratch) {
  if (team == nullptr) return conv2d(dispatch, layer, batch, in, out, scratch);
  conv2d(*team, dispatch, layer, batch, in, out);
}
template <bool kKeepsNan = false>
inline void conv2dMaxPoolByTeam(const Team* team, const Dispatch& dispatch, const Conv2d& layer, const Window& pool,
                                std::size_t batch, const float* in, float* out, float* scratch) {
  if (team == nullptr) return conv2dMaxPool<kKeepsNan>(dispatch, layer, pool, batch, in, out, scratch);
  conv2dMaxPool<kKeepsNan>(*team, dispatch, layer, pool, batch, in, out);
}

inline void sparseDenseByTeam(const Team* team, const Dispatch& dispatch, const SparseDense& layer, std::size_t batch,
                              const float* in, float* out, float* scratch) {
  if (team == nullptr || batch >= layer.fewest) return sparseDense(dispatch, layer, batch, in, out, scratch);
  dense(*team, dispatch, layer.dense, batch, in, out);
}

/// Rows of any number of floats.
void softmaxLong(std::size_t rows, std::size_t size, const float* in, float* out);

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_DISPATCH_H_
