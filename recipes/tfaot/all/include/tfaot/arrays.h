// tfaot/arrays.h: batches as nested vectors, one inner vector per row.
#ifndef TFAOT_ARRAYS_H_
#define TFAOT_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tfaot/error.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace v1 {

/// Rows of `T`: `arrays[row][element]`, the elements of a row in row-major order.
template <class T>
using Arrays = std::vector<std::vector<T>>;

using BoolArrays = Arrays<bool>;
using Int8Arrays = Arrays<std::int8_t>;
using Int16Arrays = Arrays<std::int16_t>;
using Int32Arrays = Arrays<std::int32_t>;
using Int64Arrays = Arrays<std::int64_t>;
using UInt8Arrays = Arrays<std::uint8_t>;
using UInt16Arrays = Arrays<std::uint16_t>;
using UInt32Arrays = Arrays<std::uint32_t>;
using UInt64Arrays = Arrays<std::uint64_t>;
using FloatArrays = Arrays<float>;
using DoubleArrays = Arrays<double>;

namespace detail {

/// The element type of nested vectors, std::arrays or anything like them. (A row of std::vector<bool> gives proxies.)
template <class Rows>
using ElementOf = typename std::decay_t<decltype(std::declval<const Rows&>()[0])>::value_type;

/// The number of rows that nested vectors have for a tensor: one, where it has no batch axis.
constexpr std::size_t rows_at(const TensorInfo& tensor, std::size_t batch_size) noexcept {
  return tensor.has_batch_axis ? batch_size : 1;
}

/// Write the first rows of `rows`, one after the other, to `to`. Throws Error: too few rows, a row of a wrong length.
template <class T, class Rows>
void flatten(const char* model, const TensorInfo& tensor, std::size_t batch_size, const Rows& rows, T* to) {
  const std::size_t wanted = rows_at(tensor, batch_size);
  if (rows.size() < wanted) {
    throw Error(model, std::string("input \"") + tensor.name + "\"", std::to_string(wanted) + " rows",
                std::to_string(rows.size()));
  }
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto& row = rows[i];
    if (row.size() != tensor.row_size) {
      throw Error(model, std::string("input \"") + tensor.name + "\", row " + std::to_string(i),
                  std::to_string(tensor.row_size) + " elements", std::to_string(row.size()));
    }
    for (std::size_t j = 0; j < tensor.row_size; ++j) *to++ = row[j];
  }
}

/// The rows that lie one after the other from `from` on.
template <class T>
void nest(const TensorInfo& tensor, std::size_t batch_size, const T* from, Arrays<T>& rows) {
  rows.resize(rows_at(tensor, batch_size));
  for (auto& row : rows) {
    row.assign(from, from + tensor.row_size);
    from += tensor.row_size;
  }
}

}  // namespace detail
}  // namespace v1
}  // namespace tfaot

#endif  // TFAOT_ARRAYS_H_
