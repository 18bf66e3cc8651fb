// tfaot/shared.h: a compiled model, ready to use: one constant object for all threads.
//
//     #include <tfaot/shared.h>
//     #include <tfaot-model-digits/model.h>
//
//     const tfaot::Shared<tfaot_model::digits> model;
//     const auto results = model.run(batch_size, {pixels});       // results.probability
//
// A call computes on the calling thread, unless it gets a team of others (team.h).
#ifndef TFAOT_SHARED_H_
#define TFAOT_SHARED_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tfaot/macros_on.h>

#include <tfaot/abi.h>
#include <tfaot/aligned_bytes.h>
#include <tfaot/arguments.h>
#include <tfaot/batching.h>
#include <tfaot/error.h>
#include <tfaot/instance.h>
#include <tfaot/parts.h>
#include <tfaot/permissions.h>
#include <tfaot/sizes.h>
#include <tfaot/span.h>
#include <tfaot/team.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

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
    for (const std::size_t size : planner_.sizes()) parts_at_ = (std::max)(parts_at_, own_bytes(size));
    parts_at_ = aligned(parts_at_);
    pointers_at_ = parts_at_ + aligned(detail::Parts::padded_bytes(info(), largest));
    composed_bytes_ = pointers_at_ + aligned((info().num_inputs + info().num_outputs) * sizeof(void*));
  }

  /// Why there is no code of `target` for this CPU, if there is none: then the constructor throws.
  static Outcome try_target(const Table& table, const char* target = nullptr) {
    const tfaot_code* code = nullptr;
    return select(table, target, &code);
  }

  /// The model's description in the library.
  const tfaot_info& info() const noexcept { return *table_->info; }

  /// The target whose code runs.
  const char* target() const noexcept { return table_->code_target(code_); }

  /// Bytes of scratch memory that a call of `run` with `batch_size` rows and this team needs, wherever buffers lie: a multiple
  /// of TFAOT_SCRATCH_ALIGNMENT. Throws Error if there is no such batch.
  std::size_t scratch_bytes(std::size_t batch_size, const Team& team = {}) const {
    std::size_t bytes = 0;
    detail::require(try_scratch_bytes(batch_size, &bytes, team));
    return bytes;
  }

  /// Compute `batch_size` rows: one pointer per tensor, in the order of `info()`, none null. `scratch` has at least
  /// `scratch_bytes(batch_size, team)` bytes, aligned to TFAOT_SCRATCH_ALIGNMENT, for this call alone; nothing is allocated.
  /// Sizes that were not compiled are composed as cheaply as possible of those that were; the threads of a team compute these
  /// side by side. Throws Error.
  void run(std::size_t batch_size, const void* const* inputs, void* const* outputs, span<std::byte> scratch,
           const Team& team = {}) const {
    detail::require(try_run(batch_size, inputs, outputs, scratch, team));
  }

  /// The same with arrays at `sizes` of the model's symbols, in the order of `info()`. `scratch_bytes` is enough for all
  /// sizes.
  void run(std::size_t batch_size, const std::size_t* sizes, const void* const* inputs, void* const* outputs,
           span<std::byte> scratch, const Team& team = {}) const {
    detail::require(try_run(batch_size, sizes, inputs, outputs, scratch, team));
  }

  /// The same in scratch memory of the thread, which is allocated at its first call and at its first call of a larger
  /// batch.
  void run(std::size_t batch_size, const std::size_t* sizes, const void* const* inputs, void* const* outputs,
           const Team& team = {}) const {
    const detail::ThreadScratch scratch(scratch_bytes(batch_size, team));
    run(batch_size, sizes, inputs, outputs, scratch.bytes(), team);
  }

  /// The same with the maximum sizes of all symbols.
  void run(std::size_t batch_size, const void* const* inputs, void* const* outputs, const Team& team = {}) const {
    const detail::ThreadScratch scratch(scratch_bytes(batch_size, team));
    run(batch_size, inputs, outputs, scratch.bytes(), team);
  }

  /// `scratch_bytes`, into `bytes`; or why there is no such batch.
  Outcome try_scratch_bytes(std::size_t batch_size, std::size_t* bytes, const Team& team = {}) const {
    if (!detail::is_compiled(info(), batch_size)) {
      *bytes = members(batch_size, team) * (std::max)(composed_bytes_, std::size_t{TFAOT_SCRATCH_ALIGNMENT});
      return detail::split_outcome(info(), batch_size);
    }
    *bytes = own_bytes(batch_size, team);
    if (*bytes == 0) return detail::too_many_rows(info().name, batch_size);
    return {};
  }

  /// `run`, which returns an Error instead of throwing it.
  Outcome try_run(std::size_t batch_size, const void* const* inputs, void* const* outputs, span<std::byte> scratch,
                  const Team& team = {}) const {
    if (detail::is_compiled(info(), batch_size)) return compute(batch_size, inputs, outputs, scratch, team);
    if (Outcome outcome = scratch_outcome(batch_size, scratch, team); !outcome.ok()) return outcome;
    return Composed(*this, batch_size, inputs, outputs, scratch, members(batch_size, team)).run(team);
  }

  /// The same with arrays at `sizes` of the model's symbols.
  Outcome try_run(std::size_t batch_size, const std::size_t* sizes, const void* const* inputs, void* const* outputs,
                 span<std::byte> scratch, const Team& team = {}) const {
    if (Outcome outcome = scratch_outcome(batch_size, scratch, team); !outcome.ok()) return outcome;
    char message[TFAOT_MESSAGE_SIZE] = "";
    const auto rows = static_cast<std::int64_t>(batch_size);
    const tfaot_team* const threads = usable(team);
    const tfaot_status status =
        threads == nullptr ? table_->compute_sized(code_, rows, sizes, inputs, outputs, scratch.data(), scratch.size(), message,
                                                   sizeof message)
                           : table_->compute_with_team(code_, rows, sizes, inputs, outputs, threads, scratch.data(),
                                                       scratch.size(), message, sizeof message);
    return outcome_of(info(), status, message);
  }

 private:
  // A batch that is composed of compiled sizes. Threads take one of these after the other, each in memory of its own.
  class Composed {
   public:
    Composed(const Code& code, std::size_t batch_size, const void* const* inputs, void* const* outputs, span<std::byte> scratch,
             std::size_t members) noexcept
        : code_(code), batch_size_(batch_size), inputs_(inputs), outputs_(outputs), scratch_(scratch), members_(members) {}

    Outcome run(const Team& team) {
      if (members_ > 1) team.get()->run(team.get()->context, members_, &take, this);
      take(this);
      return std::move(outcome_);
    }

   private:
    static void take(void* argument) {
      auto& call = *static_cast<Composed*>(argument);
      const std::size_t member = call.begun_.fetch_add(1, std::memory_order_relaxed);
      if (member < call.members_) call.take_steps(call.scratch_.subspan(member * call.code_.composed_bytes_, call.code_.composed_bytes_));
    }

    void take_steps(span<std::byte> scratch) {
      const auto in = reinterpret_cast<const void**>(scratch.data() + code_.pointers_at_);
      const auto out = reinterpret_cast<void**>(scratch.data() + code_.pointers_at_) + code_.info().num_inputs;
      const detail::Parts parts(code_.info(), in, out, scratch.data() + code_.parts_at_);
      for (std::size_t first = next_.load(std::memory_order_relaxed); first < batch_size_ && !failed_.load(std::memory_order_relaxed);) {
        const BatchStep step = code_.planner_.planned(batch_size_ - first);
        if (!next_.compare_exchange_weak(first, first + step.size - step.padding, std::memory_order_relaxed)) continue;
        parts.run(first, step, inputs_, outputs_, [&](std::size_t size, const void* const* part_inputs, void* const* part_outputs) {
          Outcome outcome = code_.compute(size, part_inputs, part_outputs, scratch, {});
          if (!outcome.ok() && !failed_.exchange(true, std::memory_order_relaxed)) outcome_ = std::move(outcome);
        });
        first = next_.load(std::memory_order_relaxed);
      }
    }

    const Code& code_;
    std::size_t batch_size_;
    const void* const* inputs_;
    void* const* outputs_;
    span<std::byte> scratch_;
    std::size_t members_;
    std::atomic<std::size_t> begun_{0}, next_{0};  // threads, and the first row that none has taken
    std::atomic<bool> failed_{false};
    Outcome outcome_;  // the first failure
  };

  // Threads that compute a batch that is composed: no more than it has calls.
  std::size_t members(std::size_t batch_size, const Team& team) const noexcept {
    std::size_t calls = 0;
    for (std::size_t left = batch_size; left != 0 && calls < team.size() && composed_bytes_ != 0; ++calls) {
      const BatchStep step = planner_.planned(left);
      left -= step.size - step.padding;
    }
    return (std::max)(calls, std::size_t{1});
  }

  static Outcome select(const Table& table, const char* target, const tfaot_code** code) {
    if (!TFAOT_HAS(&table, compute)) {
      return Error(table.info->name,
                   "its library is of a version without one object for all threads: build it again, or use tfaot::Model, "
                   "one per thread");
    }
    char message[TFAOT_MESSAGE_SIZE] = "";
    const tfaot_status status = table.select(target, code, message, sizeof message);
    if (status == TFAOT_OK) detail::permit(table, *code);
    return outcome_of(*table.info, status, message);
  }

  static const tfaot_code* selected(const Table& table, const char* target) {
    const tfaot_code* code = nullptr;
    detail::require(select(table, target, &code));
    return code;
  }

  static std::size_t aligned(std::size_t bytes) noexcept {
    return (bytes + TFAOT_SCRATCH_ALIGNMENT - 1) / TFAOT_SCRATCH_ALIGNMENT * TFAOT_SCRATCH_ALIGNMENT;
  }

  // Null if the calling thread computes alone, as in libraries that are too old for teams.
  const tfaot_team* usable(const Team& team) const noexcept {
    return TFAOT_HAS(table_, compute_with_team) ? team.get() : nullptr;
  }

  std::size_t own_bytes(std::size_t batch_size, const Team& team = {}) const {
    const auto rows = static_cast<std::int64_t>(batch_size);
    if (usable(team) == nullptr) return table_->scratch_bytes(code_, rows);
    return table_->team_scratch_bytes(code_, rows, team.size());
  }

  static Outcome outcome_of(const tfaot_info& info, tfaot_status status, const char* message) {
    if (status == TFAOT_OK) return {};
    return Error(info.name, detail::without_name(message, info.name));
  }

  // Whether `scratch` is large enough and aligned.
  Outcome scratch_outcome(std::size_t batch_size, span<std::byte> scratch, const Team& team = {}) const {
    std::size_t needed = 0;
    if (Outcome outcome = try_scratch_bytes(batch_size, &needed, team); !outcome.ok()) return outcome;
    if (scratch.size() < needed) {
      return Error(info().name, "scratch memory", "at least " + std::to_string(needed) + " bytes",
                   std::to_string(scratch.size()));
    }
    if (reinterpret_cast<std::uintptr_t>(scratch.data()) % TFAOT_SCRATCH_ALIGNMENT != 0) {
      return Error(info().name, "scratch memory",
                   "an address that is a multiple of " + std::to_string(TFAOT_SCRATCH_ALIGNMENT), "another one");
    }
    return {};
  }

  Outcome compute(std::size_t batch_size, const void* const* inputs, void* const* outputs, span<std::byte> scratch,
                  const Team& team) const {
    // The library takes null to mean its own memory, so it would not reject a size that is too small.
    if (scratch.data() == nullptr) {
      if (Outcome outcome = scratch_outcome(batch_size, scratch, team); !outcome.ok()) return outcome;
    }
    char message[TFAOT_MESSAGE_SIZE] = "";
    const auto rows = static_cast<std::int64_t>(batch_size);
    const tfaot_team* const threads = usable(team);
    const tfaot_status status =
        threads == nullptr
            ? table_->compute(code_, rows, inputs, outputs, scratch.data(), scratch.size(), message, sizeof message)
            : table_->compute_with_team(code_, rows, nullptr, inputs, outputs, threads, scratch.data(), scratch.size(), message,
                                        sizeof message);
    return outcome_of(info(), status, message);
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

/// Whether each of `buffers` has the elements of `batch_size` rows of its tensor.
template <class Compiled, std::size_t Count, class Buffers, std::size_t... Index>
Outcome fit([[maybe_unused]] const char* kind, [[maybe_unused]] const std::array<TensorInfo, Count>& tensors,
           [[maybe_unused]] std::size_t batch_size, [[maybe_unused]] const Buffers& buffers,
           std::index_sequence<Index...>) {
  Outcome outcome;
  [[maybe_unused]] const auto fits = [&](const TensorInfo& tensor, std::size_t size) {
    if (has_size(tensor, batch_size, size)) return true;
    outcome = wrong_size(Compiled::name, kind, tensor, batch_size, size);
    return false;
  };
  static_cast<void>((fits(tensors[Index], buffers.template get<Index>().size()) && ...));
  return outcome;
}

/// The inputs of `known` at the sizes of a call.
template <std::size_t Count, std::size_t... Index>
std::array<TensorInfo, Count> inputs_at_sizes(const std::array<TensorInfo, Count>& known, const tfaot_info& info,
                                              const std::size_t* sizes, std::index_sequence<Index...>) noexcept {
  return {at_sizes(known[Index], info.inputs[Index], info.input_axes[Index], sizes)...};
}

/// The outputs of `known` at the sizes of a call.
template <std::size_t Count, std::size_t... Index>
std::array<TensorInfo, Count> outputs_at_sizes(const std::array<TensorInfo, Count>& known, const tfaot_info& info,
                                               const std::size_t* sizes, std::index_sequence<Index...>) noexcept {
  return {at_sizes(known[Index], info.outputs[Index], info.output_axes[Index], sizes, terms_of(info, Index))...};
}

/// The sizes of the symbols in a call, from the lengths of its inputs.
template <class Compiled, std::size_t... Index>
Outcome derive_sizes_of(std::size_t batch_size, const typename Compiled::Inputs& inputs,
                       std::array<std::size_t, number_of_symbols<Compiled>>* sizes, std::index_sequence<Index...>) {
  const std::array<std::size_t, sizeof...(Index)> lengths{inputs.template get<Index>().size()...};
  return derive_sizes(*Compiled::table().info, batch_size, lengths.data(), sizes);
}

/// The outputs' sizes in a call. Throws Error if an input has a wrong size.
template <class Compiled>
auto outputs_of(std::size_t batch_size, const typename Compiled::Inputs& inputs) {
  constexpr std::make_index_sequence<Compiled::inputs.size()> all_inputs{};
  if constexpr (number_of_symbols<Compiled> != 0) {
    const tfaot_info& info = *Compiled::table().info;
    std::array<std::size_t, number_of_symbols<Compiled>> sizes{};
    require(derive_sizes_of<Compiled>(batch_size, inputs, &sizes, all_inputs));
    return outputs_at_sizes(Compiled::outputs, info, sizes.data(),
                            std::make_index_sequence<Compiled::outputs.size()>());
  } else {
    // Before memory for that many rows is allocated.
    require(fit<Compiled>("input", Compiled::inputs, batch_size, inputs, all_inputs));
    return Compiled::outputs;
  }
}

}  // namespace detail

/// The model whose generated class is `Compiled`, as one constant object: any number of threads may call `run` at a time.
///
///     const tfaot::Shared<tfaot_model::digits> model;             // for all threads
///     const auto results = model.run(batch_size, {pixels});       // in any of them: results.probability
///     model.run(batch_size, {pixels}, {digit, probability});      // into buffers of the caller
///
/// Weights exist once per process. Scratch memory is the caller's or, by default, the thread's: a thread allocates it at its
/// first call and at its first call of a larger batch, for all models together, and frees it when it ends. No call waits
/// for another. Batches of sizes that were not compiled are composed as cheaply as possible of those that were. For rules
/// and nested vectors use Model.
template <class Compiled>
class Shared {
  static constexpr std::size_t kInputs = std::tuple_size<typename Compiled::InputTypes>::value;
  static constexpr std::size_t kOutputs = std::tuple_size<typename Compiled::OutputTypes>::value;

 public:
  using Inputs = typename Compiled::Inputs;    ///< spans of the inputs, by name
  using Outputs = typename Compiled::Outputs;  ///< the same for the outputs
  /// \cond
  using GivenInputs = detail::Given<Inputs, kInputs>;
  using GivenOutputs = detail::Given<Outputs, kOutputs>;
  /// \endcond

  /// Outputs, by name, with their memory: they are valid as long as this object. It can be moved, not copied.
  class Results : public Outputs {
    friend class Shared;
    detail::AlignedBytes tfaot_memory_;  // no output can have this name
  };

  /// Runs the code of `target`, or of the best one for this CPU if it is null. Throws Error if that is impossible.
  explicit Shared(const char* target = nullptr) : code_(Compiled::table(), target) {}

  /// Why there is no code of `target` for this CPU, if there is none: then the constructor throws.
  static Outcome try_target(const char* target = nullptr) { return Code::try_target(Compiled::table(), target); }

  /// Compute `batch_size` rows, into buffers of the caller. Every buffer holds exactly that many rows. If the model has
  /// symbols, their sizes follow from the lengths of the inputs. With a team, its threads share the work: rows, or large layers
  /// of few rows, with the same bits. Throws Error.
  void run(detail::Rows batch_size, const Inputs& inputs, const Outputs& outputs, const Team& team = {}) const {
    detail::require(try_run(batch_size, inputs, outputs, team));
  }
  /// \cond
  template <class In = GivenInputs, class Out = GivenOutputs, class = detail::IfTensors<Inputs, In>,
            class = detail::IfTensors<Outputs, Out>>
  void run(std::size_t batch_size, const In& inputs, const Out& outputs, const Team& team = {}) const {
    detail::require(try_run(batch_size, inputs, outputs, team));
  }
  /// \endcond

  /// The same into new memory, in one allocation, which the results own.
  template <std::size_t Count = kInputs, std::enable_if_t<Count != 0, int> = 0>
  Results run(std::size_t batch_size, const Inputs& inputs) const {
    return owned(batch_size, inputs);
  }
  /// \cond
  Results run(std::size_t batch_size, const GivenInputs& inputs) const { return owned(batch_size, inputs); }
  /// \endcond

  /// The same in scratch memory of the caller: at least `scratch_bytes(batch_size, team)` bytes, aligned to
  /// TFAOT_SCRATCH_ALIGNMENT (64), which no other call uses at the same time. Nothing is allocated, except temporary memory
  /// for large convolutions and matrix products in XLA's code, and what the team's executor allocates.
  void run(detail::Rows batch_size, const Inputs& inputs, const Outputs& outputs, span<std::byte> scratch,
           const Team& team = {}) const {
    detail::require(try_run(batch_size, inputs, outputs, scratch, team));
  }
  /// \cond
  template <class In = GivenInputs, class Out = GivenOutputs, class = detail::IfTensors<Inputs, In>,
            class = detail::IfTensors<Outputs, Out>>
  void run(std::size_t batch_size, const In& inputs, const Out& outputs, span<std::byte> scratch,
           const Team& team = {}) const {
    detail::require(try_run(batch_size, inputs, outputs, scratch, team));
  }
  /// \endcond

  /// The same for a model without inputs, into buffers of the caller.
  template <std::size_t Count = kInputs, std::enable_if_t<Count == 0, int> = 0>
  void run(std::size_t batch_size, const Outputs& outputs) const {
    run(batch_size, Inputs{}, outputs);
  }

  /// The same for a model without inputs, into new memory.
  template <std::size_t Count = kInputs, std::enable_if_t<Count == 0, int> = 0>
  Results run(std::size_t batch_size) const {
    return owned(batch_size, Inputs{});
  }

  /// `run` into buffers of the caller, which returns an Error instead of throwing it.
  Outcome try_run(detail::Rows batch_size, const Inputs& inputs, const Outputs& outputs, const Team& team = {}) const {
    return try_run<Inputs, Outputs>(batch_size, inputs, outputs, team);
  }
  /// \cond
  template <class In = GivenInputs, class Out = GivenOutputs, class = detail::IfTensors<Inputs, In>,
            class = detail::IfTensors<Outputs, Out>>
  Outcome try_run(std::size_t batch_size, const In& inputs, const Out& outputs, const Team& team = {}) const {
    return with_pointers(batch_size, inputs, outputs, [&](const void* const* in, void* const* out, const auto&... sizes) {
      std::size_t bytes = 0;
      if (Outcome outcome = code_.try_scratch_bytes(batch_size, &bytes, team); !outcome.ok()) return outcome;
      const detail::ThreadScratch scratch(bytes);
      return code_.try_run(batch_size, sizes.data()..., in, out, scratch.bytes(), team);
    });
  }
  /// \endcond

  /// The same in scratch memory of the caller.
  Outcome try_run(detail::Rows batch_size, const Inputs& inputs, const Outputs& outputs, span<std::byte> scratch,
                  const Team& team = {}) const {
    return try_run<Inputs, Outputs>(batch_size, inputs, outputs, scratch, team);
  }
  /// \cond
  template <class In = GivenInputs, class Out = GivenOutputs, class = detail::IfTensors<Inputs, In>,
            class = detail::IfTensors<Outputs, Out>>
  Outcome try_run(std::size_t batch_size, const In& inputs, const Out& outputs, span<std::byte> scratch,
                  const Team& team = {}) const {
    return with_pointers(batch_size, inputs, outputs, [&](const void* const* in, void* const* out, const auto&... sizes) {
      return code_.try_run(batch_size, sizes.data()..., in, out, scratch, team);
    });
  }
  /// \endcond

  /// Bytes of scratch memory that a call with `batch_size` rows and this team needs, a multiple of TFAOT_SCRATCH_ALIGNMENT.
  /// Throws Error if there is no such batch.
  std::size_t scratch_bytes(std::size_t batch_size, const Team& team = {}) const {
    return code_.scratch_bytes(batch_size, team);
  }

  /// The target whose code runs.
  const char* target() const noexcept { return code_.target(); }

  /// The same object without types.
  const Code& code() const noexcept { return code_; }

 private:
  static constexpr std::make_index_sequence<kInputs> kAllInputs{};
  static constexpr std::make_index_sequence<kOutputs> kAllOutputs{};

  Results owned(std::size_t batch_size, const Inputs& inputs) const {
    Results results = reserved(batch_size, detail::outputs_of<Compiled>(batch_size, inputs), kAllOutputs);
    run(batch_size, inputs, results);
    return results;
  }

  template <std::size_t Index>
  using OutputType = std::tuple_element_t<Index, typename Compiled::OutputTypes>;

  template <std::size_t... Index>
  static Results reserved(std::size_t batch_size, const std::array<TensorInfo, kOutputs>& tensors,
                          std::index_sequence<Index...>) {
    const std::array<std::size_t, kOutputs> bytes{
        detail::buffer_bytes<OutputType<Index>>(Compiled::name, tensors[Index], batch_size)...};
    std::array<std::size_t, kOutputs + 1> begins{};
    for (std::size_t o = 0; o < kOutputs; ++o) {
      begins[o + 1] = begins[o] + (bytes[o] / detail::kBufferAlignment + 1) * detail::kBufferAlignment;
      if (begins[o + 1] < begins[o]) detail::raise(detail::too_many_rows(Compiled::name, batch_size));
    }
    Results results;
    std::byte* const memory = results.tfaot_memory_.reserve(begins[kOutputs], detail::kBufferAlignment);
    ((results.template get<Index>() = {reinterpret_cast<OutputType<Index>*>(memory + begins[Index]),
                                       tensors[Index].size_at(batch_size)}),
     ...);
    return results;
  }

  template <class Call>
  static Outcome with_pointers(std::size_t batch_size, const Inputs& inputs, const Outputs& outputs, Call&& call) {
    if constexpr (detail::number_of_symbols<Compiled> != 0) {
      const tfaot_info& info = *Compiled::table().info;
      std::array<std::size_t, detail::number_of_symbols<Compiled>> sizes{};
      if (Outcome outcome = detail::derive_sizes_of<Compiled>(batch_size, inputs, &sizes, kAllInputs); !outcome.ok()) {
        return outcome;
      }
      return with_tensors(
          detail::inputs_at_sizes(Compiled::inputs, info, sizes.data(), kAllInputs),
          detail::outputs_at_sizes(Compiled::outputs, info, sizes.data(), kAllOutputs), batch_size, inputs, outputs,
          [&](const void* const* in, void* const* out) { return call(in, out, sizes); });
    } else {
      return with_tensors(Compiled::inputs, Compiled::outputs, batch_size, inputs, outputs, call);
    }
  }

  // Checks the sizes of the buffers, and calls `call` with pointers to them.
  template <class Call>
  static Outcome with_tensors(const std::array<TensorInfo, kInputs>& known_inputs,
                             const std::array<TensorInfo, kOutputs>& known_outputs, std::size_t batch_size,
                             const Inputs& inputs, const Outputs& outputs, Call&& call) {
    if (Outcome outcome = detail::fit<Compiled>("input", known_inputs, batch_size, inputs, kAllInputs); !outcome.ok()) {
      return outcome;
    }
    if (Outcome outcome = detail::fit<Compiled>("output", known_outputs, batch_size, outputs, kAllOutputs); !outcome.ok()) {
      return outcome;
    }
    return with_all(inputs, outputs, call, kAllInputs, kAllOutputs);
  }

  template <class Call, std::size_t... Input, std::size_t... Output>
  static Outcome with_all([[maybe_unused]] const Inputs& inputs, [[maybe_unused]] const Outputs& outputs, Call&& call,
                         std::index_sequence<Input...>, std::index_sequence<Output...>) {
    const std::array<const void*, kInputs + 1> in{detail::pointer(inputs.template get<Input>())..., nullptr};
    const std::array<void*, kOutputs + 1> out{detail::pointer(outputs.template get<Output>())..., nullptr};
    return call(in.data(), out.data());
  }

  Code code_;
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_SHARED_H_
