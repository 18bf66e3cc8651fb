// tfaot/columns.h: a model as a function of columns, for event loops that pass one value of each column, such as ROOT's
// RDataFrame. It includes nothing of ROOT.
//
//     auto scored = frame.Define("score", tfaot::column<tfaot_model::tagger>(), {"pt", "eta"});
//
// and, for columns that hold one value for each jet of an event:
//
//     auto scored = frame.Define("scores", tfaot::column_of_rows<tfaot_model::tagger, ROOT::RVec>(), {"jet_pt", "jet_eta"});
#ifndef TFAOT_COLUMNS_H_
#define TFAOT_COLUMNS_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/error.h>
#include <tfaot/shared.h>
#include <tfaot/span.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// \cond
namespace detail {

template <class... Types>
struct TypeList {};

template <class Element, std::size_t>
using Each = Element;

template <class Element, std::size_t... Indices>
TypeList<Each<Element, Indices>...> repeated(std::index_sequence<Indices...>);

template <class... First>
TypeList<First...> joined(TypeList<First...>);
template <class... First, class... Second, class... More>
auto joined(TypeList<First...>, TypeList<Second...>, More... more) {
  return decltype(joined(TypeList<First..., Second...>{}, more...)){};
}

/// A model's inputs as columns: one for each element of a row, input after input.
template <class Compiled>
struct Columns {
  using InputTypes = typename Compiled::InputTypes;
  using OutputTypes = typename Compiled::OutputTypes;
  using Inputs = std::make_index_sequence<std::tuple_size<InputTypes>::value>;
  using Outputs = std::make_index_sequence<std::tuple_size<OutputTypes>::value>;

  template <std::size_t Output>
  using OutputType = std::tuple_element_t<Output, OutputTypes>;

  static constexpr bool are_numbers() {
    for (const TensorInfo& each : Compiled::inputs) {
      if (!each.has_batch_axis || each.row_size == 0) return false;
    }
    return Compiled::inputs.size() != 0;
  }

  /// The columns before those of the input.
  static constexpr std::size_t before(std::size_t input) {
    std::size_t count = 0;
    for (std::size_t each = 0; each < input; ++each) count += Compiled::inputs[each].row_size;
    return count;
  }

  template <std::size_t... Index>
  static auto types(std::index_sequence<Index...>) {
    return decltype(joined(repeated<std::tuple_element_t<Index, InputTypes>>(
        std::make_index_sequence<Compiled::inputs[Index].row_size>())...)){};
  }
  using Types = decltype(types(Inputs{}));

  template <std::size_t... Index>
  static std::tuple<std::array<std::tuple_element_t<Index, InputTypes>, Compiled::inputs[Index].row_size>...> input_row(
      std::index_sequence<Index...>);
  template <std::size_t... Index>
  static std::tuple<std::array<std::tuple_element_t<Index, OutputTypes>, Compiled::outputs[Index].row_size>...> output_row(
      std::index_sequence<Index...>);
  using InputRow = decltype(input_row(Inputs{}));
  using OutputRow = decltype(output_row(Outputs{}));
  template <std::size_t... Index>
  static std::tuple<std::unique_ptr<std::tuple_element_t<Index, InputTypes>[]>...> memory(std::index_sequence<Index...>);
  using Memory = decltype(memory(Inputs{}));

  /// Computes the row that has the values of the columns.
  template <class... Values>
  static OutputRow row(const Shared<Compiled>& model, const std::tuple<Values...>& values) {
    InputRow from;
    OutputRow into;
    run(model, values, from, into, Inputs{}, Outputs{});
    return into;
  }

 private:
  template <class Values, std::size_t... Input, std::size_t... Output>
  static void run(const Shared<Compiled>& model, const Values& values, InputRow& from, OutputRow& into,
                  std::index_sequence<Input...>, std::index_sequence<Output...>) {
    (fill<Input>(std::get<Input>(from), values, std::make_index_sequence<Compiled::inputs[Input].row_size>()), ...);
    typename Compiled::Inputs inputs;
    typename Compiled::Outputs outputs;
    ((inputs.template get<Input>() = {std::get<Input>(from).data(), std::get<Input>(from).size()}), ...);
    ((outputs.template get<Output>() = {std::get<Output>(into).data(), std::get<Output>(into).size()}), ...);
    model.run(1, inputs, outputs);
  }

  template <std::size_t Input, class Row, class Values, std::size_t... Element>
  static void fill(Row& row, const Values& values, std::index_sequence<Element...>) {
    ((row[Element] = std::get<before(Input) + Element>(values)), ...);
  }
};

/// `element`. Throws Error if a row of the output has none with that index.
template <class Compiled, std::size_t Output>
std::size_t element_of(std::size_t element) {
  const TensorInfo& output = Compiled::outputs[Output];
  if (element >= output.row_size) {
    raise(Error(Compiled::name, std::string("element of output \"") + output.name + "\"",
                "an index below " + std::to_string(output.row_size), std::to_string(element)));
  }
  return element;
}

template <class Compiled, std::size_t Output, class Types>
class NumberOfRow;

template <class Compiled, std::size_t Output, class... Values>
class NumberOfRow<Compiled, Output, TypeList<Values...>> {
 public:
  explicit NumberOfRow(std::size_t element)
      : model_(std::make_shared<const Shared<Compiled>>()), element_(element_of<Compiled, Output>(element)) {}

  typename Columns<Compiled>::template OutputType<Output> operator()(Values... values) const {
    return std::get<Output>(Columns<Compiled>::row(*model_, std::tie(values...)))[element_];
  }

 private:
  std::shared_ptr<const Shared<Compiled>> model_;  // event loops copy what they call
  std::size_t element_;
};

template <class Compiled, std::size_t Output, class Types>
class WholeRow;

template <class Compiled, std::size_t Output, class... Values>
class WholeRow<Compiled, Output, TypeList<Values...>> {
 public:
  WholeRow() : model_(std::make_shared<const Shared<Compiled>>()) {}

  std::vector<typename Columns<Compiled>::template OutputType<Output>> operator()(Values... values) const {
    const auto results = Columns<Compiled>::row(*model_, std::tie(values...));
    return {std::get<Output>(results).begin(), std::get<Output>(results).end()};
  }

 private:
  std::shared_ptr<const Shared<Compiled>> model_;
};

template <class Compiled, std::size_t Output, template <class...> class Vector, class Types>
class NumberOfRows;

template <class Compiled, std::size_t Output, template <class...> class Vector, class... Values>
class NumberOfRows<Compiled, Output, Vector, TypeList<Values...>> {
  using Made = Vector<typename Columns<Compiled>::template OutputType<Output>>;

 public:
  explicit NumberOfRows(std::size_t element)
      : model_(std::make_shared<const Shared<Compiled>>()), element_(element_of<Compiled, Output>(element)) {}

  Made operator()(const Vector<Values>&... columns) const {
    const std::size_t sizes[] = {columns.size()...};
    const std::size_t rows = sizes[0];
    for (std::size_t column = 1; column < sizeof...(Values); ++column) {
      if (sizes[column] != rows) {
        raise(Error(Compiled::name, "column " + std::to_string(column), std::to_string(rows) + " rows, as in column 0",
                    std::to_string(sizes[column])));
      }
    }
    if (rows == 0) return {};
    return run(rows, std::tie(columns...), typename Columns<Compiled>::Inputs{});
  }

 private:
  template <class Given, std::size_t... Input>
  Made run(std::size_t rows, const Given& columns, std::index_sequence<Input...>) const {
    typename Columns<Compiled>::Memory memory;
    typename Compiled::Inputs inputs;
    ((inputs.template get<Input>() =
          gather<Input>(std::get<Input>(memory), rows, columns,
                        std::make_index_sequence<Compiled::inputs[Input].row_size>())),
     ...);
    const auto results = model_->run(rows, inputs);
    const auto& output = results.template get<Output>();
    Made made(rows);
    for (std::size_t row = 0; row < rows; ++row) made[row] = output[row * Compiled::outputs[Output].row_size + element_];
    return made;
  }

  /// The rows of an input, of columns that lie apart.
  template <std::size_t Input, class Element, class Given, std::size_t... Index>
  static span<const Element> gather(std::unique_ptr<Element[]>& memory, std::size_t rows, const Given& columns,
                                    std::index_sequence<Index...>) {
    constexpr std::size_t kSize = sizeof...(Index);
    memory.reset(new Element[rows * kSize]);
    for (std::size_t row = 0; row < rows; ++row) {
      ((memory[row * kSize + Index] = std::get<Columns<Compiled>::before(Input) + Index>(columns)[row]), ...);
    }
    return {memory.get(), rows * kSize};
  }

  std::shared_ptr<const Shared<Compiled>> model_;
  std::size_t element_;
};

template <class Compiled>
constexpr void require_columns() {
  static_assert(Columns<Compiled>::are_numbers(), "a model of columns has inputs whose rows have a fixed number of elements");
}

}  // namespace detail
/// \endcond

/// The element of a row of the output with the index `Output`, as a function of columns: one for each element of a row of
/// the model's inputs, input after input, with its element type. Threads may share it and its copies, which have one model.
/// Throws Error, if there is no such element, or no code for this CPU; calls throw what Shared::run does.
template <class Compiled, std::size_t Output = 0>
auto column(std::size_t element) {
  detail::require_columns<Compiled>();
  return detail::NumberOfRow<Compiled, Output, typename detail::Columns<Compiled>::Types>(element);
}

/// The same with the whole row: a number if it has one element, otherwise a std::vector.
template <class Compiled, std::size_t Output = 0>
auto column() {
  detail::require_columns<Compiled>();
  if constexpr (Compiled::outputs[Output].row_size == 1) {
    return column<Compiled, Output>(0);
  } else {
    return detail::WholeRow<Compiled, Output, typename detail::Columns<Compiled>::Types>();
  }
}

/// The same for columns that are vectors, all of the same length: an element of the output for each of their rows, which are
/// computed in one call. `Vector` is a class template of containers, as ROOT::RVec.
template <class Compiled, template <class...> class Vector, std::size_t Output = 0>
auto column_of_rows(std::size_t element = 0) {
  detail::require_columns<Compiled>();
  static_assert(Compiled::rows_independent, "each row of the outputs must depend on the same row of the inputs only");
  return detail::NumberOfRows<Compiled, Output, Vector, typename detail::Columns<Compiled>::Types>(element);
}

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_COLUMNS_H_
