// tfaot/span.h: a view of contiguous elements. It is the same type in C++17 and C++20, so that objects of both can be
// linked together.
#ifndef TFAOT_SPAN_H_
#define TFAOT_SPAN_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include <tfaot/macros_on.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// A pointer and a number of elements, which it does not own. Made from any container with `data()` and `size()`
/// (std::vector, std::array, std::span ...) or from an array, implicitly.
template <class Element>
class span {
  // For a temporary, data() of a constant is taken: writes to a temporary container would be lost with it, unlike writes
  // through a temporary view.
  template <class Container>
  using DataOf =
      decltype(std::declval<std::conditional_t<std::is_lvalue_reference<Container>::value, Container, const Container&>>().data());

  // A conversion of U[] to T[] can only add const, never change the element type.
  template <class Other>
  using IfCompatible = std::enable_if_t<std::is_convertible<std::remove_pointer_t<Other> (*)[], Element (*)[]>::value>;

  template <class Container, class = void>
  struct IsCompatible : std::false_type {};
  template <class Container>
  struct IsCompatible<Container, std::void_t<DataOf<Container>, IfCompatible<DataOf<Container>>>> : std::true_type {};

 public:
  using element_type = Element;  ///< with const, if elements cannot be written
  using value_type = std::remove_cv_t<Element>;  ///< without const

  /// No elements.
  constexpr span() noexcept = default;
  /// `size` elements from `data` on.
  constexpr span(Element* data, std::size_t size) noexcept : data_(data), size_(size) {}

  /// All elements of an array.
  template <std::size_t Count>
  constexpr span(Element (&array)[Count]) noexcept : data_(array), size_(Count) {}

  /// All elements of a container.
  template <class Container, class = IfCompatible<DataOf<Container>>, class = decltype(std::declval<Container&>().size())>
  constexpr span(Container&& container) noexcept : data_(container.data()), size_(container.size()) {}

  /// For a container of another element type, compilation fails with a message that names both types. Without this
  /// constructor compilers would only say that nothing matches a list in braces.
  template <class Given, class = std::enable_if_t<!IsCompatible<Given>::value>,
            class = decltype(std::declval<Given&>().size()), class = void>
  constexpr span(Given&&) {
    static_assert(IsCompatible<Given>::value,
                  "tfaot: a buffer has another element type than the tensor, or is an output that cannot be written");
  }

  /// The first element.
  constexpr Element* data() const noexcept { return data_; }
  /// Number of elements.
  constexpr std::size_t size() const noexcept { return size_; }
  /// Whether there are none.
  constexpr bool empty() const noexcept { return size_ == 0; }
  /// The element at that index, which is not checked.
  constexpr Element& operator[](std::size_t index) const noexcept { return data_[index]; }
  /// The first element.
  constexpr Element* begin() const noexcept { return data_; }
  /// One past the last element.
  constexpr Element* end() const noexcept { return data_ + size_; }

  /// `count` elements from `offset` on; neither is checked.
  constexpr span subspan(std::size_t offset, std::size_t count) const noexcept { return {data_ + offset, count}; }

 private:
  Element* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_SPAN_H_
