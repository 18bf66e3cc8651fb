// Stand-in for XLA's header of this name: how generated code calls a kernel (xla/backends/cpu/runtime/kernel_c_api.h).
#ifndef TFAOT_STAND_IN_KERNEL_C_API_H_
#define TFAOT_STAND_IN_KERNEL_C_API_H_

#include <cstddef>
#include <cstdint>

extern "C" {

struct XLA_CPU_NumWorkGroups {
  std::uint64_t x, y, z;
};

struct XLA_CPU_WorkGroupId {
  std::uint64_t x, y, z;
};

struct XLA_CPU_KernelArg {
  void* data;
  std::size_t size;
};

struct XLA_CPU_KernelCallFrame {
  const XLA_CPU_NumWorkGroups* num_workgroups;
  const XLA_CPU_WorkGroupId* workgroup_id;
  std::size_t num_args;
  const XLA_CPU_KernelArg* args;
};

struct XLA_CPU_KernelError;

}  // extern "C"

#endif  // TFAOT_STAND_IN_KERNEL_C_API_H_
