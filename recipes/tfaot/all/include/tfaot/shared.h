// tfaot/shared.h: a compiled model, ready to use: one constant object for all threads.
//
//     #include <tfaot/shared.h>
//     #include <tfaot-model-digits/model.h>
//
//     const tfaot::Shared<tfaot_model::digits> model;
//     const auto results = model.run(batch_size, {pixels});       // results.probability
#ifndef TFAOT_SHARED_H_
#define TFAOT_SHARED_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tfaot/abi.h>
#include <tfaot/aligned_bytes.h>
#include <tfaot/arguments.h>
#include <tfaot/batching.h>
#include <tfaot/error.h>
#include <tfaot/instance.h>
#include <tfaot/parts.h>
#include <tfaot/sizes.h>
#include <tfaot/span.h>

namespace tfaot {
inline namespace v2 {

namespace detail {

/// Scratch memory of this thread, until the end of a call. A thread has one block for all models, which grows to the
/// largest size that they need; it is freed when the thread ends.
class ThreadScratch {
 public:
  explicit ThreadScratch(std::size_t size) {
    Own& own = of_this_thread();
    nested_ = own.busy;  // this thread is already in a call
    bytes_ = {(nested_ ? other_ : own.memory).reserve(size, TFAOT_SCRATCH_ALIGNMENT), size};
    own.busy = true;
  }
  ThreadScratch(const ThreadScratch&) = delete;
  ThreadScratch& operator=(const ThreadScratch&) = delete;
  ~ThreadScratch() { of_this_thread().busy = nested_; }

  span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  struct Own {
    AlignedBytes memory;
    bool busy = false;
  };
  static Own& of_this_thread() {
    thread_local Own own;
    return own;
  }

  bool nested_;
  AlignedBytes other_;
  span<std::byte> bytes_;
};

}  // namespace detail

/// The code of a model for one target, without types: pointers in, pointers out. It is constant: any number of threads may
/// call it at a time. This class adds to the C ABI: exceptions, and batches of any size.
class Code {
 public:
  /// The code of `target` ("x86-64-v3"), or the best one for this CPU if it is null. Throws Error: the CPU lacks what the
  /// lowest target needs, no such target, the library is too old to have one object for all threads.
  explicit Code(const Table& table, const char* target = nullptr)
      : table_(&table),
        code_(selected(table, target)),
        planner_(detail::compiled_sizes(table), detail::batch_costs(table, this->target())) {
    if (detail::any_batch_size(info()) || !detail::can_be_split(info())) return;
    planner_.complete();
    const std::size_t largest = planner_.sizes().back();
    for (const std::size_t size : planner_.sizes()) parts_at_ = std::max(parts_at_, own_bytes(size));
    parts_at_ = aligned(parts_at_);
    pointers_at_ = parts_at_ + aligned(detail::Parts::padded_bytes(info(), largest));
    composed_bytes_ = pointers_at_ + aligned((info().num_inputs + info().num_outputs) * sizeof(void*));
  }

  /// The model's description in the library.
  const tfaot_info& info() const noexcept { return *table_->info; }

  /// The target whose code runs.
  const char* target() const noexcept { return table_->code_target(code_); }

  /// Bytes of scratch memory that a call of `run` with `batch_size` rows needs, wherever buffers lie: a multiple of
  /// TFAOT_SCRATCH_ALIGNMENT. Throws Error if there is no such batch.
  std::size_t scratch_bytes(std::size_t batch_size) const {
    if (!detail::is_compiled(info(), batch_size)) {
      detail::check_can_be_split(info(), batch_size);
      return std::max(composed_bytes_, std::size_t{TFAOT_SCRATCH_ALIGNMENT});
    }
    const std::size_t bytes = own_bytes(batch_size);
    if (bytes == 0) {
      detail::throw_too_many_rows(info().name, batch_size);
    }
    return bytes;
  }

  /// Compute `batch_size` rows: one pointer per tensor, in the order of `info()`, none null. `scratch` has at least
  /// `scratch_bytes(batch_size)` bytes, aligned to TFAOT_SCRATCH_ALIGNMENT, for this call alone; nothing is allocated.
  /// Sizes that were not compiled are composed as cheaply as possible of those that were. Throws Error.
  void run(std::size_t batch_size, const void* const* inputs, void* const* outputs, span<std::byte> scratch) const {
    if (detail::is_compiled(info(), batch_size)) {
      compute(batch_size, inputs, outputs, scratch);
      return;
    }
    check_scratch(scratch_bytes(batch_size), scratch);
    const auto in = reinterpret_cast<const void**>(scratch.data() + pointers_at_);
    const auto out = reinterpret_cast<void**>(scratch.data() + pointers_at_) + info().num_inputs;
    const detail::Parts parts(info(), in, out, scratch.data() + parts_at_);
    for (std::size_t done = 0; done < batch_size;) {
      const BatchStep step = planner_.planned(batch_size - done);
      parts.run(done, step, inputs, outputs,
                [&](std::size_t size, const void* const* part_inputs, void* const* part_outputs) {
                  compute(size, part_inputs, part_outputs, scratch);
                });
      done += step.size - step.padding;
    }
  }

  /// The same with arrays at `sizes` of the model's symbols, in the order of `info()`. `scratch_bytes` is enough for all
  /// sizes.
  void run(std::size_t batch_size, const std::size_t* sizes, const void* const* inputs, void* const* outputs,
           span<std::byte> scratch) const {
    check_scratch(scratch_bytes(batch_size), scratch);
    char message[TFAOT_MESSAGE_SIZE] = "";
    const tfaot_status status = table_->compute_sized(code_, static_cast<std::int64_t>(batch_size), sizes, inputs, outputs,
                                                      scratch.data(), scratch.size(), message, sizeof message);
    if (status != TFAOT_OK) throw Error(info().name, detail::without_name(message, info().name));
  }

  /// The same in scratch memory of the thread, which is allocated at its first call and at its first call of a larger
  /// batch.
  void run(std::size_t batch_size, const std::size_t* sizes, const void* const* inputs, void* const* outputs) const {
    const detail::ThreadScratch scratch(scratch_bytes(batch_size));
    run(batch_size, sizes, inputs, outputs, scratch.bytes());
  }

  /// The same with the maximum sizes of all symbols.
  void run(std::size_t batch_size, const void* const* inputs, void* const* outputs) const {
    const detail::ThreadScratch scratch(scratch_bytes(batch_size));
    run(batch_size, inputs, outputs, scratch.bytes());
  }

 private:
  static const tfaot_code* selected(const Table& table, const char* target) {
    if (!TFAOT_HAS(&table, compute)) {
      throw Error(table.info->name,
                  "its library is of a version without one object for all threads: build it again, or use tfaot::Model, "
                  "one per thread");
    }
    const tfaot_code* code = nullptr;
    char message[TFAOT_MESSAGE_SIZE] = "";
    if (table.select(target, &code, message, sizeof message) != TFAOT_OK) {
      throw Error(table.info->name, detail::without_name(message, table.info->name));
    }
    return code;
  }

  static std::size_t aligned(std::size_t bytes) noexcept {
    return (bytes + TFAOT_SCRATCH_ALIGNMENT - 1) / TFAOT_SCRATCH_ALIGNMENT * TFAOT_SCRATCH_ALIGNMENT;
  }

  std::size_t own_bytes(std::size_t batch_size) const {
    return table_->scratch_bytes(code_, static_cast<std::int64_t>(batch_size));
  }

  void check_scratch(std::size_t needed, span<std::byte> scratch) const {
    if (scratch.size() < needed) {
      throw Error(info().name, "scratch memory", "at least " + std::to_string(needed) + " bytes",
                  std::to_string(scratch.size()));
    }
    if (reinterpret_cast<std::uintptr_t>(scratch.data()) % TFAOT_SCRATCH_ALIGNMENT != 0) {
      throw Error(info().name, "scratch memory", "an address that is a multiple of " + std::to_string(TFAOT_SCRATCH_ALIGNMENT),
                  "another one");
    }
  }

  void compute(std::size_t batch_size, const void* const* inputs, void* const* outputs, span<std::byte> scratch) const {
    // The library takes null to mean its own memory, so it would not reject a size that is too small.
    if (scratch.data() == nullptr) check_scratch(scratch_bytes(batch_size), scratch);
    char message[TFAOT_MESSAGE_SIZE] = "";
    const tfaot_status status = table_->compute(code_, static_cast<std::int64_t>(batch_size), inputs, outputs,
                                                scratch.data(), scratch.size(), message, sizeof message);
    if (status != TFAOT_OK) throw Error(info().name, detail::without_name(message, info().name));
  }

  const Table* table_;
  const tfaot_code* code_;
  BatchPlanner planner_;  // for composed batches
  // Their scratch memory: that of single calls, padded rows, pointers of a call.
  std::size_t parts_at_ = 0;
  std::size_t pointers_at_ = 0;
  std::size_t composed_bytes_ = 0;
};

namespace detail {

template <class W, std::size_t... I, std::size_t... O>
std::array<TensorInfo, sizeof...(O)> outputs_of(std::size_t batch_size, [[maybe_unused]] const typename W::Inputs& inputs,
                                                std::index_sequence<I...>, std::index_sequence<O...>) {
  if constexpr (number_of_symbols<W> != 0) {
    const tfaot_info& info = *W::table().info;
    const std::array<std::size_t, sizeof...(I)> lengths{inputs.template get<I>().size()...};
    const auto sizes = sizes_of<number_of_symbols<W>>(info, batch_size, lengths.data());
    return {at_sizes(W::outputs[O], info.outputs[O], info.output_axes[O], sizes.data())...};
  } else {
    // Before memory for that many rows is allocated.
    (static_cast<void>(input(W::name, W::inputs[I], batch_size, inputs.template get<I>())), ...);
    return W::outputs;
  }
}

/// The outputs' sizes in a call. Throws Error if an input has a wrong size.
template <class W>
auto outputs_of(std::size_t batch_size, const typename W::Inputs& inputs) {
  return outputs_of<W>(batch_size, inputs, std::make_index_sequence<std::tuple_size<typename W::InputTypes>::value>(),
                       std::make_index_sequence<std::tuple_size<typename W::OutputTypes>::value>());
}

}  // namespace detail

/// The model whose generated class is `W`, as one constant object: any number of threads may call `run` at a time.
///
///     const tfaot::Shared<tfaot_model::digits> model;             // for all threads
///     const auto results = model.run(batch_size, {pixels});       // in any of them: results.probability
///     model.run(batch_size, {pixels}, {digit, probability});      // into buffers of the caller
///
/// Weights exist once per process. Scratch memory is the caller's or, by default, the thread's: a thread allocates it at its
/// first call and at its first call of a larger batch, for all models together, and frees it when it ends. No call waits
/// for another. Batches of sizes that were not compiled are composed as cheaply as possible of those that were. For rules,
/// nested vectors and `run_parallel` use Model.
template <class W>
class Shared {
  static constexpr std::size_t kInputs = std::tuple_size<typename W::InputTypes>::value;
  static constexpr std::size_t kOutputs = std::tuple_size<typename W::OutputTypes>::value;

 public:
  using Inputs = typename W::Inputs;    ///< spans of the inputs, by name
  using Outputs = typename W::Outputs;  ///< the same for the outputs

  /// Outputs, by name, with their memory: they are valid as long as this object. It can be moved, not copied.
  class Results : public Outputs {
    friend class Shared;
    detail::AlignedBytes tfaot_memory_;  // no output can have this name
  };

  /// Runs the code of `target`, or of the best one for this CPU if it is null. Throws Error if that is impossible.
  explicit Shared(const char* target = nullptr) : code_(W::table(), target) {}

  /// Compute `batch_size` rows, into buffers of the caller. Every buffer holds exactly that many rows. If the model has
  /// symbols, their sizes follow from the lengths of the inputs. Throws Error.
  void run(std::size_t batch_size, const Inputs& inputs, const Outputs& outputs) const {
    with_pointers(batch_size, inputs, outputs, [&](const void* const* in, void* const* out, const auto&... sizes) {
      code_.run(batch_size, sizes.data()..., in, out);
    });
  }

  /// The same into new memory, in one allocation, which the results own.
  template <std::size_t N = kInputs, std::enable_if_t<N != 0, int> = 0>
  Results run(std::size_t batch_size, const Inputs& inputs) const {
    return owned(batch_size, inputs);
  }

  /// The same in scratch memory of the caller: at least `scratch_bytes(batch_size)` bytes, aligned to
  /// TFAOT_SCRATCH_ALIGNMENT (64), which no other call uses at the same time. Nothing is allocated, except temporary memory
  /// for large convolutions and matrix products in XLA's code.
  void run(std::size_t batch_size, const Inputs& inputs, const Outputs& outputs, span<std::byte> scratch) const {
    with_pointers(batch_size, inputs, outputs, [&](const void* const* in, void* const* out, const auto&... sizes) {
      code_.run(batch_size, sizes.data()..., in, out, scratch);
    });
  }

  /// The same for a model without inputs, into buffers of the caller.
  template <std::size_t N = kInputs, std::enable_if_t<N == 0, int> = 0>
  void run(std::size_t batch_size, const Outputs& outputs) const {
    run(batch_size, Inputs{}, outputs);
  }

  /// The same for a model without inputs, into new memory.
  template <std::size_t N = kInputs, std::enable_if_t<N == 0, int> = 0>
  Results run(std::size_t batch_size) const {
    return owned(batch_size, Inputs{});
  }

  /// Bytes of scratch memory that a call with `batch_size` rows needs, a multiple of TFAOT_SCRATCH_ALIGNMENT. Throws Error
  /// if there is no such batch.
  std::size_t scratch_bytes(std::size_t batch_size) const { return code_.scratch_bytes(batch_size); }

  /// The target whose code runs.
  const char* target() const noexcept { return code_.target(); }

  /// The same object without types.
  const Code& code() const noexcept { return code_; }

 private:
  Results owned(std::size_t batch_size, const Inputs& inputs) const {
    Results results = reserved(batch_size, detail::outputs_of<W>(batch_size, inputs), std::make_index_sequence<kOutputs>());
    run(batch_size, inputs, results);
    return results;
  }

  template <std::size_t... O>
  static Results reserved(std::size_t batch_size, const std::array<TensorInfo, kOutputs>& tensors,
                          std::index_sequence<O...>) {
    const std::array<std::size_t, kOutputs> bytes{
        detail::buffer_bytes<std::tuple_element_t<O, typename W::OutputTypes>>(W::name, tensors[O], batch_size)...};
    std::array<std::size_t, kOutputs + 1> begins{};
    for (std::size_t o = 0; o < kOutputs; ++o) {
      begins[o + 1] = begins[o] + (bytes[o] / detail::kBufferAlignment + 1) * detail::kBufferAlignment;
      if (begins[o + 1] < begins[o]) detail::throw_too_many_rows(W::name, batch_size);
    }
    Results results;
    std::byte* const memory = results.tfaot_memory_.reserve(begins[kOutputs], detail::kBufferAlignment);
    ((results.template get<O>() = {reinterpret_cast<std::tuple_element_t<O, typename W::OutputTypes>*>(memory + begins[O]),
                                   tensors[O].size_at(batch_size)}),
     ...);
    return results;
  }

  template <class Call>
  static void with_pointers(std::size_t batch_size, const Inputs& inputs, const Outputs& outputs, Call&& call) {
    with_pointers(batch_size, inputs, outputs, call, std::make_index_sequence<kInputs>(),
                  std::make_index_sequence<kOutputs>());
  }

  template <class Call, std::size_t... I, std::size_t... O>
  static void with_pointers([[maybe_unused]] std::size_t batch_size, [[maybe_unused]] const Inputs& inputs,
                            [[maybe_unused]] const Outputs& outputs, Call&& call, std::index_sequence<I...>,
                            std::index_sequence<O...>) {
    if constexpr (detail::number_of_symbols<W> != 0) {
      const tfaot_info& info = *W::table().info;
      const std::array<std::size_t, kInputs> lengths{inputs.template get<I>().size()...};
      const auto sizes = detail::sizes_of<detail::number_of_symbols<W>>(info, batch_size, lengths.data());
      const std::array<const void*, kInputs + 1> in{
          detail::input(W::name, detail::at_sizes(W::inputs[I], info.inputs[I], info.input_axes[I], sizes.data()),
                        batch_size, inputs.template get<I>())...,
          nullptr};
      const std::array<void*, kOutputs + 1> out{
          detail::output(W::name, detail::at_sizes(W::outputs[O], info.outputs[O], info.output_axes[O], sizes.data()),
                         batch_size, outputs.template get<O>())...,
          nullptr};
      call(in.data(), out.data(), sizes);
      return;
    }
    const std::array<const void*, kInputs + 1> in{
        detail::input(W::name, W::inputs[I], batch_size, inputs.template get<I>())..., nullptr};
    const std::array<void*, kOutputs + 1> out{
        detail::output(W::name, W::outputs[O], batch_size, outputs.template get<O>())..., nullptr};
    call(in.data(), out.data());
  }

  Code code_;
};

}  // namespace v2
}  // namespace tfaot

#endif  // TFAOT_SHARED_H_
