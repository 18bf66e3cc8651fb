// What kernels.py times: layers by the kernel library, the machine's peak of multiply-adds, and its read bandwidth.
//
// Every function gives the least time of one run in seconds. Time is the thread's own: what other programs take of a
// shared core is left out, what they take of its caches is not.
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <vector>

#include "src/vectors.h"
#include "tfaot_kernels/kernels.h"

namespace kernels = tfaot_kernels;

namespace {

constexpr double kLeastTime = 1e-3;  // of what is between two looks at the clock

double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Run>
double leastTime(Run run) {
  std::size_t runs = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int repetition = 0; repetition < 4;) {
    const double begin = now();
    for (std::size_t i = 0; i < runs; ++i) run();
    const double time = now() - begin;
    if (time < kLeastTime) {
      runs *= 2;
      continue;
    }
    least = std::min(least, time / static_cast<double>(runs));
    ++repetition;
  }
  return least;
}

// Arrays begin at a cache line, as a library's weights do.
template <class T>
struct Aligned {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kLine); }
  friend bool operator==(Aligned, Aligned) { return true; }
  friend bool operator!=(Aligned, Aligned) { return false; }
};
using Floats = std::vector<float, Aligned<float>>;

Floats numbers(std::size_t count) {
  Floats values(count);
  unsigned state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
  }
  return values;
}

kernels::Vector sink[12];

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

/// Seconds of one multiply-add of one vector, and how many floats that is.
EXPORT double peak(std::size_t* lanes) {
  *lanes = kernels::kLanes;
  constexpr int kSteps = 1000;
  const double time = leastTime([] {
    kernels::Vector sums[12];
    TFAOT_UNROLL
    for (int i = 0; i < 12; ++i) sums[i] = sink[i];
    const kernels::Vector factor = sink[0] + 0.5f, term = sink[1] + 0.25f;
    for (int step = 0; step < kSteps; ++step) {
      TFAOT_UNROLL
      for (int i = 0; i < 12; ++i) sums[i] = sums[i] * factor + term;
    }
    TFAOT_UNROLL
    for (int i = 0; i < 12; ++i) sink[i] = sums[i] * 0.0f;
  });
  return time / (12 * kSteps);
}

/// Seconds to read `count` floats, a multiple of 128, again and again.
EXPORT double readTime(std::size_t count) {
  const Floats values = numbers(count);
  return leastTime([&] {
    kernels::Vector sums[8] = {};
    const float* const data = values.data();
    for (std::size_t i = 0; i < count; i += 8 * kernels::kLanes) {
      TFAOT_UNROLL
      for (int v = 0; v < 8; ++v) sums[v] += kernels::load(data + i + static_cast<std::size_t>(v) * kernels::kLanes);
    }
    TFAOT_UNROLL
    for (int v = 0; v < 8; ++v) sink[v] = sums[v] * 0.0f;
  });
}

/// Seconds of `layers` dense layers of `width` units one after the other.
EXPORT double denseTime(std::size_t width, std::size_t layers, std::size_t batch, int activation) {
  const std::size_t size = kernels::packedSize(width, width);
  Floats weights = numbers(size * layers);
  for (float& weight : weights) weight *= 1.5f / static_cast<float>(width);
  const Floats bias = numbers(width * layers);
  Floats ping = numbers(batch * width), pong(batch * width);
  const Floats in = ping;
  return leastTime([&] {
    const float* from = in.data();
    for (std::size_t layer = 0; layer < layers; ++layer) {
      float* const to = layer % 2 == 0 ? pong.data() : ping.data();
      kernels::dense({width, width, weights.data() + layer * size, bias.data() + layer * width,
                      static_cast<kernels::Activation::Kind>(activation)},
                     batch, from, to);
      from = to;
    }
  });
}

/// Seconds of one convolution with a square kernel, stride 1, valid or (`same`) with the input's size, and (`pooled`)
/// a 2 x 2 maximum with stride 2 behind it.
EXPORT double conv2dTime(std::size_t size, std::size_t channels, std::size_t filters, std::size_t kernel,
                         std::size_t groups, int same, int pooled, std::size_t batch, int activation) {
  kernels::Conv2d layer = {};
  const std::size_t out = same != 0 ? size : size - kernel + 1;
  layer.window = {size, size, channels, out, out, kernel, kernel, 1, 1};
  if (same != 0) layer.window.padTop = layer.window.padLeft = (kernel - 1) / 2;
  layer.filters = filters;
  layer.groups = groups;
  layer.activation = static_cast<kernels::Activation::Kind>(activation);
  const Floats weights = numbers(kernels::packedConv2dSize(layer));
  const Floats bias = numbers(filters);
  layer.weights = weights.data();
  layer.bias = bias.data();
  const kernels::Window pool = {out, out, filters, out / 2, out / 2, 2, 2, 2, 2};
  const Floats in = numbers(batch * size * size * channels);
  Floats result(batch * out * out * filters), scratch(kernels::conv2dMaxPoolScratch(layer, pool));
  return leastTime([&] {
    if (pooled != 0) {
      kernels::conv2dMaxPool(layer, pool, batch, in.data(), result.data(), scratch.data());
    } else {
      kernels::conv2d(layer, batch, in.data(), result.data(), scratch.data());
    }
  });
}

/// Seconds of softmax.
EXPORT double softmaxTime(std::size_t rows, std::size_t size) {
  const Floats in = numbers(rows * size);
  Floats out(rows * size);
  return leastTime([&] { kernels::softmax(rows, size, in.data(), out.data()); });
}

/// Seconds of a 2 x 2 maximum with stride 2.
EXPORT double maxPoolTime(std::size_t size, std::size_t channels, std::size_t batch) {
  const kernels::Window window = {size, size, channels, size / 2, size / 2, 2, 2, 2, 2};
  const Floats in = numbers(batch * size * size * channels);
  Floats result(batch * (size / 2) * (size / 2) * channels);
  return leastTime([&] { kernels::maxPool(window, batch, in.data(), result.data()); });
}

/// Seconds of an activation of `count` floats.
EXPORT double activationTime(int activation, std::size_t count) {
  Floats in = numbers(count), out(count);
  for (float& value : in) value *= 8.0f;
  const auto kind = static_cast<kernels::Activation::Kind>(activation);
  return leastTime([&] { kernels::activate(kind, count, in.data(), out.data()); });
}
