// Convolutions for compiled models, in two and three dimensions, of any stride, padding, dilation and grouping.
//
// A block of output points at a time is written as a matrix of patches that stays in the cache; its product with the
// kernel is those points' output. XLA's own sources do this by Eigen's tensor expressions, whose templates take more than a
// minute to compile.
#ifndef TFAOT_NATIVE_RUNTIME_CONVOLUTION_H_
#define TFAOT_NATIVE_RUNTIME_CONVOLUTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "Eigen/Core"

namespace tfaot_native {

using Index = std::int64_t;

// One spatial axis. An output point `o` and a kernel point `k` meet at o * stride + k * kernel_dilation - padding of the
// input, whose points lie `input_dilation` apart with zeros between them.
struct Axis {
  Index input, kernel, output, stride, padding, input_dilation, kernel_dilation;

  // The input point, or -1 where a zero is meant.
  Index source(Index o, Index k) const {
    const Index at = o * stride + k * kernel_dilation - padding;
    if (at < 0 || at % input_dilation != 0) return -1;
    const Index point = at / input_dilation;
    return point < input ? point : -1;
  }
};

struct Convolution {
  Axis x, y, z;  // outermost first; two-dimensional ones have one point in z
  Index batch, channels, filters, groups;

  Index group_channels() const { return channels / groups; }
  Index group_filters() const { return filters / groups; }
  Index taps() const { return x.kernel * y.kernel * z.kernel; }
  Index output_points() const { return x.output * y.output * z.output; }
  Index input_points() const { return x.input * y.input * z.input; }
};

// Input points of one output point, a tap of the kernel each; -1 for zeros.
inline void sources_of(const Convolution& c, Index point, Index* sources) {
  const Index oz = point % c.z.output, oy = point / c.z.output % c.y.output, ox = point / c.z.output / c.y.output;
  for (Index kx = 0; kx < c.x.kernel; ++kx) {
    const Index ix = c.x.source(ox, kx);
    for (Index ky = 0; ky < c.y.kernel; ++ky) {
      const Index iy = ix < 0 ? -1 : c.y.source(oy, ky);
      for (Index kz = 0; kz < c.z.kernel; ++kz) {
        const Index iz = iy < 0 ? -1 : c.z.source(oz, kz);
        *sources++ = iz < 0 ? -1 : (ix * c.y.input + iy) * c.z.input + iz;
      }
    }
  }
}

// Memory of one convolution: of the stack if it is little, as in small models, whose runs then allocate nothing.
template <class T>
class Scratch {
 public:
  explicit Scratch(Index size) {
    if (size > kFew) many_.reset(new T[static_cast<std::size_t>(size)]);
  }
  T* data() { return many_ ? many_.get() : few_; }

 private:
  static constexpr Index kFew = 16 * 1024 / sizeof(T);

  T few_[kFew];
  std::unique_ptr<T[]> many_;
};

// Each channel has filters of its own: no matrix product, a sum over taps for all channels at once.
template <class Scalar>
void convolve_channels(const Convolution& c, Scalar* out, const Scalar* in, const Scalar* kernel) {
  using Row = Eigen::Array<Scalar, 1, Eigen::Dynamic>;
  using Filters = Eigen::Array<Scalar, Eigen::Dynamic, Eigen::Dynamic>;  // filters of a channel in a column
  Scratch<Index> sources(c.taps());
  for (Index point = 0; point < c.output_points(); ++point) {
    sources_of(c, point, sources.data());
    Scalar* result = out + point * c.filters;
    std::fill(result, result + c.filters, Scalar(0));
    for (Index tap = 0; tap < c.taps(); ++tap) {
      const Index source = sources.data()[tap];
      if (source < 0) continue;
      const Eigen::Map<const Row> values(in + source * c.channels, c.channels);
      const Scalar* weights = kernel + tap * c.filters;
      if (c.group_filters() == 1) {
        Eigen::Map<Row>(result, c.filters) += values * Eigen::Map<const Row>(weights, c.filters);
      } else {
        Eigen::Map<Filters>(result, c.group_filters(), c.channels) +=
            Eigen::Map<const Filters>(weights, c.group_filters(), c.channels).rowwise() * values;
      }
    }
  }
}

template <class Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A part of a matrix whose rows lie `stride` apart.
template <class Matrix>
using Strided = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class Scalar>
void write_patches(const Convolution& c, Scalar* patches, const Scalar* in, const Index* sources, Index points) {
  const Index width = c.group_channels();
  const Index end = points * c.taps();
  for (Index i = 0, run = 1; i < end; i += run, patches += run * width) {
    run = 1;
    if (sources[i] < 0) {
      std::fill(patches, patches + width, Scalar(0));
      continue;
    }
    // Points that follow each other in the input do so in the patch, where there is one group.
    while (c.groups == 1 && i + run < end && sources[i + run] == sources[i] + run) ++run;
    const Scalar* from = in + sources[i] * c.channels;
    std::copy(from, from + run * width, patches);
  }
}

constexpr Index kPatchBytes = 128 * 1024;  // a block of patches fits into the second level of cache

template <class Scalar>
void convolve_groups(const Convolution& c, Scalar* out, const Scalar* in, const Scalar* kernel) {
  const Index width = c.taps() * c.group_channels();
  const Index block = std::clamp<Index>(kPatchBytes / (width * Index{sizeof(Scalar)}), 8, c.output_points() + 8);
  Scratch<Scalar> memory(block * width);
  const Eigen::Map<RowMajor<Scalar>> patches(memory.data(), block, width);
  Scratch<Index> sources(block * c.taps());
  for (Index start = 0; start < c.output_points(); start += block) {
    const Index points = std::min(block, c.output_points() - start);
    for (Index i = 0; i < points; ++i) sources_of(c, start + i, sources.data() + i * c.taps());
    for (Index group = 0; group < c.groups; ++group) {
      write_patches(c, memory.data(), in + group * c.group_channels(), sources.data(), points);
      const Index first = group * c.group_filters();
      const Strided<const RowMajor<Scalar>> weights(kernel + first, width, c.group_filters(),
                                                    Eigen::OuterStride<>(c.filters));
      Strided<RowMajor<Scalar>> result(out + start * c.filters + first, points, c.group_filters(),
                                       Eigen::OuterStride<>(c.filters));
      result.noalias() = patches.topRows(points) * weights;
    }
  }
}

// out [batch, x, y, z, filters] from in [batch, x, y, z, channels] and kernel [x, y, z, channels / groups, filters].
template <class Scalar>
void convolve(const Convolution& c, Scalar* out, const Scalar* in, const Scalar* kernel) {
  const bool by_channel = c.group_channels() == 1 && c.groups > 1;
  for (Index image = 0; image < c.batch; ++image) {
    if (by_channel) {
      convolve_channels(c, out, in, kernel);
    } else {
      convolve_groups(c, out, in, kernel);
    }
    in += c.input_points() * c.channels;
    out += c.output_points() * c.filters;
  }
}

// The same in another type: for half, which has no arithmetic of its own.
template <class Computed, class Scalar>
void convolve_as(const Convolution& c, Scalar* out, const Scalar* in, const Scalar* kernel) {
  using Values = Eigen::Array<Scalar, Eigen::Dynamic, 1>;
  using Wide = Eigen::Array<Computed, Eigen::Dynamic, 1>;
  const Wide input = Eigen::Map<const Values>(in, c.batch * c.input_points() * c.channels).template cast<Computed>();
  const Wide weights =
      Eigen::Map<const Values>(kernel, c.taps() * c.group_channels() * c.filters).template cast<Computed>();
  Wide result(c.batch * c.output_points() * c.filters);
  convolve(c, result.data(), input.data(), weights.data());
  Eigen::Map<Values>(out, result.size()) = result.template cast<Scalar>();
}

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_RUNTIME_CONVOLUTION_H_
