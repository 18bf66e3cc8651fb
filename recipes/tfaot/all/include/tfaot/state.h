// tfaot/state.h: the variables of a model, which steps carry over.
#ifndef TFAOT_STATE_H_
#define TFAOT_STATE_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/abi.h>
#include <tfaot/aligned_bytes.h>
#include <tfaot/arguments.h>
#include <tfaot/error.h>
#include <tfaot/shared.h>
#include <tfaot/span.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// The state of the model whose generated class is `Compiled`: one object per stream of frames, training or thread.
///
///     const tfaot::Shared<tfaot_model::tracker> model;             // shared by all threads
///     tfaot::State<tfaot_model::tracker> state(model);             // trained values
///     for (...) {
///       const auto outputs = state.step({frame});                  // spans, valid until the next step
///     }
///     state.tensors().hidden[0] = 0;                               // each variable, by name
///     const std::vector<std::byte> bytes = state.save();
///
/// The model stays constant. A state serves one thread at a time; it can be moved, not copied. A step that fails leaves it as
/// it was.
template <class Compiled>
class State {
  static constexpr std::size_t kStates = std::tuple_size<typename Compiled::StateTypes>::value;
  static constexpr std::size_t kInputs = Compiled::step_inputs.size();
  static constexpr std::size_t kOutputs = Compiled::step_outputs.size();

 public:
  using Inputs = typename Compiled::StepInputs;    ///< spans of the inputs that are not variables, by name
  using Outputs = typename Compiled::StepOutputs;  ///< the same for the outputs
  using Tensors = typename Compiled::StateTensors; ///< spans of the variables, by name

  /// Starts with the trained values. `model` must outlive the state.
  explicit State(const Shared<Compiled>& model) : model_(&model) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < kStates; ++i) {
      offsets_[i] = size;
      size += padded(bytes_of(i));
    }
    memory_.reserve(2 * size + detail::kBufferAlignment, detail::kBufferAlignment);
    next_ = size;
    init();
  }

  /// Reset all variables to the trained values.
  void init() noexcept {
    for (std::size_t i = 0; i < kStates; ++i) std::memcpy(at(i), Compiled::table().info->states[i].initial, bytes_of(i));
  }

  /// The variables, readable and writable: dense, row-major. The spans stay valid as long as the state, even if it is moved.
  Tensors tensors() noexcept { return tensors(std::make_index_sequence<kStates>()); }

  /// Compute one step of `batch_size` rows, into buffers of the caller, and carry the state over. Throws Error.
  void step(std::size_t batch_size, const Inputs& inputs, const Outputs& outputs) {
    compute(batch_size, inputs, outputs, std::make_index_sequence<kInputs>(), std::make_index_sequence<kOutputs>(),
            std::make_index_sequence<kStates>());
    for (std::size_t i = 0; i < kStates; ++i) {
      if (Compiled::state[i].is_updated) std::memcpy(at(i), next(i), bytes_of(i));
    }
  }

  /// The same for one row, or for a model whose inputs have no batch axis.
  void step(const Inputs& inputs, const Outputs& outputs) { step(1, inputs, outputs); }

  /// The same into buffers of the state, which are valid until the next step.
  Outputs step(const Inputs& inputs) {
    const Outputs outputs = own_outputs(inputs, std::make_index_sequence<kOutputs>());
    step(1, inputs, outputs);
    return outputs;
  }

  /// The state as bytes: the same on every machine.
  std::vector<std::byte> save() const {
    std::vector<std::byte> bytes(Compiled::table().state_bytes());
    std::array<const void*, kStates> tensors{};
    for (std::size_t i = 0; i < kStates; ++i) tensors[i] = memory() + offsets_[i];
    char message[TFAOT_MESSAGE_SIZE] = "";
    check(Compiled::table().save_state(tensors.data(), bytes.data(), bytes.size(), message, sizeof message), message);
    return bytes;
  }

  /// Restore saved bytes of this version of the model, or of another one with the same variables. Throws Error for other
  /// bytes, and leaves the state as it was.
  void restore(span<const std::byte> bytes) {
    std::array<void*, kStates> tensors{};
    for (std::size_t i = 0; i < kStates; ++i) tensors[i] = at(i);
    char message[TFAOT_MESSAGE_SIZE] = "";
    check(Compiled::table().restore_state(bytes.data(), bytes.size(), tensors.data(), message, sizeof message), message);
  }

 private:
  template <std::size_t Index>
  using Type = std::tuple_element_t<Index, typename Compiled::StateTypes>;

  static constexpr std::size_t padded(std::size_t size) noexcept {
    return (size + detail::kBufferAlignment - 1) / detail::kBufferAlignment * detail::kBufferAlignment;
  }

  static std::size_t bytes_of(std::size_t i) noexcept {
    const tfaot_info& info = *Compiled::table().info;
    const tfaot_tensor& tensor = info.inputs[info.states[i].input];
    return static_cast<std::size_t>(tensor.row_elements) * static_cast<std::size_t>(tensor.element_size);
  }

  static void check(tfaot_status status, const char* message) {
    if (status != TFAOT_OK) detail::raise(Error(Compiled::name, detail::without_name(message, Compiled::name)));
  }

  std::byte* memory() const noexcept { return const_cast<detail::AlignedBytes&>(memory_).reserve(0, 1); }
  void* at(std::size_t i) noexcept { return memory() + offsets_[i]; }
  void* next(std::size_t i) noexcept { return memory() + next_ + offsets_[i]; }

  template <std::size_t Index>
  span<Type<Index>> values(void* place) noexcept {
    return {static_cast<Type<Index>*>(place), Compiled::state[Index].size};
  }

  template <std::size_t... Index>
  Tensors tensors(std::index_sequence<Index...>) noexcept {
    return Tensors{values<Index>(at(Index))...};
  }

  template <std::size_t... Index, std::size_t... OutIndex, std::size_t... StateIndex>
  void compute(std::size_t batch_size, [[maybe_unused]] const Inputs& inputs, [[maybe_unused]] const Outputs& outputs,
               std::index_sequence<Index...>, std::index_sequence<OutIndex...>, std::index_sequence<StateIndex...>) {
    typename Compiled::Outputs out{};
    ((out.template get<Compiled::step_outputs[OutIndex]>() = outputs.template get<OutIndex>()), ...);
    (bind_next<StateIndex>(out), ...);
    model_->run(batch_size, with_state(inputs, std::index_sequence<Index...>(), std::index_sequence<StateIndex...>()), out);
  }

  /// All inputs of the model.
  template <std::size_t... Index, std::size_t... StateIndex>
  typename Compiled::Inputs with_state([[maybe_unused]] const Inputs& inputs, std::index_sequence<Index...>,
                                std::index_sequence<StateIndex...>) noexcept {
    typename Compiled::Inputs in{};
    ((in.template get<Compiled::step_inputs[Index]>() = inputs.template get<Index>()), ...);
    ((in.template get<Compiled::state[StateIndex].input>() = values<StateIndex>(at(StateIndex))), ...);
    return in;
  }

  template <std::size_t StateIndex>
  void bind_next(typename Compiled::Outputs& out) {
    if constexpr (Compiled::state[StateIndex].is_updated) out.template get<Compiled::state[StateIndex].output>() = values<StateIndex>(next(StateIndex));
  }

  template <std::size_t... OutIndex>
  Outputs own_outputs(const Inputs& inputs, std::index_sequence<OutIndex...>) {
    const auto in = with_state(inputs, std::make_index_sequence<kInputs>(), std::make_index_sequence<kStates>());
    [[maybe_unused]] const auto tensors = detail::outputs_of<Compiled>(1, in);
    const std::array<std::size_t, kOutputs + 1> lengths{tensors[Compiled::step_outputs[OutIndex]].size_at(1)...};
    std::array<std::size_t, kOutputs + 1> offsets{};
    std::size_t size = 0;
    ((offsets[OutIndex] = size, size += padded(lengths[OutIndex] * sizeof(OutputType<OutIndex>))), ...);
    std::byte* const memory = outputs_.reserve(size + detail::kBufferAlignment, detail::kBufferAlignment);
    return Outputs{span<OutputType<OutIndex>>{reinterpret_cast<OutputType<OutIndex>*>(memory + offsets[OutIndex]), lengths[OutIndex]}...};
  }

  template <std::size_t OutIndex>
  using OutputType = std::tuple_element_t<Compiled::step_outputs[OutIndex], typename Compiled::OutputTypes>;

  const Shared<Compiled>* model_;
  detail::AlignedBytes memory_;   // the state, followed by the next one, which a step writes
  detail::AlignedBytes outputs_;  // of steps without buffers of the caller
  std::array<std::size_t, kStates> offsets_{};
  std::size_t next_ = 0;
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_STATE_H_
