// Stand-in for XLA's header of this name: sorting by a compiled comparison.
#ifndef TFAOT_STAND_IN_SORT_LIB_H_
#define TFAOT_STAND_IN_SORT_LIB_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/dynamic_annotations.h"
#include "absl/functional/any_invocable.h"
#include "runtime/sort.h"

namespace xla::cpu::internal {

struct SortDims {
  std::int64_t outer, length, inner;
};

using LessThan = absl::AnyInvocable<bool(const void** data)>;

// The flag for stability is not needed: the sort always is stable.
inline void SortInplace(const SortDims& dims, const std::vector<std::byte*>& data,
                        const std::vector<std::size_t>& element_sizes, bool, LessThan* less_than) {
  std::vector<char*> arrays;
  for (std::byte* each : data) arrays.push_back(reinterpret_cast<char*>(each));
  tfaot_native::sort_arrays(dims.outer, dims.length, dims.inner, arrays.size(), arrays.data(), element_sizes.data(),
                            *less_than);
}

}  // namespace xla::cpu::internal

#endif  // TFAOT_STAND_IN_SORT_LIB_H_
