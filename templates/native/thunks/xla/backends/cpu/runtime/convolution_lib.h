// Stand-in for XLA's header of this name: declarations only; the definitions are runtime parts.
#ifndef TFAOT_STAND_IN_CONVOLUTION_LIB_H_
#define TFAOT_STAND_IN_CONVOLUTION_LIB_H_

#include <cstddef>

#include "absl/functional/any_invocable.h"

namespace Eigen {
struct ThreadPoolDevice;
struct half;
using Index = std::ptrdiff_t;
}  // namespace Eigen

namespace xla::cpu::internal {

template <typename Scalar>
void EigenConv2D(const Eigen::ThreadPoolDevice* device, Scalar* out, const Scalar* lhs, const Scalar* rhs,
                 Eigen::Index input_batch, Eigen::Index input_x, Eigen::Index input_y, Eigen::Index input_channels,
                 Eigen::Index kernel_x, Eigen::Index kernel_y, Eigen::Index kernel_channels,
                 Eigen::Index kernel_filters, Eigen::Index output_x, Eigen::Index output_y, Eigen::Index x_stride,
                 Eigen::Index y_stride, Eigen::Index padding_x_before, Eigen::Index padding_x_after,
                 Eigen::Index padding_y_before, Eigen::Index padding_y_after, Eigen::Index lhs_x_dilation,
                 Eigen::Index lhs_y_dilation, Eigen::Index rhs_x_dilation, Eigen::Index rhs_y_dilation,
                 Eigen::Index feature_group_count, absl::AnyInvocable<void()> done);

}  // namespace xla::cpu::internal

#endif  // TFAOT_STAND_IN_CONVOLUTION_LIB_H_
