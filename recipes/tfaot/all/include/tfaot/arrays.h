// tfaot/arrays.h: batches as nested vectors, one inner vector per row.
#ifndef TFAOT_ARRAYS_H_
#define TFAOT_ARRAYS_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/error.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// Rows of `Element`: `arrays[row][element]`, the elements of a row in row-major order.
template <class Element>
using Arrays = std::vector<std::vector<Element>>;

using BoolArrays = Arrays<bool>;            ///< `bool`
using Int8Arrays = Arrays<std::int8_t>;     ///< `std::int8_t`
using Int16Arrays = Arrays<std::int16_t>;   ///< `std::int16_t`
using Int32Arrays = Arrays<std::int32_t>;   ///< `std::int32_t`
using Int64Arrays = Arrays<std::int64_t>;   ///< `std::int64_t`
using UInt8Arrays = Arrays<std::uint8_t>;   ///< `std::uint8_t`
using UInt16Arrays = Arrays<std::uint16_t>; ///< `std::uint16_t`
using UInt32Arrays = Arrays<std::uint32_t>; ///< `std::uint32_t`
using UInt64Arrays = Arrays<std::uint64_t>; ///< `std::uint64_t`
using FloatArrays = Arrays<float>;          ///< `float`
using DoubleArrays = Arrays<double>;        ///< `double`
using Float16Arrays = Arrays<float16>;      ///< `tfaot::float16`
using BFloat16Arrays = Arrays<bfloat16>;    ///< `tfaot::bfloat16`

namespace detail {

/// The element type of nested vectors, std::arrays or similar containers; void for types that are not nested. (It is the
/// value_type of a row, because an element of std::vector<bool> is a proxy.)
template <class Rows, class = void>
struct NestedElement {
  using type = void;
};
template <class Rows>
struct NestedElement<Rows, std::void_t<typename std::decay_t<decltype(std::declval<const Rows&>()[0])>::value_type>> {
  using type = typename std::decay_t<decltype(std::declval<const Rows&>()[0])>::value_type;
};

template <class Row, class Element, class = void>
inline constexpr bool is_contiguous = false;
template <class Row, class Element>
inline constexpr bool is_contiguous<Row, Element, std::void_t<decltype(std::declval<const Row&>().data())>> =
    std::is_same<decltype(std::declval<const Row&>().data()), const Element*>::value;

/// Copy the elements of a row to `to`.
template <class Element, class Row>
void copy_row(const Row& row, std::size_t size, Element* to) {
  if constexpr (is_contiguous<Row, Element>) {
    if (size != 0) std::memcpy(to, row.data(), size * sizeof(Element));
  } else {
    for (std::size_t i = 0; i < size; ++i) to[i] = row[i];
  }
}

/// The number of rows that nested vectors have for a tensor: one if it has no batch axis.
constexpr std::size_t rows_at(const TensorInfo& tensor, std::size_t batch_size) noexcept {
  return tensor.has_batch_axis ? batch_size : 1;
}

/// Throws Error if there are too few rows.
inline void check_rows(const char* model, const TensorInfo& tensor, std::size_t batch_size, std::size_t rows) {
  const std::size_t wanted = rows_at(tensor, batch_size);
  if (rows >= wanted) return;
  detail::raise(Error(model, std::string("input \"") + tensor.name + "\"", std::to_string(wanted) + (wanted == 1 ? " row" : " rows"),
              std::to_string(rows)));
}

/// Copy the first rows of `rows`, which has enough of them, one after the other to `to`. Throws Error if one has a wrong
/// length.
template <class Element, class Rows>
void flatten(const char* model, const TensorInfo& tensor, std::size_t batch_size, const Rows& rows, Element* to) {
  const std::size_t wanted = rows_at(tensor, batch_size);
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto& row = rows[i];
    if (row.size() != tensor.row_size) {
      detail::raise(Error(model, std::string("input \"") + tensor.name + "\", row " + std::to_string(i),
                  std::to_string(tensor.row_size) + " elements", std::to_string(row.size())));
    }
    copy_row(row, tensor.row_size, to);
    to += tensor.row_size;
  }
}

/// Copy the rows that lie one after the other from `from` on to `rows`.
template <class Element>
void nest(const TensorInfo& tensor, std::size_t batch_size, const Element* from, Arrays<Element>& rows) {
  rows.resize(rows_at(tensor, batch_size));
  for (auto& row : rows) {
    row.assign(from, from + tensor.row_size);
    from += tensor.row_size;
  }
}

}  // namespace detail
}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_ARRAYS_H_
