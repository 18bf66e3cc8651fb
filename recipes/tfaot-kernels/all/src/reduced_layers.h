// reduced_layers.h: whole layers of bytes and bfloat16, by one thread or by a team.
//
// A team's part is some rows of a product, or some lines of an image, times some panels of columns: a layer of its own, whose
// results lie among those of the whole. Sums are the same ones. A thread sets up tiles for its part, and releases them.
#ifndef TFAOT_KERNELS_REDUCED_LAYERS_H_
#define TFAOT_KERNELS_REDUCED_LAYERS_H_

#include "bfloat16_tiles.h"
#include "quantized_steps.h"
#include "tfaot_kernels/team.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// A part of a layer: some of its rows, or of an image's lines, and columns.
struct Share {
  std::size_t image, first, rows, column, columns;
};

/// Calls part(share, scratch) for all shares of a layer of some images with `rows` lines, each of which is `perRow` rows of the
/// product. Rows are divided first, because each part of columns writes the inputs of all its rows in another form again.
template <class Part>
inline void divideShares(const Team& team, std::size_t images, std::size_t rows, std::size_t perRow, std::size_t columns, Part part) {
  // What tiles compute at a time.
  constexpr std::size_t kLeastRows = kRowsOfTwoTiles, kPair = 2 * kPanel;
  const std::size_t wanted = (kPartsPerThread * team.size + images - 1) / images, least = (kLeastRows + perRow - 1) / perRow;
  std::size_t step = (rows + wanted - 1) / wanted;
  if (step < least) step = least;
  if (step > rows) step = rows;
  const std::size_t partsOfRows = (rows + step - 1) / step, pairs = (columns + kPair - 1) / kPair;
  const std::size_t enough = (wanted + partsOfRows - 1) / partsOfRows, groups = enough < pairs ? enough : pairs;
  divide(team, images * groups * partsOfRows, [&](std::size_t number, unsigned char* scratch) {
    // Parts of the same columns follow one another, so that threads share weights in the caches.
    const std::size_t first = number % partsOfRows * step, left = rows - first;
    const std::size_t image = number / partsOfRows % images, group = number / partsOfRows / images;
    const std::size_t begin = pairs * group / groups * kPair, end = pairs * (group + 1) / groups * kPair;
    part(Share{image, first, left < step ? left : step, begin, (end < columns ? end : columns) - begin},
         reinterpret_cast<std::uint32_t*>(scratch));
  });
}

/// The team, or null if tiles take so little time that one thread is as fast (benchmarks/threads.py).
inline const Team* worthTiles(const Team* team, std::size_t multiplyAdds) {
  constexpr std::size_t kMultiplyAdds = 1 << 20;
  return multiplyAdds < kMultiplyAdds ? nullptr : team;
}

/// The columns of a share, whose first result is number `first`. Panels of weights lie `panel` bytes apart.
template <class Layer>
inline Layer columnsOf(Layer layer, const Share& share, std::size_t first, std::size_t panel) {
  layer.stride = strideOf(layer);
  layer.weights += share.column / kPanel * (panel / sizeof *layer.weights);
  if (layer.bias != nullptr) layer.bias += share.column;
  if constexpr (std::is_same_v<Layer, QuantizedDense>) {
    if (layer.scales != nullptr) layer.scales += share.column;
    if (layer.steps.begins != nullptr) layer.steps.begins += share.column / kStepColumns;
    const void*& added = layer.residual.added;
    if (added != nullptr) added = static_cast<const std::uint8_t*>(added) + first;
  } else if (layer.added != nullptr) {
    layer.added += first;
  }
  layer.outputs = share.columns;
  return layer;
}

/// A dense layer. `compute(layer, batch, in, out, scratch)` computes one.
template <class Layer, class Compute>
inline void shareDense(const Team* team, const Layer& layer, std::size_t panel, std::size_t batch, const std::uint8_t* in, char* out,
                       std::uint32_t* scratch, Compute compute) {
  if (team == nullptr) return compute(layer, batch, in, out, scratch);
  divideShares(*team, 1, batch, 1, layer.outputs, [&](const Share& share, std::uint32_t* own) {
    const std::size_t first = share.first * layer.outputs + share.column;
    compute(columnsOf(layer, share, first, panel), share.rows, in + share.first * layer.inputs * sizeOfInput(layer),
            out + first * sizeOfResult(layer), own);
  });
}

/// A convolution. `compute(layer, lines, in, out, scratch)` computes the lines of one, likewise.
template <class Layer, class Compute>
inline void shareConv2d(const Team* team, const Layer& layer, std::size_t panel, std::size_t batch, const std::uint8_t* in, char* out,
                        std::uint32_t* scratch, Compute compute) {
  const Window& window = layer.window;
  if (team == nullptr) return compute(layer, LinesOfImages{batch, 0, window.outHeight}, in, out, scratch);
  const std::size_t outputs = layer.product.outputs, pixels = window.inHeight * window.inWidth;
  const std::size_t sizeOfImage = pixels * window.channels * sizeOfInput(layer.product);
  divideShares(*team, batch, window.outHeight, window.outWidth, outputs, [&](const Share& share, std::uint32_t* own) {
    Layer part = layer;
    const std::size_t row = (share.image * window.outHeight + share.first) * window.outWidth;
    const std::size_t first = row * outputs + share.column;
    part.product = columnsOf(layer.product, share, first, panel);
    compute(part, LinesOfImages{1, share.first, share.rows}, in + share.image * sizeOfImage,
            out + first * sizeOfResult(layer.product), own);
  });
}

/// Bytes between the panels of weights.
inline std::size_t panelOf(const QuantizedDense& layer) { return foursOf(layer.inputs) * kPanelOfFours; }
inline std::size_t panelOf(const Bfloat16Dense& layer) {
  return blocksOfBfloat16(layer.inputs) * kBfloat16Block / 2 * kPanel * sizeof *layer.weights * layer.parts;
}
inline std::size_t panelOf(const Bfloat16Conv2d& layer) {
  const CopiedBand band = bandOfBfloat16(layer.window);
  return band.isInPlace ? tilingOfLines(layer.window, band, 1).panel * layer.product.parts : panelOf(layer.product);
}

/// `team` may be null.
inline void denseOfBytes(const Team* team, const QuantizedDense& layer, std::size_t batch, const std::uint8_t* in, char* out,
                         std::uint32_t* scratch) {
  const std::size_t panel = panelOf(layer);
  const auto byTiles = [&](auto tiles) {
    shareDense(worthTiles(team, batch * layer.inputs * layer.outputs), layer, panel, batch, in, out, scratch,
                [&](const QuantizedDense& part, std::size_t rows, const std::uint8_t* from, char* to, std::uint32_t* own) {
                  denseByTiles<decltype(tiles)>(part, rows, from, to, own);
                });
  };
  if (isForTiles(layer, batch) && withTiles(byTiles)) return;
  const auto bySteps = [&] { shareDense(team, layer, panel, batch, in, out, scratch, denseBySteps); };
  if (isForSteps(layer, batch) && !hasDots() && withSteps(bySteps)) return;
  withForm([&](auto form) {
    shareDense(team, layer, panel, batch, in, out, scratch,
                [&](const QuantizedDense& part, std::size_t rows, const std::uint8_t* from, char* to, std::uint32_t* own) {
                  denseQuantized<decltype(form)>(part, rows, from, to, own);
                });
  });
}

inline void conv2dOfBytes(const Team* team, const QuantizedConv2d& layer, std::size_t batch, const std::uint8_t* in, char* out,
                          std::uint32_t* scratch) {
  const QuantizedDense& product = layer.product;
  const std::size_t panel = panelOf(product), rows = batch * layer.window.outHeight * layer.window.outWidth;
  const auto byTiles = [&](auto tiles) {
    shareConv2d(worthTiles(team, rows * product.inputs * product.outputs), layer, panel, batch, in, out, scratch,
                 [&](const QuantizedConv2d& part, LinesOfImages lines, const std::uint8_t* from, char* to, std::uint32_t* own) {
                   convolveByTiles<decltype(tiles)>(part, lines, from, to, own);
                 });
  };
  if (isForTiles(product, rows) && withTiles(byTiles)) return;
  const auto bySteps = [&] { shareConv2d(team, layer, panel, batch, in, out, scratch, convolveBySteps); };
  if (isForSteps(product, rows) && !hasDots() && withSteps(bySteps)) return;
  withForm([&](auto form) {
    shareConv2d(team, layer, panel, batch, in, out, scratch,
                 [&](const QuantizedConv2d& part, LinesOfImages lines, const std::uint8_t* from, char* to, std::uint32_t* own) {
                   convolveQuantized<decltype(form)>(part, lines, from, to, own);
                 });
  });
}

/// The team of a layer of bfloat16 in a form.
template <class Form>
inline const Team* teamOf(const Team* team, const Bfloat16Dense& layer, std::size_t rows) {
  return std::is_same_v<Form, AsFloats> ? team : worthTiles(team, multiplyAddsOf(layer, rows));
}

inline void denseOfBfloat16(const Team* team, const Dispatch& dispatch, const Bfloat16Dense& layer, std::size_t batch,
                            const std::uint8_t* in, char* out, std::uint32_t* scratch) {
  withFormOfBfloat16(layer, batch, [&](auto form) {
    using Form = decltype(form);
    shareDense(teamOf<Form>(team, layer, batch), layer, panelOf(layer), batch, in, out, scratch,
                [&](const Bfloat16Dense& part, std::size_t rows, const std::uint8_t* from, char* to, std::uint32_t* own) {
                  denseBfloat16<Form>(dispatch, part, rows, from, to, own);
                });
  });
}

inline void conv2dOfBfloat16(const Team* team, const Dispatch& dispatch, const Bfloat16Conv2d& layer, std::size_t batch,
                             const std::uint8_t* in, char* out, std::uint32_t* scratch) {
  const std::size_t rows = batch * layer.window.outHeight * layer.window.outWidth;
  withFormOfBfloat16(layer.product, rows, [&](auto form) {
    using Form = decltype(form);
    shareConv2d(teamOf<Form>(team, layer.product, rows), layer, panelOf(layer), batch, in, out, scratch,
                 [&](const Bfloat16Conv2d& part, LinesOfImages lines, const std::uint8_t* from, char* to, std::uint32_t* own) {
                   convolveBfloat16<Form>(dispatch, part, lines, from, to, own);
                 });
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_REDUCED_LAYERS_H_
