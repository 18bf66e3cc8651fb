// XLA's convolutions (xla/service/cpu/runtime_single_threaded_conv2d.h and runtime_single_threaded_conv3d.h).

#include "runtime/convolution.h"

namespace {

using tfaot_native::Axis;
using tfaot_native::Convolution;
using tfaot_native::Index;

constexpr Axis kNoAxis = {1, 1, 1, 1, 0, 1, 1};

}  // namespace

#define TFAOT_CONV2D_PARAMETERS(Scalar)                                                                             \
  const void *, Scalar *out, const Scalar *in, const Scalar *kernel, Index batch, Index rows, Index columns,        \
      Index channels, Index kernel_rows, Index kernel_columns, Index, Index filters, Index out_rows,                \
      Index out_columns, Index row_stride, Index column_stride, Index padding_top, Index, Index padding_left,       \
      Index, Index row_dilation, Index column_dilation, Index kernel_row_dilation, Index kernel_column_dilation,    \
      Index groups

#define TFAOT_CONV2D                                                                                                \
  Convolution {                                                                                                     \
    Axis{rows, kernel_rows, out_rows, row_stride, padding_top, row_dilation, kernel_row_dilation},                  \
        Axis{columns, kernel_columns, out_columns, column_stride, padding_left, column_dilation,                    \
             kernel_column_dilation},                                                                               \
        kNoAxis, batch, channels, filters, groups                                                                   \
  }

#define TFAOT_CONV3D_PARAMETERS(Scalar)                                                                             \
  const void *, Scalar *out, const Scalar *in, const Scalar *kernel, Index batch, Index x, Index y, Index z,        \
      Index channels, Index kernel_x, Index kernel_y, Index kernel_z, Index, Index filters, Index out_x,            \
      Index out_y, Index out_z, Index stride_x, Index stride_y, Index stride_z, Index padding_x, Index,             \
      Index padding_y, Index, Index padding_z, Index, Index dilation_x, Index dilation_y, Index dilation_z,         \
      Index kernel_dilation_x, Index kernel_dilation_y, Index kernel_dilation_z, Index groups

#define TFAOT_CONV3D                                                                                                \
  Convolution {                                                                                                     \
    Axis{x, kernel_x, out_x, stride_x, padding_x, dilation_x, kernel_dilation_x},                                   \
        Axis{y, kernel_y, out_y, stride_y, padding_y, dilation_y, kernel_dilation_y},                               \
        Axis{z, kernel_z, out_z, stride_z, padding_z, dilation_z, kernel_dilation_z}, batch, channels, filters,     \
        groups                                                                                                      \
  }

extern "C" {

void __xla_cpu_runtime_EigenSingleThreadedConv2DF32(TFAOT_CONV2D_PARAMETERS(float)) {
  tfaot_native::convolve(TFAOT_CONV2D, out, in, kernel);
}

void __xla_cpu_runtime_EigenSingleThreadedConv2DF16(TFAOT_CONV2D_PARAMETERS(Eigen::half)) {
  tfaot_native::convolve_as<float>(TFAOT_CONV2D, out, in, kernel);
}

void __xla_cpu_runtime_EigenSingleThreadedConv3DF32(TFAOT_CONV3D_PARAMETERS(float)) {
  tfaot_native::convolve(TFAOT_CONV3D, out, in, kernel);
}

void __xla_cpu_runtime_EigenSingleThreadedConv3DF16(TFAOT_CONV3D_PARAMETERS(Eigen::half)) {
  tfaot_native::convolve_as<float>(TFAOT_CONV3D, out, in, kernel);
}

}  // extern "C"
