// places.h: convolutions with few filters: adjacent windows in the lanes of a vector.
//
// Elsewhere the lanes of a vector are filters, so that one filter uses one lane of 16. Here they are windows, and weights are
// broadcast. Lines of an image are brought into planes first, in which the columns of a channel are adjacent, so that the
// inputs of adjacent windows are one vector; a plane's lines follow one another, so that vectors pass from line to line. Each
// element is the same sum, in the same order.
#ifndef TFAOT_KERNELS_PLACES_H_
#define TFAOT_KERNELS_PLACES_H_

#include "blocks.h"
#include "tiles.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// One element of all filters: the first window's input of the first channel, and the weights.
struct SeenTap {
  const float* from;
  const float* weights;
};

/// The elements of all filters that windows multiply, in the order of the sums.
struct SeenTaps {
  SeenTap taps[kMostTaps];
  std::size_t count;
  std::size_t channels, planeSize;
  const float* bias;
  Activation activation;  ///< one that bounds sums, or none
};

/// The vectors of windows at a time: registers hold their sums beside all weights and an input.
constexpr int placesAtATime(int filters) {
  int vectors = 8;
  while (vectors > 1 && vectors * filters + filters + 2 > kRegisters) --vectors;
  return vectors;
}

/// kVectors vectors of windows from `place` on.
template <int kFilters, int kVectors>
TFAOT_INLINE void sumVectorsOfPlaces(const SeenTaps& seen, std::size_t place, float* out, std::size_t stride) {
  Sums<kVectors, kFilters> sums;
  TFAOT_UNROLL
  for (int f = 0; f < kFilters; ++f) {
    const Vector start = seen.bias == nullptr ? Vector{} : broadcast(seen.bias[f]);
    TFAOT_UNROLL
    for (int v = 0; v < kVectors; ++v) sums[v][f] = start;
  }
  for (const SeenTap *tap = seen.taps, *end = tap + seen.count; tap != end; ++tap) {
    const float *from = tap->from + place, *weights = tap->weights;
    for (std::size_t channel = seen.channels; channel > 0; --channel, from += seen.planeSize, weights += kPanel) {
      Vector weight[kFilters];
      TFAOT_UNROLL
      for (int f = 0; f < kFilters; ++f) {
        weight[f] = broadcast(weights[f]);
        if constexpr (kVectors > 1) keepInRegister(weight[f]);
      }
      TFAOT_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        Vector input = load(from + v * kLanes);
        if constexpr (kFilters > 1) keepInRegister(input);
        TFAOT_UNROLL
        for (int f = 0; f < kFilters; ++f) sums[v][f] = multiplyAdd(weight[f], input, sums[v][f]);
      }
    }
  }
  if (seen.activation != Activation::none) bound(seen.activation, sums);
  TFAOT_UNROLL
  for (int f = 0; f < kFilters; ++f) {
    TFAOT_UNROLL
    for (int v = 0; v < kVectors; ++v) store(out + f * stride + place + v * kLanes, sums[v][f]);
  }
}

/// `count` vectors of windows, `atATime` of them at a time, at most kVectors. Some of the last ones may be computed twice.
template <int kFilters, int kVectors>
TFAOT_INLINE void sumSomePlaces(const SeenTaps& seen, std::size_t count, std::size_t atATime, float* sums, std::size_t stride) {
  if constexpr (kVectors > 1) {
    if (atATime < kVectors) return sumSomePlaces<kFilters, kVectors - 1>(seen, count, atATime, sums, stride);
  }
  for (std::size_t done = 0; done < count; done += kVectors) {
    const std::size_t first = count - done < kVectors ? count - kVectors : done;
    sumVectorsOfPlaces<kFilters, kVectors>(seen, first * kLanes, sums, stride);
  }
}

/// The sums of `places` windows, each filter's `stride` apart.
template <int kFilters>
void sumPlaces(const SeenTaps& seen, std::size_t places, float* sums, std::size_t stride) {
  constexpr std::size_t kMost = placesAtATime(kFilters);
  const std::size_t count = vectorsOf(places), runs = (count + kMost - 1) / kMost;
  sumSomePlaces<kFilters, kMost>(seen, count, (count + runs - 1) / runs, sums, stride);
}

/// Writes the first `count` floats of `places` windows of kRows rows of sums, which lie `stride` apart: those of the first
/// window, then those of the second and so on. Up to four rows are interleaved. More of them are blocks that are transposed:
/// numbers of lanes for each pair of rows would be kilobytes of constants, which libraries keep without the function.
template <int kRows>
void interleave(const float* sums, std::size_t stride, std::size_t places, std::size_t count, float* out) {
  constexpr int kFew = 4, kAtATime = kRows > kFew ? kLanes : kRows;
  for (std::size_t place = 0; place < places; place += kLanes, sums += kLanes, out += kRows * kLanes) {
    const std::size_t rest = count - place * kRows, left = rest < kRows * kLanes ? rest : kRows * kLanes;
    const std::size_t whole = left / kRows;
    TFAOT_UNROLL
    for (int first = 0; first < kRows; first += kAtATime) {
      const int here = kRows - first < kAtATime ? kRows - first : kAtATime;
      Vector rows[kAtATime] = {};
      TFAOT_UNROLL
      for (int r = 0; r < kAtATime; ++r) {
        if (r < here) rows[r] = load(sums + (first + r) * stride);
      }
      if constexpr (kRows > kFew) {
        storeTransposed(rows, whole, static_cast<std::size_t>(here), out + first, kRows);
      } else {
        storeInterleaved<kRows>(rows, left, out);
      }
    }
    if constexpr (kRows > kFew) {  // the windows that a line ends with may not be complete
      for (std::size_t r = 0; r < left % kRows; ++r) out[whole * kRows + r] = sums[r * stride + whole];
    }
  }
}

/// Lanes of a group: kGroup floats of each of kLanes / kGroup columns, kGroup columns of `step` floats apart.
template <int kGroup>
TFAOT_INLINE Vector loadColumns(const float* from, std::size_t step) {
  if constexpr (kGroup == kLanes) {
    return load(from);
  } else {
    return halvesOf(loadTwice(from), loadTwice(from + kGroup * step));
  }
}

/// Brings a line of `width` columns of `across` floats into as many planes. Whole vectors are written and read, also behind the
/// last column.
template <int kGroup>
TFAOT_ALONE void spread(const float* line, std::size_t width, std::size_t across, float* planes, std::size_t planeSize) {
  for (std::size_t first = 0; first < across; first += kGroup) {
    const std::size_t here = across - first < kGroup ? across - first : kGroup;
    const float* from = line + first;
    float* to = planes + first * planeSize;
    for (std::size_t column = 0; column < width; column += kLanes, from += kLanes * across, to += kLanes) {
      Vector rows[kGroup];
      TFAOT_UNROLL
      for (int i = 0; i < kGroup; ++i) rows[i] = loadColumns<kGroup>(from + i * across, across);
      transpose(rows);
      TFAOT_UNROLL
      for (std::size_t i = 0; i < kGroup; ++i) {
        if (i < here) store(to + i * planeSize, rows[i]);
      }
    }
  }
}

/// The same by groups of as many columns as waste the least.
inline void spreadLine(const float* line, std::size_t width, std::size_t across, float* planes, std::size_t planeSize) {
  constexpr int kHalf = kLanes > 4 ? kHalfLanes : kLanes;
  if (across == 1) {
    std::memcpy(planes, line, width * sizeof(float));
  } else if (across <= kHalf) {
    spread<kHalf>(line, width, across, planes, planeSize);
  } else {
    spread<kLanes>(line, width, across, planes, planeSize);
  }
}

/// The columns of an image that planes hold, and the zeros on their left.
struct SeenColumns {
  std::size_t first, count, padding;

  /// Those of `width` columns of planes.
  SeenColumns(const Planes& layer, std::size_t column, std::size_t width) {
    const std::size_t begin = column * layer.columns.stride, before = layer.columns.before(), in = layer.columns.in;
    width *= layer.columns.stride;
    padding = begin < before ? before - begin : 0;
    if (padding > width) padding = width;
    first = begin > before ? begin - before : 0;
    const std::size_t left = first < in ? in - first : 0;
    count = left < width - padding ? left : width - padding;
  }
};

/// Fills planes with the inputs of the windows of `lines` lines from `line` on, and of `places` columns from `column` on. A line
/// is copied between zeros to `room`, unless no column is padding, and it does not end with the image.
inline void fillPlanes(const Planes& layer, const float* image, std::size_t line, std::size_t lines, std::size_t column,
                       std::size_t places, float* room, float* planes) {
  const std::size_t pitch = layer.width(), across = layer.across(), size = layer.planeSize();
  const std::size_t width = places - 1 + layer.columnsReached;
  const std::size_t inLine = layer.columns.in * layer.channels, end = layer.rows.in * inLine;
  const SeenColumns seen(layer, column, width);
  const std::size_t floats = seen.count * layer.channels, first = seen.padding * layer.channels;
  const std::size_t read = (vectorsOf(width) + 1) * kLanes * across;  // by whole vectors, also behind the last column
  std::memset(room, 0, first * sizeof(float));
  std::memset(room + first + floats, 0, (read - first - floats) * sizeof(float));
  const std::size_t rows = lines - 1 + layer.rowsReached;
  for (std::size_t part = 0; part < layer.rows.stride; ++part, planes += across * size) {
    for (std::size_t plane = 0; plane < across; ++plane) store(planes + plane * size + rows * pitch, Vector{});
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t y = (line + row) * layer.rows.stride + part - layer.rows.before();  // wraps above the image
      float* const to = planes + row * pitch;
      if (y >= layer.rows.in) {
        for (std::size_t plane = 0; plane < across; ++plane) std::memset(to + plane * size, 0, width * sizeof(float));
        continue;
      }
      const std::size_t begin = y * inLine + seen.first * layer.channels;
      const bool isThere = floats == width * across && begin + read <= end;
      if (!isThere && floats > 0) std::memcpy(room + first, image + begin, floats * sizeof(float));
      spreadLine(isThere ? image + begin : room, width, across, to, size);
    }
  }
}

/// The elements of the filters that the windows of a phase of lines and one of columns multiply.
inline void setTaps(const Conv2d& layer, const Planes& planes, const float* from, std::size_t row, std::size_t column,
                    SeenTaps& seen) {
  const Placing &rows = planes.rows, &columns = planes.columns;
  const std::size_t width = planes.width(), size = planes.planeSize();
  SeenTap* tap = seen.taps;
  for (std::size_t y = 0, number = rows.first(row); number < rows.kernel; ++y, number += rows.phases) {
    const std::size_t down = rows.ahead(row) + y * rows.dilation / rows.stride;
    const float* const line = from + y * rows.dilation % rows.stride * planes.across() * size + down * width;
    const float* const weights = layer.weights + number * columns.kernel * planes.channels * kPanel;
    for (std::size_t x = 0, other = columns.first(column); other < columns.kernel; ++x, other += columns.phases) {
      const std::size_t right = columns.ahead(column) + x * columns.dilation / columns.stride;
      const float* const input = line + x * columns.dilation % columns.stride * planes.channels * size + right;
      *tap++ = {input, weights + other * planes.channels * kPanel};
    }
  }
  seen.count = static_cast<std::size_t>(tap - seen.taps);
}

/// `count` lines of windows from `line` on; `out` is where the first one's pixels begin. A line of windows is as many lines of
/// the result as there are phases.
inline void convolvePlaces(const Dispatch& dispatch, const Conv2d& layer, const Planes& planes, const float* image,
                           std::size_t line, std::size_t count, float* out, float* scratch) {
  const Placing &rows = planes.rows, &columns = planes.columns;
  const std::size_t width = planes.width(), stride = planes.sumsSize(), filters = layer.filters;
  const std::size_t outLine = columns.made * filters, interleaved = columns.phases * filters;
  float* const from = scratch + planes.lineSize();
  float* const sums = from + rows.stride * planes.across() * planes.planeSize();
  SeenTaps seen;
  seen.channels = planes.channels, seen.planeSize = planes.planeSize(), seen.bias = layer.bias;
  seen.activation = isBounds(layer.activation) ? layer.activation : Activation(Activation::none);
  const std::size_t first = line * rows.phases, end = line + count;
  for (std::size_t lines; line < end; line += lines) {
    lines = end - line < planes.linesAtATime ? end - line : planes.linesAtATime;
    const std::size_t places = columns.places();
    for (std::size_t column = 0, here; column < places; column += here) {
      here = places - column < planes.columnsAtATime ? places - column : planes.columnsAtATime;
      fillPlanes(planes, image, line, lines, column, here, scratch, from);
      const std::size_t begin = column * interleaved, left = outLine - begin, whole = here * interleaved;
      for (std::size_t row = 0; row < rows.phases; ++row) {
        for (std::size_t phase = 0; phase < columns.phases; ++phase) {
          setTaps(layer, planes, from, row, phase, seen);
          dispatch.places[filters - 1](seen, (lines - 1) * width + here, sums + phase * filters * stride, stride);
        }
        for (std::size_t i = 0; i < lines; ++i) {
          const std::size_t number = (line + i) * rows.phases + row;
          if (number >= rows.made) break;
          float* const to = out + (number - first) * outLine + begin;
          dispatch.interleaved[interleaved - 1](sums + i * width, stride, here, left < whole ? left : whole, to);
        }
      }
    }
  }
  if (isBounds(layer.activation)) return;
  const std::size_t last = end * rows.phases < rows.made ? end * rows.phases : rows.made;
  activateRow(dispatch, layer.activation, out, (last - first) * outLine);
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_PLACES_H_
