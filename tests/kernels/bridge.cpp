// What the tests call: the kernels by C names. The structures are passed as they are (tests/kernels/library.py).
//
// Dense layers and convolutions get a table of what they alone can reach (reachable_functions.h): a call of anything else
// fails.
#include "reachable_functions.h"
#include "rows.h"

// What programs include besides, for the warnings of every compiler.
#include "kernels_64_bit.h"
#include "longrows.h"
#include "narrow.h"
#include "order.h"
#include "quantized_groups.h"
#include "reduced_layers.h"
#include "trees.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kernels = tfaot_kernels;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// Computes the parts of two threads one after the other, the last one first.
struct OneByOne : kernels::Team {
  explicit OneByOne(std::uint32_t* memory) : Team{2, &run_parts}, scratch(memory) {}

  static void run_parts(const Team& team, std::size_t parts, Part* part, void* argument) {
    while (parts-- > 0) part(argument, parts, reinterpret_cast<unsigned char*>(static_cast<const OneByOne&>(team).scratch));
  }

  std::uint32_t* scratch;
};

}  // namespace

EXPORT void activate(const kernels::Activation* activation, std::size_t count, const float* in, float* out) {
  kernels::activate(*activation, count, in, out);
}

EXPORT void add(const kernels::Activation* activation, std::size_t count, const float* first, const float* second,
                float* out) {
  kernels::add(*activation, count, first, second, out);
}

EXPORT void softmax(std::size_t rows, std::size_t size, const float* in, float* out) {
  kernels::softmax(rows, size, in, out);
}

EXPORT std::size_t packed_size(std::size_t rows, std::size_t columns) { return kernels::packedSize(rows, columns); }

EXPORT void pack(const float* weights, std::size_t rows, std::size_t columns, float* packed) {
  kernels::pack(weights, rows, columns, packed);
}

EXPORT void dense(const kernels::Dense* layer, std::size_t batch, const float* in, float* out) {
  const kernels::Reached reached = kernels::Reached{}.product(layer->inputs, layer->outputs, layer->activation, {batch, 0, 1});
  kernels::dense(reached.table(), *layer, batch, in, layer->inputs, out, layer->outputs);
}

EXPORT std::size_t sparse_dense_scratch(std::size_t inputs, std::size_t outputs) {
  return kernels::sparseDenseScratch(inputs, outputs);
}

EXPORT void sparse_dense(const kernels::SparseDense* layer, std::size_t batch, const float* in, float* out, float* scratch) {
  const kernels::Dense& whole = layer->dense;
  const kernels::Reached reached =
      kernels::Reached{}.product(whole.inputs, whole.outputs, whole.activation, {0, 1, kernels::kSparseRows});
  kernels::sparseDense(reached.table(), *layer, batch, in, out, scratch);
}

EXPORT std::size_t quantized_dense_scratch(const kernels::QuantizedDense* layer) {
  return kernels::quantizedDenseScratch(layer->inputs);
}

EXPORT void quantized_dense(const kernels::QuantizedDense* layer, std::size_t batch, const std::uint8_t* in, void* out,
                            std::uint32_t* scratch) {
  kernels::quantizedDense(*layer, batch, in, out, scratch);
}

/// As on CPUs of the target that have no instruction for products of bytes.
EXPORT void quantized_dense_in_pairs(const kernels::QuantizedDense* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                     std::uint32_t* scratch) {
  kernels::denseQuantized<kernels::InPairs>(*layer, batch, in, out, scratch);
}

/// By steps for any number of rows, if the target has instructions for them; otherwise in the fastest form.
EXPORT void quantized_dense_by_steps(const kernels::QuantizedDense* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                     std::uint32_t* scratch) {
  if (kernels::withSteps([&] { kernels::denseBySteps(*layer, batch, in, out, scratch); })) return;
  kernels::quantizedDense(*layer, batch, in, out, scratch);
}

/// Asks for the permission to use tiles of the CPU, and says whether there are some for bytes, and it was given.
EXPORT std::size_t may_use_tiles() {
#if defined(__x86_64__)
  constexpr long kAsk = 0x1023, kTiles = 18;
  if (kernels::permitTiles(false) != 0 && syscall(SYS_arch_prctl, kAsk, kTiles) == 0) kernels::permitTiles(true);
#endif
  return kernels::isPermitted(kernels::kTilesOfBytes) ? 1 : 0;
}

/// By tiles for any number of rows, if may_use_tiles.
EXPORT void quantized_dense_by_tiles(const kernels::QuantizedDense* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                     std::uint32_t* scratch) {
  kernels::withTiles([&](auto tiles) { kernels::denseByTiles<decltype(tiles)>(*layer, batch, in, out, scratch); });
}

EXPORT void quantized_dense_by_team(const kernels::QuantizedDense* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                    std::uint32_t* scratch) {
  const OneByOne team(scratch);
  kernels::quantizedDense(&team, *layer, batch, in, out, scratch);
}

EXPORT void quantized_dense_tiles_by_team(const kernels::QuantizedDense* layer, std::size_t batch, const std::uint8_t* in,
                                          char* out, std::uint32_t* scratch) {
  const OneByOne team(scratch);
  kernels::withTiles([&](auto tiles) {
    kernels::shareDense(&team, *layer, kernels::panelOf(*layer), batch, in, out, nullptr, [&](const auto& part, std::size_t rows, const auto* from, char* to, auto* own) {
      kernels::denseByTiles<decltype(tiles)>(part, rows, from, to, own);
    });
  });
}

EXPORT std::size_t quantized_conv2d_scratch(const kernels::QuantizedConv2d* layer) {
  return kernels::quantizedConv2dScratch(layer->window, layer->product.inputs);
}

EXPORT void quantized_conv2d(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in, void* out,
                             std::uint32_t* scratch) {
  kernels::quantizedConv2d(*layer, batch, in, out, scratch);
}

EXPORT void quantized_conv2d_in_pairs(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                      std::uint32_t* scratch) {
  kernels::convolveQuantized<kernels::InPairs>(*layer, {batch, 0, layer->window.outHeight}, in, out, scratch);
}

EXPORT void quantized_conv2d_by_steps(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                      std::uint32_t* scratch) {
  const kernels::LinesOfImages all = {batch, 0, layer->window.outHeight};
  if (kernels::withSteps([&] { kernels::convolveBySteps(*layer, all, in, out, scratch); })) return;
  kernels::quantizedConv2d(*layer, batch, in, out, scratch);
}

EXPORT void quantized_conv2d_by_team(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                     std::uint32_t* scratch) {
  const OneByOne team(scratch);
  kernels::quantizedConv2d(&team, *layer, batch, in, out, scratch);
}

EXPORT void quantized_conv2d_tiles_by_team(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in,
                                           char* out, std::uint32_t* scratch) {
  const OneByOne team(scratch);
  kernels::withTiles([&](auto tiles) {
    kernels::shareConv2d(&team, *layer, kernels::panelOf(layer->product), batch, in, out, nullptr, [&](const auto& part, kernels::LinesOfImages lines, const auto* from, char* to, auto* own) {
      kernels::convolveByTiles<decltype(tiles)>(part, lines, from, to, own);
    });
  });
}

EXPORT std::size_t quantized_depthwise_scratch(const kernels::QuantizedConv2d* layer) {
  return kernels::quantizedDepthwiseScratch(layer->window);
}

EXPORT void quantized_depthwise(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                std::uint32_t* scratch) {
  kernels::quantizedDepthwise(*layer, batch, in, out, scratch);
}

EXPORT void quantized_depthwise_in_pairs(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in,
                                         void* out, std::uint32_t* scratch) {
  kernels::convolveDepthwise<kernels::InPairs>(*layer, batch, in, out, scratch);
}

EXPORT std::size_t quantized_groups_scratch(const kernels::QuantizedGroups* layer) {
  return kernels::quantizedGroupsScratch(layer->layer.window, layer->layer.product.inputs);
}

EXPORT void quantized_groups(const kernels::QuantizedGroups* layer, std::size_t batch, const std::uint8_t* in, void* out,
                             std::uint32_t* scratch) {
  kernels::quantizedGroups(*layer, batch, in, out, scratch);
}

EXPORT void quantized_groups_in_pairs(const kernels::QuantizedGroups* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                      std::uint32_t* scratch) {
  kernels::convolveGroups<kernels::InPairs>(layer->layer, layer->groups, batch, in, out, scratch);
}

EXPORT void narrow_dense(const kernels::NarrowDense* layer, std::size_t batch, const float* in, float* out) {
  kernels::narrowDense(kernels::Reached{}.activating(layer->activation).table(), *layer, batch, in, out);
}

EXPORT std::size_t bfloat16_dense_scratch(std::size_t inputs, std::size_t parts) { return kernels::bfloat16DenseScratch(inputs, parts); }

EXPORT void bfloat16_dense(const kernels::Bfloat16Dense* layer, std::size_t batch, const std::uint8_t* in, char* out,
                           std::uint32_t* scratch) {
  kernels::bfloat16Dense(nullptr, kernels::Reached{}.activating(layer->activation).table(), *layer, batch, in, out, scratch);
}

/// As on CPUs of the target that have no instruction for products of bfloat16.
EXPORT void bfloat16_dense_as_floats(const kernels::Bfloat16Dense* layer, std::size_t batch, const std::uint8_t* in, char* out,
                                     std::uint32_t* scratch) {
  const kernels::Dispatch dispatch = kernels::Reached{}.activating(layer->activation).table();
  kernels::denseBfloat16<kernels::AsFloats>(dispatch, *layer, batch, in, out, scratch);
}

/// In the form that one thread would choose, also if that is tiles and there are few rows.
EXPORT void bfloat16_dense_by_team(const kernels::Bfloat16Dense* layer, std::size_t batch, const std::uint8_t* in, char* out,
                                   std::uint32_t* scratch) {
  const OneByOne team(scratch);
  const kernels::Dispatch dispatch = kernels::Reached{}.activating(layer->activation).table();
  kernels::withFormOfBfloat16(*layer, batch, [&](auto form) {
    kernels::shareDense(&team, *layer, kernels::panelOf(*layer), batch, in, out, nullptr, [&](const auto& part, std::size_t rows, const std::uint8_t* from, char* to, auto* own) {
      kernels::denseBfloat16<decltype(form)>(dispatch, part, rows, from, to, own);
    });
  });
}

EXPORT std::size_t bfloat16_conv2d_scratch(const kernels::Window* window, std::size_t parts) {
  return kernels::bfloat16Conv2dScratch(*window, parts);
}

EXPORT void bfloat16_conv2d(const kernels::Bfloat16Conv2d* layer, std::size_t batch, const std::uint8_t* in, char* out,
                            std::uint32_t* scratch) {
  kernels::bfloat16Conv2d(nullptr, kernels::Reached{}.activating(layer->product.activation).table(), *layer, batch, in, out, scratch);
}

EXPORT void bfloat16_conv2d_as_floats(const kernels::Bfloat16Conv2d* layer, std::size_t batch, const std::uint8_t* in, char* out,
                                      std::uint32_t* scratch) {
  const kernels::Dispatch dispatch = kernels::Reached{}.activating(layer->product.activation).table();
  kernels::convolveBfloat16<kernels::AsFloats>(dispatch, *layer, {batch, 0, layer->window.outHeight}, in, out, scratch);
}

EXPORT void bfloat16_conv2d_by_team(const kernels::Bfloat16Conv2d* layer, std::size_t batch, const std::uint8_t* in, char* out,
                                    std::uint32_t* scratch) {
  const OneByOne team(scratch);
  const kernels::Dispatch dispatch = kernels::Reached{}.activating(layer->product.activation).table();
  kernels::withFormOfBfloat16(layer->product, batch * layer->window.outHeight * layer->window.outWidth, [&](auto form) {
    kernels::shareConv2d(&team, *layer, kernels::panelOf(*layer), batch, in, out, nullptr, [&](const auto& part, kernels::LinesOfImages lines, const std::uint8_t* from, char* to, auto* own) {
      kernels::convolveBfloat16<decltype(form)>(dispatch, part, lines, from, to, own);
    });
  });
}

EXPORT void quantized_conv2d_by_tiles(const kernels::QuantizedConv2d* layer, std::size_t batch, const std::uint8_t* in, void* out,
                                      std::uint32_t* scratch) {
  kernels::withTiles([&](auto tiles) {
    kernels::convolveByTiles<decltype(tiles)>(*layer, {batch, 0, layer->window.outHeight}, in, out, scratch);
  });
}

EXPORT std::size_t packed_conv2d_size(const kernels::Conv2d* layer) { return kernels::packedConv2dSize(*layer); }

EXPORT void pack_conv2d(const kernels::Conv2d* layer, const float* filters, float* packed) {
  kernels::packConv2d(*layer, filters, packed);
}

EXPORT std::size_t conv2d_scratch(const kernels::Conv2d* layer) { return kernels::conv2dScratch(*layer); }

EXPORT void conv2d(const kernels::Conv2d* layer, std::size_t batch, const float* in, float* out, float* scratch) {
  kernels::conv2d(kernels::Reached{}.conv2d(*layer, {batch, 0, 1}).table(), *layer, batch, in, out, scratch);
}

EXPORT std::size_t transposed_conv2d_scratch(const kernels::Conv2d* layer) { return kernels::transposedConv2dScratch(*layer); }

EXPORT void transposed_conv2d(const kernels::Conv2d* layer, std::size_t batch, const float* in, float* out, float* scratch) {
  kernels::transposedConv2d(kernels::Reached{}.transposedConv2d(*layer).table(), *layer, batch, in, out, scratch);
}

EXPORT std::size_t conv2d_max_pool_scratch(const kernels::Conv2d* layer, const kernels::Window* pool) {
  return kernels::conv2dMaxPoolScratch(*layer, *pool);
}

template <bool kKeepsNan>
static void pooled(const kernels::Conv2d* layer, const kernels::Window* pool, std::size_t batch, const float* in, float* out,
                   float* scratch) {
  const kernels::Dispatch dispatch = kernels::Reached{}.conv2dMaxPool(*layer, *pool).table();
  kernels::conv2dMaxPool<kKeepsNan>(dispatch, *layer, *pool, batch, in, out, scratch);
}

EXPORT void conv2d_max_pool(const kernels::Conv2d* layer, const kernels::Window* pool, std::size_t batch,
                            const float* in, float* out, float* scratch) {
  pooled<false>(layer, pool, batch, in, out, scratch);
}

EXPORT void conv2d_max_pool_nan(const kernels::Conv2d* layer, const kernels::Window* pool, std::size_t batch,
                                const float* in, float* out, float* scratch) {
  pooled<true>(layer, pool, batch, in, out, scratch);
}

EXPORT void max_pool(const kernels::Window* window, std::size_t batch, const float* in, float* out) {
  kernels::maxPool(*window, batch, in, out);
}

EXPORT void max_pool_nan(const kernels::Window* window, std::size_t batch, const float* in, float* out) {
  kernels::maxPool<true>(*window, batch, in, out);
}

EXPORT void max_pool_u8(const kernels::Window* window, std::size_t batch, const std::uint8_t* in, std::uint8_t* out) {
  kernels::maxPool(*window, batch, in, out);
}

EXPORT void max_pool_s8(const kernels::Window* window, std::size_t batch, const std::int8_t* in, std::int8_t* out) {
  kernels::maxPool(*window, batch, in, out);
}

EXPORT std::size_t packed_bfloat16_size(std::size_t inputs, std::size_t outputs) { return kernels::packedBfloat16Size(inputs, outputs); }

EXPORT void pack_bfloat16(const float* matrix, std::size_t inputs, std::size_t outputs, std::size_t down, std::size_t right,
                          std::uint32_t* packed) {
  kernels::bfloat16Pack(matrix, inputs, outputs, down, right, packed);
}

EXPORT void bfloat16_product(const kernels::Bfloat16Dense* layer, std::size_t batch, const float* in, std::size_t inStride,
                             float* out, std::uint32_t* packed) {
  kernels::bfloat16Product(kernels::Reached{}.activating(layer->activation).table(), *layer, batch, in, inStride, out, packed);
}

EXPORT void look_up(const std::uint8_t* table, std::size_t count, const std::uint8_t* in, std::uint8_t* out) {
  kernels::lookUp(table, count, in, out);
}

EXPORT void average_pool(const kernels::Window* window, std::size_t batch, const float* in, float* out) {
  kernels::averagePool(*window, batch, in, out);
}

namespace {

/// Rows of kSize floats, which lie 2 * kSize apart, times the number of each row, plus one row; results lie kSize + 1 apart.
template <int kSize>
void scaleRows(std::size_t rows, const float* in, const float* factors, const float* added, float* out) {
  const kernels::SameRow<kSize, float> same(added);
  kernels::eachWithTails<kSize>(rows, [&](auto at) {
    const auto x = at.load(in, kernels::Apart<2 * kSize, 1>{}), factor = at.load(factors, kernels::Apart<1, 0>{});
    at.store(out, x * factor + at.load(same), kernels::Apart<kSize + 1, 1>{});
  });
}

template <int... kSizes>
void scaleRowsOf(std::integer_sequence<int, kSizes...>, std::size_t size, std::size_t rows, const float* in, const float* factors,
                 const float* added, float* out) {
  ((size == kSizes ? scaleRows<kSizes>(rows, in, factors, added, out) : void()), ...);
}

}  // namespace

EXPORT void scale_rows(std::size_t size, std::size_t rows, const float* in, const float* factors, const float* added, float* out) {
  scaleRowsOf(std::integer_sequence<int, 1, 2, 3, 4, 5, 8, 9, 12, 13, 15, 16, 17, 18, 20, 24, 33, 50>{}, size, rows, in, factors,
              added, out);
}
