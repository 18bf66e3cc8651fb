// tfaot/sizes.h: the sizes of symbols (tfaot_symbol) in a call, derived from the lengths of its buffers.
#ifndef TFAOT_SIZES_H_
#define TFAOT_SIZES_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tfaot/macros_on.h>

#include <tfaot/abi.h>
#include <tfaot/error.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

/// The number of symbols of the model whose generated class is `Compiled`; classes of models without symbols have no `symbols`.
template <class Compiled, class = void>
inline constexpr std::size_t number_of_symbols = 0;
template <class Compiled>
inline constexpr std::size_t number_of_symbols<Compiled, std::void_t<decltype(Compiled::symbols)>> = Compiled::symbols.size();

/// The number of the symbol of an axis, or -1.
inline std::int32_t symbol_of(const std::int32_t* axes, std::int32_t axis) noexcept {
  return axes == nullptr ? -1 : axes[axis];
}

/// The terms of the axes of an output with computed sizes; null if it has none. Older libraries end before the field.
inline const tfaot_term* terms_of(const tfaot_info& info, std::size_t output) noexcept {
  constexpr std::size_t known = offsetof(tfaot_info, output_terms) + sizeof info.output_terms;
  return info.struct_size < known || info.output_terms == nullptr ? nullptr : info.output_terms[output];
}

/// The size of an axis: that in the shape, unless `terms` compute it.
inline std::size_t size_of_axis(const tfaot_tensor& tensor, std::int32_t axis, const tfaot_term* terms,
                                const std::size_t* sizes) noexcept {
  std::int64_t sum = 0;
  bool is_computed = false;
  for (; terms != nullptr && terms->axis >= 0; ++terms) {
    if (terms->axis != axis) continue;
    std::int64_t product = terms->factor;
    for (std::int32_t i = 0; i < terms->num_symbols; ++i) product *= static_cast<std::int64_t>(sizes[terms->symbols[i]]);
    sum += product;
    is_computed = true;
  }
  return static_cast<std::size_t>(is_computed ? sum : tensor.shape[axis]);
}

/// Elements of a row at `sizes`. Sizes of 0 are unknown, and count as 1.
inline std::size_t row_size(const tfaot_tensor& tensor, const std::int32_t* axes, const std::size_t* sizes,
                            const tfaot_term* terms = nullptr) noexcept {
  std::size_t elements = 1;
  for (std::int32_t axis = tensor.has_batch_axis; axis < tensor.rank; ++axis) {
    const std::int32_t symbol = symbol_of(axes, axis);
    const std::size_t size = symbol < 0 ? size_of_axis(tensor, axis, terms, sizes) : sizes[symbol];
    elements *= symbol >= 0 && size == 0 ? 1 : size;
  }
  return elements;
}

/// The description of `tensor` at `sizes`; `terms` are those of an output.
inline TensorInfo at_sizes(const TensorInfo& known, const tfaot_tensor& tensor, const std::int32_t* axes,
                           const std::size_t* sizes, const tfaot_term* terms = nullptr) noexcept {
  TensorInfo made = known;
  made.row_size = row_size(tensor, axes, sizes, terms);
  return made;
}

/// The symbol of the only axis of an input whose size is unknown (0 in `sizes`); -1 if there is no or more than one such
/// axis.
inline std::int32_t missing_symbol(const tfaot_tensor& tensor, const std::int32_t* axes, const std::size_t* sizes) noexcept {
  std::int32_t found = -1;
  for (std::int32_t axis = tensor.has_batch_axis; axis < tensor.rank; ++axis) {
    const std::int32_t symbol = symbol_of(axes, axis);
    if (symbol < 0 || sizes[symbol] != 0) continue;
    if (found >= 0) return -1;
    found = symbol;
  }
  return found;
}

/// Which size is not in the range of its symbol, if one is not.
inline Outcome sizes_outcome(const tfaot_info& info, const std::size_t* sizes) {
  for (std::size_t i = 0; i < info.num_symbols; ++i) {
    const tfaot_symbol& symbol = info.symbols[i];
    if (sizes[i] >= symbol.minimum && sizes[i] <= symbol.maximum) continue;
    return Error(info.name, std::string("size ") + symbol.name,
                 std::to_string(symbol.minimum) + " to " + std::to_string(symbol.maximum), std::to_string(sizes[i]));
  }
  return {};
}

/// Derives the sizes of all symbols from the `lengths` of the inputs, in elements. Fails if they are out of range, or do not
/// follow from the inputs, for example because the only input has two axes with symbols.
template <std::size_t Count>
Outcome derive_sizes(const tfaot_info& info, std::size_t batch_size, const std::size_t* lengths,
                    std::array<std::size_t, Count>* derived) {
  std::array<std::size_t, Count>& sizes = *derived;
  sizes = {};
  for (std::size_t pass = 0; pass < Count; ++pass) {
    for (std::size_t i = 0; i < info.num_inputs; ++i) {
      const tfaot_tensor& tensor = info.inputs[i];
      const std::int32_t symbol = missing_symbol(tensor, info.input_axes[i], sizes.data());
      if (symbol < 0) continue;
      const std::size_t rest = row_size(tensor, info.input_axes[i], sizes.data());
      const std::size_t rows = tensor.has_batch_axis ? batch_size : 1;
      // A batch without rows fits any size. A length that is not a multiple is reported when the input's length is checked.
      sizes[static_cast<std::size_t>(symbol)] =
          rows == 0 || rest == 0 ? info.symbols[symbol].maximum : lengths[i] / rest / rows;
      if (sizes[static_cast<std::size_t>(symbol)] == 0) return sizes_outcome(info, sizes.data());
    }
  }
  for (std::size_t i = 0; i < Count; ++i) {
    if (sizes[i] != 0) continue;
    return Error(info.name,
                 std::string("size ") + info.symbols[i].name + " does not follow from an input: give all sizes");
  }
  return sizes_outcome(info, sizes.data());
}

/// The same sizes. Throws Error.
template <std::size_t Count>
std::array<std::size_t, Count> sizes_of(const tfaot_info& info, std::size_t batch_size, const std::size_t* lengths) {
  std::array<std::size_t, Count> sizes{};
  require(derive_sizes(info, batch_size, lengths, &sizes));
  return sizes;
}

/// Throws Error if a size is not in the range of its symbol.
inline void check_sizes(const tfaot_info& info, const std::size_t* sizes) { require(sizes_outcome(info, sizes)); }

}  // namespace detail
}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_SIZES_H_
