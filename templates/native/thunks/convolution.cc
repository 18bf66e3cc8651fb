// XLA's convolutions in two dimensions.

#include "runtime/convolution.h"
#include "xla/backends/cpu/runtime/convolution_lib.h"

namespace xla::cpu::internal {
namespace {

using Eigen::Index;
using tfaot_native::Axis;
using tfaot_native::Convolution;

constexpr Axis kNoAxis = {1, 1, 1, 1, 0, 1, 1};

void convolve(const Convolution& c, float* out, const float* in, const float* kernel) {
  tfaot_native::convolve(c, out, in, kernel);
}

void convolve(const Convolution& c, Eigen::half* out, const Eigen::half* in, const Eigen::half* kernel) {
  tfaot_native::convolve_as<float>(c, out, in, kernel);
}

}  // namespace

template <typename Scalar>
void EigenConv2D(const Eigen::ThreadPoolDevice*, Scalar* out, const Scalar* lhs, const Scalar* rhs, Index input_batch,
                 Index input_x, Index input_y, Index input_channels, Index kernel_x, Index kernel_y, Index,
                 Index kernel_filters, Index output_x, Index output_y, Index x_stride, Index y_stride,
                 Index padding_x_before, Index, Index padding_y_before, Index, Index lhs_x_dilation,
                 Index lhs_y_dilation, Index rhs_x_dilation, Index rhs_y_dilation, Index feature_group_count,
                 absl::AnyInvocable<void()> done) {
  const Axis x = {input_x, kernel_x, output_x, x_stride, padding_x_before, lhs_x_dilation, rhs_x_dilation};
  const Axis y = {input_y, kernel_y, output_y, y_stride, padding_y_before, lhs_y_dilation, rhs_y_dilation};
  convolve(Convolution{x, y, kNoAxis, input_batch, input_channels, kernel_filters, feature_group_count}, out, lhs, rhs);
  done();
}

#define TFAOT_CONV2D(Scalar)                                                                                          \
  template void EigenConv2D<Scalar>(const Eigen::ThreadPoolDevice*, Scalar*, const Scalar*, const Scalar*, Index,     \
                                    Index, Index, Index, Index, Index, Index, Index, Index, Index, Index, Index,      \
                                    Index, Index, Index, Index, Index, Index, Index, Index, Index,                    \
                                    absl::AnyInvocable<void()>)

TFAOT_CONV2D(float);
TFAOT_CONV2D(Eigen::half);

}  // namespace xla::cpu::internal
