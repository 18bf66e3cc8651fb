// tfaot/model.h: an instance of a compiled model, which serves one thread. <tfaot/shared.h> has one object for all threads,
// whose calls may take several; an instance adds nested vectors, batch rules and measured costs.
//
//     #include <tfaot/model.h>
//     #include <tfaot-model-digits/model.h>
//
//     tfaot::Model<tfaot_model::digits> model;                  // one per thread
//
//     // Contiguous buffers, by name: used in place if they are aligned.
//     model.run(batch_size, {pixels}, {digit, probability});    // into buffers of the caller
//     auto results = model.run(batch_size, {pixels});           // into buffers of the model: results.probability
//
//     // Nested vectors, in the order of the model's inputs and outputs.
//     auto [digits, probabilities] = model.run<tfaot::Int64Arrays, tfaot::FloatArrays>(batch_size, images);
#ifndef TFAOT_MODEL_H_
#define TFAOT_MODEL_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/aligned_bytes.h>
#include <tfaot/arguments.h>
#include <tfaot/arrays.h>
#include <tfaot/batching.h>
#include <tfaot/calibrate.h>
#include <tfaot/error.h>
#include <tfaot/instance.h>
#include <tfaot/tensor.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

// If an assertion fails, compilers print these classes with their arguments.
template <std::size_t Given, std::size_t Wanted>
struct NumberOfInputs {
  static_assert(Given == Wanted, "tfaot: this is not the number of the model's inputs");
  static constexpr bool fits = Given == Wanted;
};
template <std::size_t Given, std::size_t Wanted>
struct NumberOfOutputs {
  static_assert(Given == Wanted, "tfaot: this is not the number of the model's outputs");
  static constexpr bool fits = Given == Wanted;
};
template <std::size_t Index, class Given, class Wanted>
struct Input {
  static constexpr bool fits = std::is_same<Given, Wanted>::value;
  static_assert(!std::is_void<Given>::value, "tfaot: an input is not nested vectors, input[row][element]");
  static_assert(fits || std::is_void<Given>::value,
                "tfaot: an input has another element type than the model's input of this index");
};
template <std::size_t Index, class Given, class Wanted>
struct Output {
  static constexpr bool fits = std::is_same<Given, Wanted>::value;
  static_assert(!std::is_void<Given>::value, "tfaot: an output is not tfaot::Arrays, as tfaot::FloatArrays");
  static_assert(fits || std::is_void<Given>::value,
                "tfaot: an output has another element type than the model's output of this index");
};

/// The element type of Arrays; void for other types.
template <class Element>
struct ElementOfArrays {
  using type = void;
};
template <class Element>
struct ElementOfArrays<Arrays<Element>> {
  using type = Element;
};

/// Checks that arguments have the types of the model's tensors; otherwise compilation fails.
template <class Types, class Indices>
struct Arguments;
template <class... Types, std::size_t... Index>
struct Arguments<std::tuple<Types...>, std::index_sequence<Index...>> {
  template <class... Nested>
  static constexpr bool are_inputs() {
    if constexpr (NumberOfInputs<sizeof...(Nested), sizeof...(Types)>::fits) {
      return (Input<Index, typename NestedElement<Nested>::type, Types>::fits && ...);
    }
    return false;
  }
  template <class... Given>
  static constexpr bool are_outputs() {
    if constexpr (NumberOfOutputs<sizeof...(Given), sizeof...(Types)>::fits) {
      return (Output<Index, typename ElementOfArrays<Given>::type, Types>::fits && ...);
    }
    return false;
  }
};

template <class Indices>
struct ForEach;
template <std::size_t... Index>
struct ForEach<std::index_sequence<Index...>> {
  /// Call `f` with each index as a constant.
  template <class Function>
  static void call(Function&& f) {
    (f(std::integral_constant<std::size_t, Index>{}), ...);
  }
};

}  // namespace detail

/// An instance of the model whose generated class is `Compiled`. It serves one thread at a time; it can be moved, not copied.
///
/// Every `run` takes any number of rows: sizes that were compiled (all of them, if `any_batch_size()`) run in place, others
/// are composed of them, by the rules that were set or else as cheaply as possible. All of them throw Error. If rows of
/// the model depend on one another (`rows_independent()`), only compiled sizes run.
template <class Compiled>
class Model {
  using InputTypes = typename Compiled::InputTypes;
  using OutputTypes = typename Compiled::OutputTypes;
  static constexpr std::size_t kInputs = std::tuple_size<InputTypes>::value;
  static constexpr std::size_t kOutputs = std::tuple_size<OutputTypes>::value;
  using InputIndices = std::make_index_sequence<kInputs>;
  using OutputIndices = std::make_index_sequence<kOutputs>;
  using EachInput = detail::ForEach<InputIndices>;
  using EachOutput = detail::ForEach<OutputIndices>;
  using InputArguments = detail::Arguments<InputTypes, InputIndices>;
  using OutputArguments = detail::Arguments<OutputTypes, OutputIndices>;

 public:
  /// Spans of the inputs, by name; `inputs.template get<0>()` is the first.
  using Inputs = typename Compiled::Inputs;
  using Outputs = typename Compiled::Outputs;  ///< the same for the outputs
  /// \cond
  using GivenInputs = detail::Given<Inputs, kInputs>;
  using GivenOutputs = detail::Given<Outputs, kOutputs>;
  /// \endcond

  /// Runs the best code for this CPU. Throws Error if the CPU cannot run any of the targets.
  Model() = default;

  /// Runs the code of one target, such as "x86-64-v3".
  explicit Model(const char* target) : model_(target) {}

  /// The model's name.
  std::string name() const { return Compiled::name; }

  /// The target whose code runs.
  const char* target() const { return model_.target(); }

  /// Whether each row of the outputs depends only on the same row of the inputs: if not, only compiled batch sizes run.
  bool rows_independent() { return model_.instance().rows_independent(); }

  /// Whether the model is compiled for every number of rows from 1 on, so that without a rule no batch is composed.
  bool any_batch_size() { return model_.instance().any_batch_size(); }

  /// Bytes that this instance currently holds, without the object itself.
  std::size_t memory() const {
    std::size_t bytes = model_.memory();
    for (const detail::AlignedBytes& buffer : inputs_) bytes += buffer.size();
    for (const detail::AlignedBytes& buffer : outputs_) bytes += buffer.size();
    return bytes;
  }

  /// Compute `batch_size` rows, into buffers of the caller. Every buffer holds exactly so many rows.
  void run(detail::Rows batch_size, const Inputs& inputs, const Outputs& outputs) {
    run_on(model_, batch_size, inputs, outputs);
  }
  /// \cond
  template <class In = GivenInputs, class Out = GivenOutputs, class = detail::IfTensors<Inputs, In>,
            class = detail::IfTensors<Outputs, Out>>
  void run(std::size_t batch_size, const In& inputs, const Out& outputs) {
    run_on(model_, batch_size, inputs, outputs);
  }
  /// \endcond

  /// The same into buffers of this object: the result is valid until the next call of this overload, or of the one for
  /// nested vectors.
  template <int = 0>
  Outputs run(std::size_t batch_size, const Inputs& inputs) {
    const Use use(one_thread_, Compiled::name);
    check_inputs(batch_size, inputs);  // before memory for that many rows is allocated
    const Outputs outputs = reserve_outputs(batch_size);
    run_on(model_, batch_size, inputs, outputs);
    return outputs;
  }
  /// \cond
  Outputs run(std::size_t batch_size, const GivenInputs& inputs) {
    return run<0>(batch_size, static_cast<const Inputs&>(inputs));
  }
  /// \endcond

  /// The same on nested vectors, one per input, `input[row][element]`, in the order of `Compiled::inputs`. `Outputs` are the
  /// types of the results, in the order of `Compiled::outputs`. Rows beyond `batch_size` are ignored; a tensor without a batch
  /// axis is one row. As in CMSSW, the batch size has a rule afterwards, unless the rule would have more than 64 steps.
  template <class FirstOutput, class... MoreOutputs, class... NestedInputs>
  std::tuple<FirstOutput, MoreOutputs...> run(std::size_t batch_size, NestedInputs&&... nested) {
    std::tuple<FirstOutput, MoreOutputs...> results;
    constexpr bool inputs_fit = InputArguments::template are_inputs<std::decay_t<NestedInputs>...>();
    constexpr bool outputs_fit = OutputArguments::template are_outputs<FirstOutput, MoreOutputs...>();
    if constexpr (inputs_fit && outputs_fit) {
      const Use use(one_thread_, Compiled::name);
      [[maybe_unused]] const auto rows = std::forward_as_tuple(nested...);
      Inputs inputs;
      EachInput::call([&](auto index) {
        constexpr std::size_t i = index;
        using Element = std::tuple_element_t<i, InputTypes>;
        detail::check_rows(Compiled::name, Compiled::inputs[i], batch_size, std::get<i>(rows).size());
        const span<Element> buffer = reserve<Element>(inputs_[i], Compiled::inputs[i], batch_size);
        detail::flatten(Compiled::name, Compiled::inputs[i], batch_size, std::get<i>(rows), buffer.data());
        inputs.template get<i>() = buffer;
      });
      const Outputs outputs = reserve_outputs(batch_size);
      run_on(model_, batch_size, inputs, outputs);
      EachOutput::call([&](auto index) {
        constexpr std::size_t i = index;
        detail::nest(Compiled::outputs[i], batch_size, outputs.template get<i>().data(), std::get<i>(results));
      });
      remember_rule(batch_size);
    }
    return results;
  }

  /// Replace all batch rules. Throws Error if one names a size that was not compiled; nothing changes then.
  void setBatchStrategy(const BatchStrategy& strategy) {
    model_.instance().set_rules(strategy);
    rules_ = strategy;
  }

  /// The batch rules: those that were set, and those of sizes that ran on nested vectors.
  const BatchStrategy& getBatchStrategy() const noexcept { return model_.instance().rules(); }

  /// Compose `batchSize` of these sizes, with that many rows of padding in the last. Throws Error.
  void setBatchRule(std::size_t batchSize, const std::vector<std::size_t>& sizes, std::size_t lastPadding = 0) {
    set_rule(BatchRule(batchSize, sizes, lastPadding));
  }

  /// The same as text, "5:2,4". Throws Error.
  void setBatchRule(std::string_view rule) { set_rule(BatchRule(rule)); }

  /// Measure the cost of a run of each compiled size on this machine, and from now on compose sizes without a rule by these
  /// costs. It takes about `budget`, and at least five runs of every size. For a model for any batch size this does nothing,
  /// because its batches are not composed.
  void calibrate(std::chrono::nanoseconds budget = std::chrono::milliseconds(20)) {
    Instance& instance = model_.instance();
    if (instance.any_batch_size()) return;
    instance.planner().set_costs(measure_batch_costs(instance, budget));
    instance.set_rules(rules_);
  }

  /// How `batchSize` rows are composed.
  BatchRule batchRule(std::size_t batchSize) {
    Instance& instance = model_.instance();
    if (const BatchRule* const rule = instance.rules().find(batchSize)) return *rule;
    if (instance.is_compiled(batchSize)) return BatchRule(batchSize, {batchSize});
    instance.check_can_be_split(batchSize);
    return instance.planner().rule(batchSize);
  }

  /// The generated class.
  Compiled& compiled() noexcept { return model_; }

 private:
  using Use = detail::OneThread::Use;

  static constexpr std::size_t kLongestRemembered = 64;  // steps, so that rules of many batch sizes do not fill memory

  static void run_on(Compiled& model, std::size_t batch_size, const Inputs& inputs, const Outputs& outputs) {
    if constexpr (kInputs == 0) {
      model.run(batch_size, outputs);
    } else {
      model.run(batch_size, inputs, outputs);
    }
  }

  template <class Element>
  static span<Element> reserve(detail::AlignedBytes& buffer, const TensorInfo& tensor, std::size_t batch_size) {
    const std::size_t bytes = detail::buffer_bytes<Element>(Compiled::name, tensor, batch_size);
    return {reinterpret_cast<Element*>(buffer.reserve(bytes + 1, detail::kBufferAlignment)), bytes / sizeof(Element)};
  }

  Outputs reserve_outputs(std::size_t batch_size) {
    Outputs outputs;
    EachOutput::call([&](auto index) {
      constexpr std::size_t i = index;
      using Element = std::tuple_element_t<i, OutputTypes>;
      outputs.template get<i>() = reserve<Element>(outputs_[i], Compiled::outputs[i], batch_size);
    });
    return outputs;
  }

  static void check_inputs(std::size_t batch_size, const Inputs& inputs) {
    EachInput::call([&](auto i) { detail::input(Compiled::name, Compiled::inputs[i], batch_size, inputs.template get<i>()); });
  }

  void set_rule(const BatchRule& rule) {
    model_.instance().set_rule(rule);
    rules_.setRule(rule);
  }

  void remember_rule(std::size_t batch_size) {
    if (batch_size == 0 || getBatchStrategy().hasRule(batch_size)) return;
    const BatchRule rule = batchRule(batch_size);
    if (rule.nSizes() <= kLongestRemembered) model_.instance().set_rule(rule);
  }

  Compiled model_;
  BatchStrategy rules_;  // those that were set
  std::array<detail::AlignedBytes, kInputs> inputs_;
  std::array<detail::AlignedBytes, kOutputs> outputs_;
  detail::OneThread one_thread_;  // guards what this class adds to the instance
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_MODEL_H_
