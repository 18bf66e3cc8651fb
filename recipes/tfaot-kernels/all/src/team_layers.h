// team_layers.h: layers that the threads of a team compute together.
//
// Parts of a product are some of its rows times some of its strips of columns, as one thread divides them as well: each sum is
// the same one, and parts need no functions that the whole does not need (reachable_functions.h). Parts of images are lines.
#ifndef TFAOT_KERNELS_TEAM_LAYERS_H_
#define TFAOT_KERNELS_TEAM_LAYERS_H_

#include "fusion.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

constexpr std::size_t divideUp(std::size_t count, std::size_t by) { return (count + by - 1) / by; }

inline std::size_t wantedParts(const Team& team) { return kPartsPerThread * team.size; }

/// How rows are divided, and the columns of each part of them: no more than enough parts are made, and columns last, because
/// each part of these reads the rows again.
struct Grid {
  std::size_t rows;    ///< parts of rows
  std::size_t groups;  ///< of strips

  Grid(const Team& team, std::size_t partsOfRows, std::size_t columns) : rows(partsOfRows), groups(1) {
    if (rows < wantedParts(team)) groups = divideUp(wantedParts(team), rows);
    if (groups > vectorsOf(columns)) groups = vectorsOf(columns);
  }

  std::size_t parts() const { return rows * groups; }
  /// Parts of the same columns follow one another, so that threads share weights in the caches.
  std::size_t rowOf(std::size_t part) const { return part % rows; }
  std::size_t groupOf(std::size_t part) const { return part / rows; }
};

inline void denseByTeam(const Team& team, const Product& whole, std::size_t inputs, std::size_t batch, const float* in, float* out) {
  const std::size_t most = rowsAtATime(inputs);
  const Grid grid(team, divideUp(batch, most), whole.columns);
  divide(team, grid.parts(), [&](std::size_t number, unsigned char*) {
    Product part = whole;
    part.group = grid.groupOf(number);
    part.groups = grid.groups;
    const std::size_t first = grid.rowOf(number) * most, left = batch - first;
    multiplyRows(part, inputs, left < most ? left : most, in + first * inputs, inputs, out + first * whole.columns, whole.columns);
  });
}

/// Lines of an image for each part, so that there are enough parts.
inline std::size_t linesOfPart(const Team& team, std::size_t lines, std::size_t images) {
  const std::size_t wanted = divideUp(wantedParts(team), images);
  return wanted < lines ? divideUp(lines, wanted) : 1;
}

/// Channel by channel: lines of images.
inline void convolveLinesByTeam(const Team& team, const Dispatch& dispatch, const Conv2d& layer, const Reading& reading,
                                std::size_t images, const float* in, float* out) {
  const Window& window = layer.window;
  const ConvolveLines convolve = dispatch.convolutions[convolvingOf(layer)];
  const std::size_t lines = linesOfPart(team, window.outHeight, images), parts = divideUp(window.outHeight, lines);
  divide(team, images * parts, [&](std::size_t number, unsigned char* scratch) {
    const std::size_t image = number / parts, line = number % parts * lines, left = window.outHeight - line;
    convolve(dispatch, layer, reading, in + image * window.inHeight * window.inWidth * window.channels, line,
             left < lines ? left : lines, out + (image * window.outHeight + line) * window.outWidth * layer.filters,
             reinterpret_cast<float*>(scratch));
  });
}

/// Products of windows: some of the windows of some lines, times some strips of filters. A part copies the lines of its own
/// windows if they are padded.
inline void convolveWindowsByTeam(const Team& team, const Dispatch& dispatch, const Conv2d& layer, const Reading& reading,
                                  std::size_t images, const float* in, float* out) {
  const Window& window = layer.window;
  const std::size_t most = rowsAtATime(windowSize(layer)), lines = reading.linesAtATime;
  const std::size_t times = divideUp(window.outHeight, lines);  // that lines are read
  const std::size_t places = lines * window.outWidth;
  std::size_t pieces = 1;  // of these lines
  if (images * times < wantedParts(team)) pieces = divideUp(places, most);
  const std::size_t windows = pieces == 1 ? places : most;
  const Grid grid(team, images * times * pieces, layer.filters / layer.groups);
  divide(team, grid.parts(), [&](std::size_t number, unsigned char* memory) {
    auto* const scratch = reinterpret_cast<float*>(memory);
    const std::size_t part = grid.rowOf(number), piece = part % pieces, line = part / pieces % times * lines;
    const std::size_t image = part / pieces / times, left = window.outHeight - line, count = left < lines ? left : lines;
    const std::size_t first = piece * windows, end = count * window.outWidth;
    if (first >= end) return;  // the last lines of an image may be fewer
    const float* const from = in + image * window.inHeight * window.inWidth * window.channels;
    const Seen seen = seenLines(window, reading, from, line, count, scratch);
    float* const to = out + (image * window.outHeight + line) * window.outWidth * layer.filters;
    for (std::size_t group = 0; group < layer.groups; ++group) {
      Product product = productOf(dispatch, layer, group, seen.lineStride);
      product.group = grid.groupOf(number);
      product.groups = grid.groups;
      convolveWindows(product, layer, group, seen, first, end - first < windows ? end - first : windows, to);
    }
  });
}

template <bool kKeepsNan>
inline void conv2dMaxPoolByTeam(const Team& team, const Dispatch& dispatch, const Conv2d& layer, const Window& pool,
                                Activation last, std::size_t images, const float* in, float* out) {
  const Reading reading(layer);
  const Ring ring(layer, pool);
  const std::size_t least = linesOfPart(team, pool.outHeight, images);
  // Fewer lines than one thread computes at a time fill its blocks less well, but otherwise threads would be idle.
  const std::size_t lines = least < ring.pooledAtATime ? least : divideUp(least, ring.pooledAtATime) * ring.pooledAtATime;
  const std::size_t parts = divideUp(pool.outHeight, lines);
  divide(team, images * parts, [&](std::size_t number, unsigned char* scratch) {
    const std::size_t image = number / parts, line = number % parts * lines, left = pool.outHeight - line;
    convolveAndPool<kKeepsNan>(dispatch, layer, reading, pool, ring, last, line, left < lines ? left : lines,
                    in + image * layer.window.inHeight * layer.window.inWidth * layer.window.channels,
                    out + (image * pool.outHeight + line) * pool.outWidth * pool.channels, reinterpret_cast<float*>(scratch));
  });
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_TEAM_LAYERS_H_
