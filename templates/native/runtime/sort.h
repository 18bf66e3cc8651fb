// Sorting for compiled models, by a comparison that is compiled code of the model.
#ifndef TFAOT_NATIVE_RUNTIME_SORT_H_
#define TFAOT_NATIVE_RUNTIME_SORT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

namespace tfaot_native {

// Sorts arrays of the shape [outer, length, inner] along their second axis, in place. All are rearranged alike.
//
// `less` gets an array of addresses, two for each array: the element of the one point, then that of the other. The sort
// is always stable: it then stays within its memory whatever a comparison of NaNs answers.
template <class Less>
void sort_arrays(std::int64_t outer, std::int64_t length, std::int64_t inner, std::size_t num_arrays,
                 char* const* arrays, const std::size_t* element_sizes, Less&& less) {
  const auto count = static_cast<std::size_t>(length);
  std::vector<std::int64_t> order(count);
  std::vector<const void*> compared(2 * num_arrays);
  std::vector<char> sorted(count * *std::max_element(element_sizes, element_sizes + num_arrays));
  for (std::int64_t slice = 0; slice < outer * inner; ++slice) {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    const auto element = [&](std::size_t array, std::int64_t i) {
      return arrays[array] + static_cast<std::size_t>(start + i * inner) * element_sizes[array];
    };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      for (std::size_t i = 0; i < num_arrays; ++i) {
        compared[2 * i] = element(i, a);
        compared[2 * i + 1] = element(i, b);
      }
      return static_cast<bool>(less(compared.data()));
    });
    for (std::size_t array = 0; array < num_arrays; ++array) {
      const std::size_t size = element_sizes[array];
      for (std::size_t i = 0; i < count; ++i) std::memcpy(sorted.data() + i * size, element(array, order[i]), size);
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(element(array, static_cast<std::int64_t>(i)), sorted.data() + i * size, size);
      }
    }
  }
}

// The `k` largest of each row of [rows, length], with their places: largest first, of equal ones the first. The order of
// XLA: -NaN < -inf < ... < -0 < +0 < ... < +inf < +NaN.
inline void largest(std::int64_t rows, std::int64_t length, std::int64_t k, const float* values, float* out_values,
                    std::int32_t* out_indices) {
  // Of floats with the sign bit set, the larger pattern is the smaller number.
  const auto rank = [](float value) {
    std::int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? static_cast<std::int32_t>(bits ^ 0x7fffffff) : bits;
  };
  std::vector<std::int32_t> order(static_cast<std::size_t>(length));
  for (std::int64_t row = 0; row < rows; ++row, values += length, out_values += k, out_indices += k) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](std::int32_t a, std::int32_t b) {
      const std::int32_t left = rank(values[a]), right = rank(values[b]);
      return left != right ? left > right : a < b;
    });
    for (std::int64_t i = 0; i < k; ++i) {
      out_indices[i] = order[static_cast<std::size_t>(i)];
      out_values[i] = values[out_indices[i]];
    }
  }
}

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_RUNTIME_SORT_H_
