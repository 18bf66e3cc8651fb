// tfaot_kernels/kernels.h: float32, bfloat16 and quantized layers of neural networks for one thread: dense, convolution, pooling, activations.
//
// The library is one source, src/kernels.cpp, compiled once per target with that target's flags. Define
// TFAOT_KERNELS_TARGET as a C identifier (for example x86_64_v3) there and wherever this header is included: it becomes
// an inline namespace, so that code for several targets can be linked into one library. Every symbol is hidden. Compile
// it with -ffp-contract=off.
//
// Functions allocate nothing, throw nothing, and neither read nor write global state, except that some remember what the CPU
// has and the process may use; any number of threads may call them.
// Pointers need no alignment beyond that of a float. Nothing is read or written outside of the arrays as described. Outputs
// must not overlap inputs. Equal inputs give equal bits, wherever the arrays lie, and on all targets with a fused
// multiply-add; targets without one (x86-64, x86-64-v2) give other last bits. The bits of a NaN are unspecified. The
// floating-point environment is the default one: round to nearest, denormals kept.
#ifndef TFAOT_KERNELS_KERNELS_H_
#define TFAOT_KERNELS_KERNELS_H_

#include <cstddef>
#include <cstdint>

#ifndef TFAOT_KERNELS_TARGET
#define TFAOT_KERNELS_TARGET generic
#endif

#pragma GCC visibility push(hidden)

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// Columns of a panel of packed weights: the same for every target, so that all targets share one copy of packed weights.
inline constexpr std::size_t kPanel = 16;

/// The activation function of a layer. Errors are in units in the last place (ULP) of the true value (tests/kernels).
///
/// NaN gives NaN. Infinities and zeros give the same as in XLA: swish and GELU of minus infinity are NaN, zeros keep their
/// sign. Targets without fused multiply-add have larger errors of tanh, softplus, gelu_erf and hard_swish, 3 ULP, and of gelu_tanh,
/// 3 ULP and below zero 3 + 7 |y|.
struct Activation {
  enum Kind : int {
    none = 0,
    relu = 1,         ///< max(x, 0); exact
    elu = 2,          ///< x; for x below zero exp(x) - 1; 1 ULP
    selu = 3,         ///< scale * x; for x below zero scale * alpha * (exp(x) - 1); 2 ULP
    tanh = 4,         ///< 2 ULP, never beyond 1
    sigmoid = 5,      ///< 1 / (1 + exp(-x)); 2 ULP
    softplus = 6,     ///< log(1 + exp(x)); 2 ULP
    gelu_erf = 7,     ///< x * (1 + erf(x / sqrt(2))) / 2; 2 ULP
    gelu_tanh = 8,    ///< x * (1 + tanh(y)) / 2, y = sqrt(2 / pi) * (x + 0.044715 * x^3); 2 ULP
    swish = 9,        ///< x / (1 + exp(-x)); 2 ULP
    hard_swish = 10,  ///< x * clip(x + 3, 0, 6) / 6; 2 ULP
    leaky_relu = 11,  ///< x; slope * x unless x is above zero; 1 ULP
    clip = 12,        ///< min(max(x, low), high); exact
  };

  Kind kind;
  float slope = 0.0f;             ///< of leaky_relu
  float low = 0.0f, high = 0.0f;  ///< of clip

  constexpr Activation(Kind which = none) : kind(which) {}

  static constexpr Activation leakyRelu(float slope) {
    Activation result = leaky_relu;
    result.slope = slope;
    return result;
  }

  static constexpr Activation clipped(float low, float high) {
    Activation result = clip;
    result.low = low;
    result.high = high;
    return result;
  }

  constexpr operator Kind() const { return kind; }
};

/// Says whether the operating system permits the process to use registers for tiles (AMX), for layers of bytes and bfloat16;
/// until then none is used. Returns whether this CPU has some, as bits of `Permission` (permissions.h).
std::uint32_t permitTiles(bool isGranted) noexcept;

/// out[i] = activation(in[i]) for `count` floats. `out` may be `in`.
void activate(Activation activation, std::size_t count, const float* in, float* out) noexcept;

/// out[i] = activation(first[i] + second[i]) for `count` floats: a residual connection.
void add(Activation activation, std::size_t count, const float* first, const float* second, float* out) noexcept;

/// out[i] = exp(in[i]) / (sum of exp(in[j]) over the row of i) for `rows` rows of `size` floats, as in XLA: the row's
/// largest value is subtracted first; a row that contains NaN or plus infinity, or only minus infinity, becomes NaN. `out`
/// may be `in`. The error is at most 4 + size / 16 ULP, plus as many ULP as in[i] lies below the largest value, because the
/// difference is rounded. The bits of a row do not depend on the other rows.
void softmax(std::size_t rows, std::size_t size, const float* in, float* out) noexcept;

/// Floats of packed weights with `rows` rows and `columns` columns.
constexpr std::size_t packedSize(std::size_t rows, std::size_t columns) noexcept {
  return (columns + kPanel - 1) / kPanel * kPanel * rows;
}

/// Packs a row-major matrix of `rows` x `columns` into panels of kPanel columns: panel p holds columns
/// p * kPanel up to (p + 1) * kPanel row by row, with zeros for columns that do not exist. Builds that write packed weights
/// use the same layout.
void pack(const float* weights, std::size_t rows, std::size_t columns, float* packed) noexcept;

/// The same for a matrix whose element of row i and column j is weights[i * down + j * right].
void pack(const float* weights, std::size_t rows, std::size_t columns, std::size_t down, std::size_t right,
          float* packed) noexcept;

/// A dense layer: out = activation(in * weights + bias).
struct Dense {
  std::size_t inputs;
  std::size_t outputs;
  const float* weights;  ///< packed: `inputs` rows, `outputs` columns
  const float* bias;     ///< `outputs` floats, or null for none
  Activation activation;
};

/// `in`: batch x inputs, `out`: batch x outputs, row-major. The bits of a row depend neither on the other rows nor on their
/// number.
void dense(const Dense& layer, std::size_t batch, const float* in, float* out) noexcept;

/// The same for rows that lie `inStride` and `outStride` floats apart.
void dense(const Dense& layer, std::size_t batch, const float* in, std::size_t inStride, float* out,
           std::size_t outStride) noexcept;

/// Rows that sparseDense computes at a time, and columns whose weights lie side by side.
inline constexpr std::size_t kSparseRows = 16, kSparseColumns = 8;

/// A dense layer that skips weights which are zero. Columns have lists of the weights that are not, in the order of the inputs.
/// Lists of kSparseColumns columns are a group: the first weight of each column, then the second of each, and so on. Shorter
/// lists end with zeros.
struct SparseDense {
  Dense dense;                   ///< with all weights
  std::size_t fewest;            ///< rows that are computed by lists; fewer are computed with all weights
  const float* weights;          ///< of the groups, one after the other
  const std::uint16_t* places;   ///< the input of each weight; `dense.inputs`, of which there are at most 65535, at the end of a list
  const std::uint32_t* columns;  ///< of each list; any twice if those of the last group are fewer
  const std::uint32_t* counts;   ///< of the weights in each list of a group
};

/// Floats of scratch that sparseDense needs for any batch.
constexpr std::size_t sparseDenseScratch(std::size_t inputs, std::size_t outputs) noexcept;

/// `in`: batch x inputs, `out`: batch x outputs. The bits are those of `dense`.
void sparseDense(const SparseDense& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept;

/// The parameters that convolution and pooling share: NHWC arrays and a window that moves over them.
struct Window {
  std::size_t inHeight, inWidth, channels;
  std::size_t outHeight, outWidth;
  std::size_t height, width;              ///< of the kernel
  std::size_t strideHeight, strideWidth;  ///< at least 1
  std::size_t dilationHeight = 1, dilationWidth = 1;
  std::size_t padTop = 0, padLeft = 0;  ///< padding on the right and below follows from the output's size
};

/// A convolution (cross-correlation, as in TensorFlow). Padding counts as zeros.
struct Conv2d {
  Window window;
  std::size_t filters;  ///< output channels, a multiple of `groups`
  std::size_t groups;   ///< divides the window's channels; equal to them for a depthwise convolution
  /// Filters height x width x (channels / groups) x filters, packed by packConv2d.
  const float* weights;
  const float* bias;  ///< `filters` floats, or null for none
  Activation activation;
};

/// Floats of a convolution's packed filters.
std::size_t packedConv2dSize(const Conv2d& layer) noexcept;

/// Packs row-major filters height x width x (channels / groups) x filters (TensorFlow's HWIO; its depthwise filters
/// height x width x channels x multiplier are the same bytes). Each group is one packed matrix with height x width x
/// channels / groups rows and filters / groups columns. Filters of a depthwise convolution with multiplier 1 are copied.
void packConv2d(const Conv2d& layer, const float* filters, float* packed) noexcept;

/// Floats of scratch that conv2d needs for any batch: often none.
constexpr std::size_t conv2dScratch(const Conv2d& layer) noexcept;

/// `in`: batch x inHeight x inWidth x channels, `out`: batch x outHeight x outWidth x filters.
void conv2d(const Conv2d& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept;

/// Floats of scratch that transposedConv2d needs for any batch.
constexpr std::size_t transposedConv2dScratch(const Conv2d& layer) noexcept;

/// A convolution of an image that has strideHeight - 1 lines and strideWidth - 1 columns of zeros between its own, with at most
/// kMostFewFilters filters, and kMostInterleaved of them times strideWidth. Zeros between are not multiplied. The window moves
/// by one; padTop and padLeft are the zeros before that image, at least as many as the last line and column of a stride need to
/// begin with padding or at the first pixel. `groups` and dilations are 1. Weights are packed as for conv2d.
void transposedConv2d(const Conv2d& layer, std::size_t batch, const float* in, float* out, float* scratch) noexcept;

/// Floats of scratch that conv2dMaxPool needs for any batch.
constexpr std::size_t conv2dMaxPoolScratch(const Conv2d& layer, const Window& pool) noexcept;

/// conv2d followed by maxPool, without storing the image between them: `pool` moves over the convolution's output, and has
/// its sizes. Monotone activations (all except GELU, swish, hard_swish and a slope that is not positive) are applied to the
/// largest values only. Results are the same within the error of the activation, except for a window that contains only
/// NaN that is ignored, which gives the activation of minus infinity. `out`: batch x pool.outHeight x pool.outWidth x filters.
template <bool kKeepsNan = false>
void conv2dMaxPool(const Conv2d& layer, const Window& pool, std::size_t batch, const float* in, float* out,
                   float* scratch) noexcept;

/// The largest value of each window, without padding. A window with NaN gives NaN if that is kept, as in PyTorch; otherwise NaN
/// is ignored, as in TensorFlow and ONNX Runtime. A window that contains nothing else gives minus infinity.
template <bool kKeepsNan = false>
void maxPool(const Window& window, std::size_t batch, const float* in, float* out) noexcept;

/// The same of bytes. A window that contains nothing but padding gives the least number of the type.
void maxPool(const Window& window, std::size_t batch, const std::uint8_t* in, std::uint8_t* out) noexcept;
void maxPool(const Window& window, std::size_t batch, const std::int8_t* in, std::int8_t* out) noexcept;

/// For each of `count` bytes the one at its place of a table of 256, which is that of its bits without a sign.
void lookUp(const std::uint8_t* table, std::size_t count, const void* in, void* out) noexcept;

/// The mean of each window, without padding (neither summed nor counted).
void averagePool(const Window& window, std::size_t batch, const float* in, float* out) noexcept;

/// Bytes that are added to the result of a layer of bytes, as in a residual connection: with both less their zero points, as float32,
/// (result * scale + added * scaleOfAdded) / divisor is rounded half to even, plus `zero`, between `low` and `high`.
struct Residual {
  const void* added = nullptr;  ///< as many as results; null for none
  std::int32_t mask = 0;        ///< 255 if they are uint8, -1 if they are int8
  std::int32_t zeroOfAdded = 0;
  float scale = 0.0f, scaleOfAdded = 0.0f, divisor = 0.0f;
  /// With fused operations, for all pairs of bytes fma(result, factor, fma(added, factorOfAdded, offset)) is rounded to the same number,
  /// `added` with its zero point; `factor` is 0 if there are no such numbers.
  float factor = 0.0f, factorOfAdded = 0.0f, offset = 0.0f;
  std::int32_t zero = 0, low = 0, high = 0;
};

/// A layer of bytes in steps, for CPUs that add products of two bytes in 16 bits, where sums saturate. A step is two words of a row times
/// their weights. Words are the groups of four inputs in three orders of their bytes: as they are, with the second byte and the third
/// exchanged, and with the fourth as the second. For all inputs the products of the first two bytes of both words have a sum in 16 bits, and
/// so have those of the last two; a group may be in several steps.
struct Steps {
  const std::uint32_t* begins = nullptr;  ///< the first step of each kStepColumns columns, and their number; null if there are none
  const std::int8_t* weights = nullptr;   ///< of each step kStepColumns times four for its first word, and as many for its second
  const std::uint16_t* words = nullptr;   ///< two of each step: the number of the order times that of all groups, plus that of the group
};

/// A dense layer of bytes: the sums of inputs times weights and bias, in int32, modulo 2^32 as all of its sums. With scales,
/// they become bytes: a sum as a float, times its scale, rounded half to even, plus `zero`, between `low` and `high`. Results
/// are the same on all targets.
struct QuantizedDense {
  std::size_t inputs;
  std::size_t outputs;
  /// Packed: panels of kPanel columns, with four inputs of each column side by side, and zeros for inputs and columns that
  /// do not exist. If there are more than 16 groups of four, rows of zeros after the last panel, so that they become a
  /// multiple of 16 there.
  const std::int8_t* weights;
  const std::int32_t* bias;  ///< for all columns of the panels; minus 128 times the weights of a column if inputs are int8
  const float* scales;       ///< finite, for all columns of the panels; or null
  std::int32_t zero, low, high;
  std::uint8_t flip;  ///< 0x80 if inputs are int8, and 0 if they are uint8
  Steps steps = {};
  Residual residual = {};  ///< only with scales
  std::size_t stride = 0;  ///< elements between the results of rows; 0 stands for `outputs`
};

/// Words of scratch that quantizedDense needs for any batch.
constexpr std::size_t quantizedDenseScratch(std::size_t inputs) noexcept;

/// `in`: batch x inputs bytes; `out`: batch x outputs, int32 without scales, bytes of either sign with them.
void quantizedDense(const QuantizedDense& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept;

/// A convolution of bytes: the windows of an image, height x width x channels bytes each, are the inputs of a dense layer.
struct QuantizedConv2d {
  Window window;
  QuantizedDense product;  ///< of the filters, height x width x channels by their number
  std::uint8_t padding;    ///< what counts as zero: the input's zero point
};

constexpr std::size_t quantizedConv2dScratch(const Window& window, std::size_t inputs) noexcept;

/// `in`: batch x inHeight x inWidth x channels bytes; `out`: batch x outHeight x outWidth x filters, as quantizedDense.
void quantizedConv2d(const QuantizedConv2d& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept;

/// Words of scratch that quantizedDepthwise needs for any batch.
constexpr std::size_t quantizedDepthwiseScratch(const Window& window) noexcept;

/// A convolution of bytes with one filter for each channel. `product` has the channels as its outputs and `height` times `width`
/// inputs; its weights are packed line by line of a filter: groups of four taps that lie side by side, with zeros behind the
/// last one, and in each group the four taps of each channel, with zeros up to a multiple of kPanel channels.
void quantizedDepthwise(const QuantizedConv2d& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept;

/// A convolution of bytes in groups: filters see the channels of their group only.
struct QuantizedGroups {
  /// `product` has the inputs of one group and the outputs of all. Weights are packed for each group, one after the other, and
  /// so are bias and scales, each for all columns of the group's panels.
  QuantizedConv2d layer;
  std::size_t groups;  ///< divides channels and outputs
};

constexpr std::size_t quantizedGroupsScratch(const Window& window, std::size_t inputs) noexcept;

void quantizedGroups(const QuantizedGroups& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept;

/// A dense layer whose weights have fewer bits in memory than float32: its sums are of float32 inputs and the weights as float32, by
/// fused multiply-adds in the order of the inputs from zero on, then times `scales`, then with the bias.
struct NarrowDense {
  std::size_t inputs;
  std::size_t outputs;
  const void* weights;  ///< packed as those of a dense layer, in numbers of int8, or the upper 16 bits of floats (bfloat16)
  const float* scales;  ///< of columns, up to a multiple of kPanel, if weights are int8; otherwise null
  const float* bias;    ///< `outputs` floats, or null for none
  Activation activation;
};

/// `in`: batch x inputs, `out`: batch x outputs.
void narrowDense(const NarrowDense& layer, std::size_t batch, const float* in, float* out) noexcept;

/// A dense layer whose inputs and weights are rounded to bfloat16; sums and everything else are float32. Numbers are rounded to
/// nearest, half to even, and become zero if their size is below 2^-56. The order of a sum is that of the instruction TDPBF16PS of
/// AMX: for each 32 inputs the fused products of those at even places in order from zero on, those at odd places likewise, both
/// added, and added to the sum so far; then the bias. Results are the same on all targets with fused multiply-add; without one only
/// a product beyond float32 differs.
///
/// With several `parts` inputs and weights are sums of so many numbers of bfloat16: each part is the rounded rest that those before
/// it leave. Parts that would not be finite are zeros, except the last one. Products of parts x1, x2, ... of inputs and w1, w2, ... of
/// weights are added as above, those of a block one after the other. Of two parts they are (x2, w1), (x1, w1), and (x1, w2); of three
/// (x3, w1), (x2, w1), (x2, w2), (x1, w2), and (x1, w3) of all blocks, and then (x1, w1) of all blocks. So a number that is not finite
/// is multiplied with w1 alone.
struct Bfloat16Dense {
  std::size_t inputs;
  std::size_t outputs;
  /// Packed: panels of kPanel columns, with all words of a part before those of the next one. A word has two inputs of a column,
  /// the first one in its lower half. There are zeros for columns that do not exist and for inputs up to a multiple of 32.
  const std::uint32_t* weights;
  const float* bias;  ///< `outputs` floats, or null for none
  Activation activation;
  std::size_t parts = 1;    ///< at most kMostParts
  bool isRounded = false;   ///< whether inputs are bfloat16, rounded as above: the upper halves of floats; with one part
  bool rounds = false;      ///< whether results are rounded likewise, and gelu_erf has an error of up to 2^-16 of its argument
  const float* added = nullptr;  ///< floats that are added to results after the bias, one for each; or null for none
  std::size_t stride = 0;        ///< as in QuantizedDense
};

/// The most parts of a number of a layer of bfloat16: three have all bits of a float32.
inline constexpr std::size_t kMostParts = 3;

/// Words of scratch that bfloat16Dense needs for any batch.
constexpr std::size_t bfloat16DenseScratch(std::size_t inputs, std::size_t parts) noexcept;

/// `in`: batch x inputs, `out`: batch x outputs, floats or bfloat16.
void bfloat16Dense(const Bfloat16Dense& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept;

/// A matrix that is computed, in place of weights. `matrix`: inputs x outputs, whose elements lie `down` and `right` floats apart. It is
/// rounded and packed to `packed`, of packedBfloat16Size words.
constexpr std::size_t packedBfloat16Size(std::size_t inputs, std::size_t outputs) noexcept;
void bfloat16Pack(const float* matrix, std::size_t inputs, std::size_t outputs, std::size_t down, std::size_t right,
                  std::uint32_t* packed) noexcept;

/// A convolution of the same kind: the windows of an image, height x width x channels numbers each, are the inputs of a dense
/// layer. Padding counts as zeros. Products are added blockOfBfloat16(window) at a time, and packed weights have zeros up to a multiple
/// of this: 32, or fewer if windows are read in place and 32 do not divide their lines. If they are, and channels are odd, each pixel
/// has a zero more, for which the packed weights have zeros as well (channelsOfBfloat16).
struct Bfloat16Conv2d {
  Window window;
  Bfloat16Dense product;  ///< of the filters, height x width x channels by their number
};

constexpr std::size_t blockOfBfloat16(const Window& window) noexcept;

constexpr std::size_t channelsOfBfloat16(const Window& window) noexcept;

constexpr std::size_t bfloat16Conv2dScratch(const Window& window, std::size_t parts) noexcept;

/// `in`: batch x inHeight x inWidth x channels; `out`: batch x outHeight x outWidth x filters.
void bfloat16Conv2d(const Bfloat16Conv2d& layer, std::size_t batch, const void* in, void* out, std::uint32_t* scratch) noexcept;

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#pragma GCC visibility pop

#include "tfaot_kernels/scratch.h"

#endif  // TFAOT_KERNELS_KERNELS_H_
