// XLA's sort and top-k (xla/service/cpu/runtime_key_value_sort.h and runtime_topk.h).

#include "runtime/sort.h"

extern "C" {

// The flag for stability is not needed: the sort always is stable.
void __xla_cpu_runtime_KeyValueSort(std::int64_t outer, std::int64_t length, std::int64_t inner, char** arrays,
                                    std::int32_t num_arrays, const std::int32_t* element_sizes, bool, char* run_options,
                                    std::int64_t* counters,
                                    void (*less)(char*, char*, const void**, char**, std::int64_t*)) {
  const std::vector<std::size_t> sizes(element_sizes, element_sizes + num_arrays);
  tfaot_native::sort_arrays(outer, length, inner, sizes.size(), arrays, sizes.data(), [&](const void** compared) {
    char result = 0;
    less(&result, run_options, compared, nullptr, counters);
    return result != 0;
  });
}

void __xla_cpu_runtime_TopKF32(std::int64_t rows, std::int64_t length, std::int64_t k, const float* values,
                               float* out_values, std::int32_t* out_indices) {
  tfaot_native::largest(rows, length, k, values, out_values, out_indices);
}

}  // extern "C"
