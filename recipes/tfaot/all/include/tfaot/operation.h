/// The arguments of an operation that the author of a model supplies: arrays of one row, and attributes.
///
/// Such an operation is a function, or a function template, of the operation's name. It takes its inputs and then its
/// outputs; a node with attributes passes these as the last argument:
///
///     #include "tfaot/operation.h"
///
///     void smooth(tfaot::operation::Input<float> x, tfaot::operation::Input<float> weights,
///                 tfaot::operation::Output<float> y, const tfaot::operation::Attributes& attributes = {}) {
///       const float slope = attributes.number("slope", 1.0);
///       for (std::int64_t i = 0; i < y.size(); ++i) y[i] = weights[i] * x[i] / (1 + slope * std::fabs(x[i]));
///     }
///
/// It computes one row: inputs with a batch axis are passed as one row, without that axis; other inputs, such as weights,
/// are passed whole. It writes each element of its outputs, and depends only on its inputs: it allocates no memory, keeps
/// nothing between calls, and neither throws nor makes system calls. Several threads may call it at the same time.
#ifndef TFAOT_OPERATION_H_
#define TFAOT_OPERATION_H_

#include <tfaot/version.h>

#include <cstddef>
#include <cstdint>

namespace tfaot {
inline namespace v1 {
namespace operation {

/// A row-major array. `Element` is const for inputs.
template <typename Element>
class Array {
 public:
  /// A view of `data`, with one of `sizes` for each of `rank` axes; both must outlive it.
  constexpr Array(Element* data, const std::int64_t* sizes, std::size_t rank) : data_(data), sizes_(sizes), rank_(rank) {}

  /// The first element; the others follow it.
  constexpr Element* data() const { return data_; }

  /// The number of axes.
  constexpr std::size_t rank() const { return rank_; }

  /// The number of elements.
  constexpr std::int64_t size() const {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis < rank_; ++axis) product *= sizes_[axis];
    return product;
  }

  /// The number of elements along an axis, which must be less than `rank()`.
  constexpr std::int64_t size(std::size_t axis) const { return sizes_[axis]; }

  /// The element at a place in memory, from 0 to `size() - 1`.
  constexpr Element& operator[](std::int64_t place) const { return data_[place]; }

  /// The element at an index with one number for each axis.
  template <typename... Index>
  constexpr Element& operator()(Index... index) const {
    const std::int64_t given[] = {static_cast<std::int64_t>(index)...};
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < sizeof...(index); ++axis) place = place * sizes_[axis] + given[axis];
    return data_[place];
  }

  /// The first element.
  constexpr Element* begin() const { return data_; }

  /// One past the last element.
  constexpr Element* end() const { return data_ + size(); }

 private:
  Element* data_;
  const std::int64_t* sizes_;
  std::size_t rank_;
};

template <typename Element>
using Input = Array<const Element>;

template <typename Element>
using Output = Array<Element>;

/// One attribute: `count` numbers; a scalar is one number.
struct Attribute {
  const char* name;      ///< as in the model
  const double* values;  ///< `count` of them
  std::size_t count;     ///< may be 0
};

/// The attributes of a node, which are numbers or lists of numbers.
class Attributes {
 public:
  /// The attributes of a node without any.
  constexpr Attributes() = default;

  /// Views of `count` attributes, which must outlive this one.
  constexpr Attributes(const Attribute* first, std::size_t count) : first_(first), count_(count) {}

  /// An attribute by its name; null if the node does not have it.
  constexpr const Attribute* find(const char* name) const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (isSame(first_[i].name, name)) return first_ + i;
    }
    return nullptr;
  }

  /// The first number of an attribute; `otherwise` if the node does not have it.
  constexpr double number(const char* name, double otherwise) const {
    const Attribute* const found = find(name);
    return found != nullptr && found->count > 0 ? found->values[0] : otherwise;
  }

  /// The same as an integer.
  constexpr std::int64_t integer(const char* name, std::int64_t otherwise) const {
    return static_cast<std::int64_t>(number(name, static_cast<double>(otherwise)));
  }

 private:
  static constexpr bool isSame(const char* one, const char* two) {
    while (*one != '\0' && *one == *two) {
      ++one;
      ++two;
    }
    return *one == *two;
  }

  const Attribute* first_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace operation
}  // namespace v1
}  // namespace tfaot

#endif  // TFAOT_OPERATION_H_
