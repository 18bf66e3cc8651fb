// tfaot/arguments.h: checks the sizes of a call's typed buffers, and gives untyped pointers for the C ABI.
#ifndef TFAOT_ARGUMENTS_H_
#define TFAOT_ARGUMENTS_H_

#include <cstddef>
#include <limits>
#include <string>

#include <tfaot/error.h>
#include <tfaot/span.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace v2 {
namespace detail {

/// The alignment of these headers' own buffers, in bytes. No target needs more.
constexpr std::size_t kBufferAlignment = 64;

/// The address that stands for a tensor without elements, because the C ABI takes no null pointers.
inline void* no_elements() noexcept {
  alignas(kBufferAlignment) static unsigned char nothing[kBufferAlignment];
  return nothing;
}

/// Whether `size` is `tensor.size_at(batch_size)`, without overflow at any batch size.
constexpr bool has_size(const TensorInfo& tensor, std::size_t batch_size, std::size_t size) noexcept {
  if (!tensor.has_batch_axis || tensor.row_size == 0) return size == tensor.row_size;
  return size % tensor.row_size == 0 && size / tensor.row_size == batch_size;
}

[[noreturn]] inline void throw_too_many_rows(const char* model, std::size_t batch_size) {
  throw Error(model, "batch size", "a number of rows that fits into memory", std::to_string(batch_size));
}

/// Bytes of `batch_size` rows of elements `T`. Throws Error if the number is too large for any memory.
template <class T>
std::size_t buffer_bytes(const char* model, const TensorInfo& tensor, std::size_t batch_size) {
  const std::size_t row = tensor.row_size * sizeof(T);
  if (tensor.has_batch_axis && row != 0 && batch_size > std::numeric_limits<std::size_t>::max() / 2 / row) {
    throw_too_many_rows(model, batch_size);
  }
  return tensor.size_at(batch_size) * sizeof(T);
}

[[noreturn]] inline void throw_wrong_size(const char* model, const char* kind, const TensorInfo& tensor,
                                          std::size_t batch_size, std::size_t got) {
  const std::string rows = std::to_string(batch_size) + (batch_size == 1 ? " row" : " rows") + " of " +
                           std::to_string(tensor.row_size);
  const std::size_t elements = tensor.size_at(batch_size);
  std::string expected = std::to_string(elements) + " elements";
  if (tensor.has_batch_axis) expected += " (" + rows + ")";
  if (!has_size(tensor, batch_size, elements)) expected = rows;  // more elements than can be counted
  throw Error(model, std::string(kind) + " \"" + tensor.name + "\"", expected, std::to_string(got));
}

/// The pointer to pass to the C ABI. Throws Error unless the buffer has exactly the elements of `batch_size` rows.
template <class T>
const void* input(const char* model, const TensorInfo& tensor, std::size_t batch_size, span<const T> buffer) {
  if (!has_size(tensor, batch_size, buffer.size())) {
    throw_wrong_size(model, "input", tensor, batch_size, buffer.size());
  }
  return buffer.empty() ? no_elements() : buffer.data();
}

/// The same for an output.
template <class T>
void* output(const char* model, const TensorInfo& tensor, std::size_t batch_size, span<T> buffer) {
  if (!has_size(tensor, batch_size, buffer.size())) {
    throw_wrong_size(model, "output", tensor, batch_size, buffer.size());
  }
  return buffer.empty() ? no_elements() : buffer.data();
}

}  // namespace detail
}  // namespace v2
}  // namespace tfaot

#endif  // TFAOT_ARGUMENTS_H_
