// tfaot/dynamic.h: a model that is known only at run time, for example from dlopen. Tensors are passed by name; element
// types and sizes are checked.
//
//     auto* entry = reinterpret_cast<const tfaot_model_table* (*)()>(dlsym(library, TFAOT_ENTRY_POINT));
//     tfaot::DynamicModel model(*entry());
//     model.run(batch_size, {{"image", pixels}}, {{"digit", digit}, {"probability", probability}});
#ifndef TFAOT_DYNAMIC_H_
#define TFAOT_DYNAMIC_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/arguments.h>
#include <tfaot/error.h>
#include <tfaot/instance.h>
#include <tfaot/span.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// An input by name: a view of contiguous memory, which must stay valid during the call.
struct NamedInput {
  /// Any container with `data()` and `size()`.
  template <class Container>
  NamedInput(std::string_view tensor, const Container& buffer) : NamedInput(tensor, view(buffer.data(), buffer.size())) {}
  /// An array.
  template <class Element, std::size_t Count>
  NamedInput(std::string_view tensor, const Element (&buffer)[Count]) : NamedInput(tensor, view(buffer, Count)) {}
  /// A span.
  template <class Element>
  NamedInput(std::string_view tensor, span<const Element> buffer)
      : name(tensor), dtype(dtype_of<Element>), data(buffer.data()), size(buffer.size()) {}

  std::string_view name;  ///< which input
  DType dtype;            ///< of the buffer
  const void* data;       ///< first element
  std::size_t size;       ///< elements

 private:
  template <class Element>
  static span<const Element> view(const Element* data, std::size_t size) {
    return {data, size};
  }
};

/// The buffer of an output, by name.
struct NamedOutput {
  /// Any container with `data()` and `size()`, or an array.
  template <class Container>
  NamedOutput(std::string_view tensor, Container&& buffer) : NamedOutput(tensor, view(buffer)) {}
  /// A span.
  template <class Element>
  NamedOutput(std::string_view tensor, span<Element> buffer)
      : name(tensor), dtype(dtype_of<Element>), data(buffer.data()), size(buffer.size()) {}

  std::string_view name;  ///< which output
  DType dtype;            ///< of the buffer
  void* data;             ///< first element
  std::size_t size;       ///< elements

 private:
  template <class Element, std::size_t Count>
  static span<Element> view(Element (&buffer)[Count]) {
    return {buffer, Count};
  }
  template <class Container>
  static auto view(Container& buffer) -> span<std::remove_pointer_t<decltype(buffer.data())>> {
    return {buffer.data(), buffer.size()};
  }
};

/// An instance of a model that is unknown at compile time. It serves one thread at a time.
class DynamicModel {
 public:
  /// As `Instance`. Throws Error.
  explicit DynamicModel(const Table& table, const char* target = nullptr)
      : instance_(table, target), inputs_(info().num_inputs), outputs_(info().num_outputs) {}

  /// The model's description in the library.
  const tfaot_info& info() const noexcept { return instance_.info(); }

  /// Compute `batch_size` rows. Every input and every output is named once, in any order, with the model's element type
  /// and exactly that many rows. Throws Error, which states model, argument, and what was expected and given.
  void run(std::size_t batch_size, std::initializer_list<NamedInput> inputs,
           std::initializer_list<NamedOutput> outputs) {
    const detail::OneThread::Use use(one_thread_, info().name);
    take("input", info().inputs, inputs, batch_size, inputs_);
    take("output", info().outputs, outputs, batch_size, outputs_);
    instance_.run(batch_size, inputs_.data(), outputs_.data());
  }

  /// The interface without names: batch rules, costs.
  Instance& instance() noexcept { return instance_; }

 private:
  template <class Named, class Pointer>
  void take(const char* kind, const tfaot_tensor* tensors, std::initializer_list<Named> given, std::size_t batch_size,
            std::vector<Pointer>& pointers) {
    for (Pointer& pointer : pointers) pointer = nullptr;
    for (const Named& one : given) {
      const std::size_t i = index_of(kind, tensors, pointers.size(), one.name);
      const TensorInfo tensor{tensors[i].name, static_cast<DType>(tensors[i].dtype),
                              static_cast<std::size_t>(tensors[i].row_elements), tensors[i].has_batch_axis != 0};
      if (one.dtype != tensor.dtype) {
        detail::raise(Error(info().name, shown(kind, one.name), dtype_name(tensor.dtype), dtype_name(one.dtype)));
      }
      if (!detail::has_size(tensor, batch_size, one.size)) {
        detail::raise(detail::wrong_size(info().name, kind, tensor, batch_size, one.size));
      }
      if (pointers[i] != nullptr) detail::raise(Error(info().name, shown(kind, one.name), "once", "twice"));
      pointers[i] = one.size == 0 ? detail::no_elements() : one.data;
    }
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      if (pointers[i] == nullptr) detail::raise(Error(info().name, shown(kind, tensors[i].name), "a buffer", "none"));
    }
  }

  std::size_t index_of(const char* kind, const tfaot_tensor* tensors, std::size_t count, std::string_view name) const {
    std::string known;
    for (std::size_t i = 0; i < count; ++i) {
      if (name == tensors[i].name) return i;
    }
    for (std::size_t i = 0; i < count; ++i) known += (i == 0 ? "" : ", ") + std::string(tensors[i].name);
    detail::raise(Error(info().name, kind, "one of " + known, std::string(name)));
  }

  static std::string shown(const char* kind, std::string_view name) {
    return std::string(kind) + " \"" + std::string(name) + "\"";
  }

  Instance instance_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  detail::OneThread one_thread_;
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_DYNAMIC_H_
