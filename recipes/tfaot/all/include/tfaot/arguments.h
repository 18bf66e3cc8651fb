// tfaot/arguments.h: checks the sizes of a call's typed buffers, and gives untyped pointers for the C ABI.
#ifndef TFAOT_ARGUMENTS_H_
#define TFAOT_ARGUMENTS_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <tfaot/macros_on.h>

#include <tfaot/error.h>
#include <tfaot/span.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
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

inline Error too_many_rows(const char* model, std::size_t batch_size) {
  return Error(model, "batch size", "a number of rows that fits into memory", std::to_string(batch_size));
}

/// Whether the bytes of `batch_size` rows of elements `Element` can be counted.
template <class Element>
constexpr bool fits_memory(const TensorInfo& tensor, std::size_t batch_size) noexcept {
  const std::size_t row = tensor.row_size * sizeof(Element);
  return !tensor.has_batch_axis || row == 0 || batch_size <= (std::numeric_limits<std::size_t>::max)() / 2 / row;
}

/// Bytes of `batch_size` rows of elements `Element`. Throws Error if the number is too large for any memory.
template <class Element>
std::size_t buffer_bytes(const char* model, const TensorInfo& tensor, std::size_t batch_size) {
  if (!fits_memory<Element>(tensor, batch_size)) raise(too_many_rows(model, batch_size));
  return tensor.size_at(batch_size) * sizeof(Element);
}

inline Error wrong_size(const char* model, const char* kind, const TensorInfo& tensor, std::size_t batch_size,
                        std::size_t got) {
  const std::string rows = std::to_string(batch_size) + (batch_size == 1 ? " row" : " rows") + " of " +
                           std::to_string(tensor.row_size);
  const std::size_t elements = tensor.size_at(batch_size);
  std::string expected = std::to_string(elements) + " elements";
  if (tensor.has_batch_axis) expected += " (" + rows + ")";
  if (!has_size(tensor, batch_size, elements)) expected = rows;  // more elements than can be counted
  return Error(model, std::string(kind) + " \"" + tensor.name + "\"", expected, std::to_string(got));
}

template <class Buffer>
inline constexpr bool is_buffer = std::is_class<Buffer>::value || std::is_array<Buffer>::value;

/// `Tensors` (the inputs or outputs of a call) that are given in braces. A wrong number of them does not compile, which
/// aggregates would accept: the rest would be empty.
///
/// A function of inputs and outputs is a template of their types, with Given as the default: compilers take that for
/// braces, from which they deduce nothing, and the type itself for objects, which IfTensors checks. Beside it stands a
/// function that takes Rows and `Tensors`, for designated initializers: they make aggregates only. A function of inputs
/// alone takes Given, beside a template that takes `Tensors`: compilers prefer the former for braces.
template <class Tensors, std::size_t Count>
class Given {
 public:
  // Only containers and arrays: Clang passes designated initializers here, too, as references to void. And none for a
  // model without inputs, whose calls have outputs in this place.
  template <class... Buffers, class = std::enable_if_t<(is_buffer<std::remove_reference_t<Buffers>> && ...) &&
                                                       (Count != 0 || sizeof...(Buffers) == 0)>>
  constexpr Given(Buffers&&... buffers) : tensors_(made(std::forward<Buffers>(buffers)...)) {}  // NOLINT: for braces

  constexpr operator const Tensors&() const noexcept { return tensors_; }  // NOLINT

 private:
  template <class... Buffers>
  static constexpr Tensors made(Buffers&&... buffers) {
    static_assert(sizeof...(Buffers) == Count, "tfaot: give as many buffers as the model has inputs, or outputs");
    if constexpr (sizeof...(Buffers) == Count) {
      return Tensors{std::forward<Buffers>(buffers)...};
    } else {
      return Tensors{};
    }
  }

  Tensors tensors_;
};

/// Only for arguments that are `Tensors` or become them.
template <class Tensors, class Argument>
using IfTensors = std::enable_if_t<std::is_convertible<const Argument&, const Tensors&>::value>;

/// A number of rows. Compilers prefer functions that take std::size_t instead.
class Rows {
 public:
  template <class Number, class = std::enable_if_t<std::is_convertible<Number, std::size_t>::value>>
  constexpr Rows(Number number) noexcept : number_(static_cast<std::size_t>(number)) {}  // NOLINT
  constexpr operator std::size_t() const noexcept { return number_; }  // NOLINT

 private:
  std::size_t number_;
};

/// A span that `{}` does not make: an argument which is left out is an error of the compiler.
template <class Element>
class Buffer : public span<Element> {
 public:
  constexpr Buffer(Element* data, std::size_t size) noexcept : span<Element>(data, size) {}
  template <class Given, class = std::enable_if_t<std::is_convertible<Given&&, span<Element>>::value>>
  constexpr Buffer(Given&& given) : span<Element>(std::forward<Given>(given)) {}  // NOLINT: as for span
};

/// The pointer to pass to the C ABI: not null, also for a buffer without elements.
template <class Element>
const void* pointer(span<const Element> buffer) noexcept {
  return buffer.empty() ? no_elements() : buffer.data();
}

/// The same for an output.
template <class Element>
void* pointer(span<Element> buffer) noexcept {
  return buffer.empty() ? no_elements() : buffer.data();
}

/// The pointer to an input. Throws Error unless the buffer has exactly the elements of `batch_size` rows.
template <class Element>
const void* input(const char* model, const TensorInfo& tensor, std::size_t batch_size, span<const Element> buffer) {
  if (!has_size(tensor, batch_size, buffer.size())) {
    raise(wrong_size(model, "input", tensor, batch_size, buffer.size()));
  }
  return pointer(buffer);
}

/// The same for an output.
template <class Element>
void* output(const char* model, const TensorInfo& tensor, std::size_t batch_size, span<Element> buffer) {
  if (!has_size(tensor, batch_size, buffer.size())) {
    raise(wrong_size(model, "output", tensor, batch_size, buffer.size()));
  }
  return pointer(buffer);
}

}  // namespace detail
}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_ARGUMENTS_H_
