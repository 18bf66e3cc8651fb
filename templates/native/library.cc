// The C ABI of a model (tfaot/c_api.h): dispatch on the CPU, and one computation in memory that the caller, an instance or
// the library itself provides.
//
// The same code for every model and toolchain; what differs is in model.cc (data) and units_TARGET.cc (code).
// Nothing here throws: what would throw in the XLA runtime becomes a status (runtime.h).

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sched.h>

#include <tfaot_kernels/team.h>

#include "float_control.h"
#include "model.h"
#include "runtime.h"

namespace tfaot_native {
namespace {

constexpr std::size_t kAlignment = TFAOT_SCRATCH_ALIGNMENT;

std::size_t align_up(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

// `alignment` is a power of two, and no constant: a division would take as long as a small model's loop.
bool is_aligned(const void* pointer, std::size_t alignment) {
  return (reinterpret_cast<std::uintptr_t>(pointer) & (alignment - 1)) == 0;
}

std::size_t bytes_at(const tfaot_tensor& tensor, std::int64_t batch_size) {
  const std::int64_t rows = tensor.has_batch_axis ? batch_size : 1;
  return static_cast<std::size_t>(rows * tensor.row_elements * tensor.element_size);
}

// The sizes of a model's symbols in a call, in the order of info.symbols; null: all at their maxima.
using Sizes = const std::size_t*;

// The size of an axis at sizes: that in the shape, unless `terms` compute it.
std::int64_t size_of_axis(const tfaot_tensor& tensor, std::int32_t axis, const tfaot_term* terms, Sizes sizes) {
  std::int64_t sum = 0;
  bool is_computed = false;
  for (; terms != nullptr && terms->axis >= 0; ++terms) {
    if (terms->axis != axis) continue;
    std::int64_t product = terms->factor;
    for (std::int32_t i = 0; i < terms->num_symbols; ++i) product *= static_cast<std::int64_t>(sizes[terms->symbols[i]]);
    sum += product;
    is_computed = true;
  }
  return is_computed ? sum : tensor.shape[axis];
}

// Bytes of one row at sizes. `axes` are the symbols of the tensor's axes, `terms` those of an output.
std::size_t bytes_of_row(const tfaot_tensor& tensor, const std::int32_t* axes, const tfaot_term* terms, Sizes sizes) {
  std::int64_t elements = 1;
  for (std::int32_t axis = tensor.has_batch_axis; axis < tensor.rank; ++axis) {
    const bool is_symbol = axes != nullptr && axes[axis] >= 0;
    elements *= is_symbol ? static_cast<std::int64_t>(sizes[axes[axis]]) : size_of_axis(tensor, axis, terms, sizes);
  }
  return static_cast<std::size_t>(elements * tensor.element_size);
}

// Bytes of all tensors of `batch_size` rows, one after the other.
std::size_t bytes_of_tensors(std::int64_t batch_size) {
  const tfaot_info& info = model_data.info;
  std::size_t size = 0;
  for (std::size_t i = 0; i < info.num_inputs; ++i) size += align_up(bytes_at(info.inputs[i], batch_size));
  for (std::size_t i = 0; i < info.num_outputs; ++i) size += align_up(bytes_at(info.outputs[i], batch_size));
  return size;
}

// A unit of XLA's code in memory of `size(unit)` bytes: the table of addresses that the computation runs over, and what
// they point to. Buffers of the caller that are not aligned are copied to and from `copies`, of `size_of_copies(unit)`.
class Workspace {
 public:
  Workspace(const Unit& unit, unsigned char* memory)
      : unit_(unit),
        memory_(memory),
        table_(reinterpret_cast<void**>(memory)),
        bindable_(reinterpret_cast<bool*>(memory + unit.num_buffers * sizeof(void*))) {}

  static std::size_t size(const Unit& unit) {
    std::size_t size = size_of_table(unit);
    for (std::size_t i = 0; i < unit.num_buffers; ++i) {
      if (is_scratch(unit, i)) size += align_up(unit.buffers[i].size);
    }
    return size;
  }

  static std::size_t size_of_copies(const Unit& unit) { return bytes_of_tensors(unit.batch_size); }

  // Find places for the scratch buffers; bind constants and weights. Once for any number of runs.
  void lay_out() {
    for (std::size_t i = 0; i < model_data.info.num_outputs; ++i) bindable_[i] = is_bindable(unit_, i);
    std::size_t offset = size_of_table(unit_);
    for (std::size_t i = 0; i < unit_.num_buffers; ++i) {
      table_[i] = const_cast<void*>(unit_.buffers[i].constant);
      if (is_scratch(unit_, i)) {
        table_[i] = memory_ + offset;
        offset += align_up(unit_.buffers[i].size);
      }
    }
    for (std::size_t i = 0; i < model_data.num_weights; ++i) {
      const unsigned char* weights = model_data.weights + model_data.weight_offsets[i];
      // The computation does not write to its arguments; XLA's interface just has no const.
      table_[unit_.argument_buffers[model_data.info.num_inputs + i]] = const_cast<unsigned char*>(weights);
    }
  }

  // Compute one batch; false if that failed.
  bool run(const void* const* inputs, void* const* outputs, unsigned char* copies) {
    bind_outputs(outputs, bind_inputs(inputs, copies));
    if (!unit_.run(table_)) return false;
    for (std::size_t i = 0; i < model_data.info.num_outputs; ++i) {
      const void* result = table_[unit_.result_buffers[i]];
      if (result != outputs[i]) std::memcpy(outputs[i], result, bytes_at(model_data.info.outputs[i], unit_.batch_size));
    }
    return true;
  }

 private:
  static std::size_t size_of_table(const Unit& unit) {
    return align_up(unit.num_buffers * sizeof(void*) + model_data.info.num_outputs * sizeof(bool));
  }

  // Results are written to the caller's memory, not to scratch memory of ours.
  static bool is_scratch(const Unit& unit, std::size_t buffer) {
    if (unit.buffers[buffer].kind != BufferKind::kScratch) return false;
    for (std::size_t i = 0; i < model_data.info.num_outputs; ++i) {
      if (unit.result_buffers[i] == static_cast<std::int32_t>(buffer)) return false;
    }
    return true;
  }

  // Whether a result can be written to the caller's memory. Not if its buffer is a constant or an argument, or if an
  // earlier output has bound it already.
  static bool is_bindable(const Unit& unit, std::size_t output) {
    const std::int32_t buffer = unit.result_buffers[output];
    if (unit.buffers[buffer].kind == BufferKind::kConstant) return false;
    for (std::size_t i = 0; i < output; ++i) {
      if (unit.result_buffers[i] == buffer) return false;
    }
    for (std::size_t i = 0; i < model_data.info.num_inputs + model_data.num_weights; ++i) {
      if (unit.argument_buffers[i] == buffer) return false;
    }
    return true;
  }

  // Returns the place where copies of outputs begin.
  unsigned char* bind_inputs(const void* const* inputs, unsigned char* copies) {
    for (std::size_t i = 0; i < model_data.info.num_inputs; ++i) {
      const std::size_t size = bytes_at(model_data.info.inputs[i], unit_.batch_size);
      void* address = const_cast<void*>(inputs[i]);
      if (!is_aligned(address, model_data.info.alignment)) address = std::memcpy(copies, inputs[i], size);
      table_[unit_.argument_buffers[i]] = address;
      if (copies != nullptr) copies += align_up(size);
    }
    return copies;
  }

  void bind_outputs(void* const* outputs, unsigned char* copies) {
    for (std::size_t i = 0; i < model_data.info.num_outputs; ++i) {
      if (bindable_[i]) {
        table_[unit_.result_buffers[i]] = is_aligned(outputs[i], model_data.info.alignment) ? outputs[i] : copies;
      }
      if (copies != nullptr) copies += align_up(bytes_at(model_data.info.outputs[i], unit_.batch_size));
    }
  }

  const Unit& unit_;
  unsigned char* memory_;
  void** table_;    // at the start of the memory
  bool* bindable_;  // behind it, by output
};

// The program, over any number of rows, in scratch memory of one size. Rows are copied if elements are misaligned.
class ProgramCall {
 public:
  static std::size_t size(const Target& target) { return align_up(target.scratch_size); }

  // For that many rows in one call.
  static std::size_t size_of_copies(std::int64_t rows) {
    return size_of_pointers() + bytes_of_tensors(rows < rows_at_a_time() ? rows : rows_at_a_time());
  }

  // For any number of rows.
  static std::size_t size_of_copies() { return size_of_copies(rows_at_a_time()); }

  ProgramCall(const Target& target, Sizes sizes, const void* const* inputs, void* const* outputs, unsigned char* scratch,
              const tfaot_kernels::Team* team)
      : target_(target), sizes_(sizes), inputs_(inputs), outputs_(outputs), scratch_(scratch), team_(team) {}

  void run(std::int64_t rows) {
    const std::size_t count = static_cast<std::size_t>(rows);
    if (target_.sized_program != nullptr) {
      const Sizes sizes = sizes_ == nullptr ? model_data.largest_sizes : sizes_;
      target_.sized_program(count, sizes, inputs_, outputs_, weights(), scratch_, team_);
    } else {
      target_.program(count, inputs_, outputs_, weights(), scratch_, team_);
    }
  }

  // Rows [first, first + rows): they do not depend on one another, so that parts of a batch can be computed apart. Memory
  // for copies is that of `size_of_copies(rows)`; buffers that are `in_place` are not copied.
  void run_rows(std::int64_t first, std::int64_t rows, unsigned char* copies, bool in_place) {
    const std::int64_t most = in_place || rows < rows_at_a_time() ? rows : rows_at_a_time();
    for (std::int64_t done = 0; done < rows; done += most) {
      run_part(first + done, rows - done < most ? rows - done : most, in_place ? 0 : most, copies);
    }
  }

 private:
  static constexpr std::int64_t kCopiedBytes = 65536;

  static const unsigned char* weights() { return model_data.weights + model_data.weight_offsets[0]; }

  static std::size_t size_of_pointers() {
    return align_up((model_data.info.num_inputs + model_data.info.num_outputs) * sizeof(void*));
  }

  static std::int64_t bytes_of_row(const tfaot_tensor* tensors, std::size_t count) {
    std::int64_t size = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (tensors[i].has_batch_axis) size += tensors[i].row_elements * tensors[i].element_size;
    }
    return size;
  }

  static std::int64_t rows_at_a_time() {
    const tfaot_info& info = model_data.info;
    const std::int64_t row = bytes_of_row(info.inputs, info.num_inputs) + bytes_of_row(info.outputs, info.num_outputs);
    return row == 0 || row > kCopiedBytes ? 1 : kCopiedBytes / row;
  }

  static bool has_aligned_elements(const void* pointer, const tfaot_tensor& tensor) {
    return is_aligned(pointer, static_cast<std::size_t>(tensor.element_size));
  }

  // Of rows of input or output `number`, at the sizes of this call.
  std::size_t bytes_of_input(std::size_t number, std::int64_t rows) const {
    const tfaot_info& info = model_data.info;
    return bytes_of(info.inputs[number], info.input_axes == nullptr ? nullptr : info.input_axes[number], nullptr, rows);
  }
  std::size_t bytes_of_output(std::size_t number, std::int64_t rows) const {
    const tfaot_info& info = model_data.info;
    return bytes_of(info.outputs[number], info.output_axes == nullptr ? nullptr : info.output_axes[number],
                    info.output_terms == nullptr ? nullptr : info.output_terms[number], rows);
  }
  std::size_t bytes_of(const tfaot_tensor& tensor, const std::int32_t* axes, const tfaot_term* terms,
                       std::int64_t rows) const {
    if (sizes_ == nullptr) return bytes_at(tensor, rows);
    return tfaot_native::bytes_of_row(tensor, axes, terms, sizes_) *
           static_cast<std::size_t>(tensor.has_batch_axis ? rows : 1);
  }

  // Rows [first, first + rows). Tensors whose elements are aligned are used in place; `copies` has pointers, and room for
  // `most` rows of the others.
  void run_part(std::int64_t first, std::int64_t rows, std::int64_t most, unsigned char* copies) {
    const tfaot_info& info = model_data.info;
    auto** const in = reinterpret_cast<const void**>(copies);
    auto** const out = reinterpret_cast<void**>(copies) + info.num_inputs;
    unsigned char* copy = copies + size_of_pointers();
    for (std::size_t i = 0; i < info.num_inputs; ++i) {
      const tfaot_tensor& tensor = info.inputs[i];
      in[i] = nullptr;
      if (inputs_[i] == nullptr) continue;  // of a signature that is left out
      in[i] = static_cast<const unsigned char*>(inputs_[i]) + (tensor.has_batch_axis ? bytes_of_input(i, first) : 0);
      if (!has_aligned_elements(in[i], tensor)) in[i] = std::memcpy(copy, in[i], bytes_of_input(i, rows));
      copy += align_up(bytes_at(tensor, most));
    }
    for (std::size_t i = 0; i < info.num_outputs; ++i) {
      const tfaot_tensor& tensor = info.outputs[i];
      out[i] = nullptr;
      if (outputs_[i] == nullptr) continue;
      out[i] = static_cast<unsigned char*>(outputs_[i]) + (tensor.has_batch_axis ? bytes_of_output(i, first) : 0);
      if (!has_aligned_elements(out[i], tensor)) out[i] = copy;
      copy += align_up(bytes_at(tensor, most));
    }
    ProgramCall(target_, sizes_, in, out, scratch_, team_).run(rows);
    for (std::size_t i = 0; i < info.num_outputs; ++i) {
      if (outputs_[i] == nullptr) continue;
      const tfaot_tensor& tensor = info.outputs[i];
      unsigned char* const result =
          static_cast<unsigned char*>(outputs_[i]) + (tensor.has_batch_axis ? bytes_of_output(i, first) : 0);
      if (out[i] != result) std::memcpy(result, out[i], bytes_of_output(i, rows));
    }
  }

  const Target& target_;
  Sizes sizes_;
  const void* const* inputs_;
  void* const* outputs_;
  unsigned char* scratch_;
  const tfaot_kernels::Team* team_;
};

// Parts of a computation, which the threads of the caller's team take one after the other. Each thread has `step` bytes of
// `memory`, in the order in which they begin.
class Parts {
 public:
  using Part = tfaot_kernels::Team::Part;

  Parts(const tfaot_team& team, std::size_t members, unsigned char* memory, std::size_t step)
      : team_(team), members_(members), memory_(memory), step_(step) {}

  // Calls part(argument, i, memory of the thread) for each i below `count`, and returns when all have ended, whatever the
  // team does.
  void run(std::size_t count, Part* part, void* argument) {
    count_ = count;
    part_ = part;
    argument_ = argument;
    if (members_ > count) members_ = count;
    team_.run(team_.context, members_, &take, this);
    take(this);
    while (__atomic_load_n(&ended_, __ATOMIC_ACQUIRE) != count) sched_yield();
  }

 private:
  // What a thread of the team does.
  static void take(void* argument) {
    auto& parts = *static_cast<Parts*>(argument);
    const std::size_t member = __atomic_fetch_add(&parts.begun_, 1, __ATOMIC_RELAXED);
    if (member >= parts.members_) return;  // the others take all parts
    const FloatControl own = FloatControl::current();
    parts.arithmetic_.replace(own);
    for (;;) {
      const std::size_t number = __atomic_fetch_add(&parts.next_, 1, __ATOMIC_RELAXED);
      if (number >= parts.count_) break;
      parts.part_(parts.argument_, number, parts.memory_ + member * parts.step_);
      __atomic_fetch_add(&parts.ended_, 1, __ATOMIC_RELEASE);
    }
    own.replace(FloatControl::current());
  }

  const tfaot_team& team_;
  std::size_t members_;
  unsigned char* memory_;
  std::size_t step_;
  // Of the calling thread: whether subnormal numbers are flushed may be another setting in each thread.
  const FloatControl arithmetic_ = FloatControl::current();
  std::size_t count_ = 0;
  Part* part_ = nullptr;
  void* argument_ = nullptr;
  // Accessed atomically.
  std::size_t begun_ = 0;
  std::size_t next_ = 0;
  std::size_t ended_ = 0;
};

// The caller's team, as the layers of a program see it.
struct LentTeam : tfaot_kernels::Team {
  LentTeam(const tfaot_team& given, std::size_t members, unsigned char* memory_of_members, std::size_t step_of_members)
      : Team{members, &run_parts}, lent(given), memory(memory_of_members), step(step_of_members) {}

  static void run_parts(const Team& team, std::size_t count, Part* part, void* argument) {
    const auto& own = static_cast<const LentTeam&>(team);
    Parts(own.lent, own.size, own.memory, own.step).run(count, part, argument);
  }

  const tfaot_team& lent;
  unsigned char* memory;
  std::size_t step;
};

// The result of a call: TFAOT_OK, or a status with its reason.
struct Ending {
  tfaot_status status;
  const char* reason;
};

constexpr Ending kDone = {TFAOT_OK, ""};
constexpr Ending kOutOfMemory = {TFAOT_OUT_OF_MEMORY, "out of memory"};
constexpr Ending kFailed = {TFAOT_COMPUTATION_FAILED, "the computation failed"};

// Whether the size of every tensor of `batch_size` rows fits into the address space.
bool can_be_addressed(std::int64_t batch_size) {
  const tfaot_info& info = model_data.info;
  for (std::size_t i = 0; i < info.num_inputs + info.num_outputs; ++i) {
    const tfaot_tensor& tensor = i < info.num_inputs ? info.inputs[i] : info.outputs[i - info.num_inputs];
    std::ptrdiff_t size;
    if (tensor.has_batch_axis && __builtin_mul_overflow(batch_size, tensor.row_elements * tensor.element_size, &size)) {
      return false;
    }
  }
  return true;
}

bool any_null(const void* const* pointers, std::size_t count) {
  if (pointers == nullptr) return count != 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (pointers[i] == nullptr) return true;
  }
  return false;
}

// Whether a call has all buffers of some signatures, and none of the others.
bool has_whole_signatures(const void* const* inputs, void* const* outputs) {
  const tfaot_info& info = model_data.info;
  if (outputs == nullptr || (inputs == nullptr && info.num_inputs != 0)) return false;
  std::size_t called = 0;
  for (std::size_t k = 0; k < info.num_signatures; ++k) {
    const tfaot_signature& signature = info.signatures[k];
    std::size_t given = 0;
    for (std::size_t i = 0; i < signature.num_inputs; ++i) given += inputs[signature.inputs[i]] != nullptr;
    for (std::size_t i = 0; i < signature.num_outputs; ++i) given += outputs[signature.outputs[i]] != nullptr;
    if (given != 0 && given != signature.num_inputs + signature.num_outputs) return false;
    called += given != 0;
  }
  return called != 0;
}

bool any_missing(const void* const* inputs, void* const* outputs) {
  const tfaot_info& info = model_data.info;
  if (info.num_signatures != 0) return !has_whole_signatures(inputs, outputs);
  return any_null(inputs, info.num_inputs) || any_null(outputs, info.num_outputs);
}

// The computation of one batch: the code that computes it, the memory that it needs, and its result.
class Computation {
 public:
  // With a team of `team_size` threads.
  Computation(const Target& target, std::int64_t batch_size, Sizes sizes = nullptr, std::size_t team_size = 1)
      : target_(target), batch_size_(batch_size), sizes_(sizes) {
    if (target.is_program()) {
      if (team_size > 1) divide(team_size < kMostMembers ? team_size : kMostMembers);
      return;
    }
    while (index_ < target.num_units && target.units[index_].batch_size != batch_size) ++index_;
    if (index_ < target.num_units) unit_ = &target.units[index_];
  }

  // An instance has one memory for the program, or one for each unit; `index` is the one of this computation.
  static std::size_t number_of_memories(const Target& target) { return target.is_program() ? 1 : target.num_units; }
  std::size_t index() const { return index_; }

  // TFAOT_OK, or why this batch size or these sizes cannot be computed.
  Ending size() const {
    if (!target_.is_program()) {
      return unit_ != nullptr ? kDone : Ending{TFAOT_NO_SUCH_BATCH_SIZE, "this batch size was not compiled"};
    }
    if (batch_size_ < 1) return {TFAOT_NO_SUCH_BATCH_SIZE, "a batch has at least one row"};
    for (std::size_t i = 0; sizes_ != nullptr && i < model_data.info.num_symbols; ++i) {
      const tfaot_symbol& symbol = model_data.info.symbols[i];
      if (sizes_[i] < symbol.minimum || sizes_[i] > symbol.maximum) {
        return {TFAOT_INVALID_ARGUMENT, "a size is below the minimum or above the maximum of its symbol"};
      }
    }
    if (can_be_addressed(batch_size_)) return kDone;
    return {TFAOT_NO_SUCH_BATCH_SIZE, "these are more rows than there is memory"};
  }

  // As `size`, and whether all buffers are given.
  Ending buffers(const void* const* inputs, void* const* outputs) const {
    const Ending ending = size();
    if (ending.status != TFAOT_OK) return ending;
    return any_missing(inputs, outputs) ? Ending{TFAOT_INVALID_ARGUMENT, "a null pointer among inputs or outputs"} : kDone;
  }

  // The functions below need a batch for which `size` returns TFAOT_OK.

  std::size_t bytes() const { return unit_ != nullptr ? Workspace::size(*unit_) : ProgramCall::size(target_); }

  // Whether the code can use all buffers in place. If not, it needs memory for copies.
  bool in_place(const void* const* inputs, void* const* outputs) const {
    const tfaot_info& info = model_data.info;
    for (std::size_t i = 0; i < info.num_inputs; ++i) {
      if (!is_aligned(inputs[i], alignment_of(info.inputs[i]))) return false;
    }
    for (std::size_t i = 0; i < info.num_outputs; ++i) {
      if (!is_aligned(outputs[i], alignment_of(info.outputs[i]))) return false;
    }
    return true;
  }

  std::size_t bytes_of_copies() const {
    return unit_ != nullptr ? Workspace::size_of_copies(*unit_) : ProgramCall::size_of_copies(batch_size_);
  }

  // All scratch memory: what this call needs wherever buffers lie. Never 0: that tells callers of scratch_bytes that there
  // is no such batch.
  std::size_t scratch_bytes() const {
    if (members_ > 1 && !shares_layers_) return members_ * bytes_of_member();
    const std::size_t size = bytes() + bytes_of_copies() + (shares_layers_ ? members_ * target_.member_scratch_size : 0);
    return size == 0 ? kAlignment : size;
  }

  // For all batches that share an instance's memory.
  std::size_t bytes_of_all_copies() const {
    return unit_ != nullptr ? Workspace::size_of_copies(*unit_) : ProgramCall::size_of_copies();
  }

  // Prepare memory, once for any number of runs in it.
  void lay_out(unsigned char* memory) const {
    if (unit_ != nullptr) Workspace(*unit_, memory).lay_out();
  }

  Ending run(const void* const* inputs, void* const* outputs, unsigned char* memory, unsigned char* copies) const {
    // Answers do not depend on how the caller's arithmetic rounds (decision 039), and nothing in it traps.
    const StandardArithmetic standard;
    if (unit_ != nullptr) return run_unit(inputs, outputs, memory, copies);
    return run_program({ProgramCall(target_, sizes_, inputs, outputs, memory, nullptr), 0, batch_size_, copies, copies == nullptr});
  }

  // In `scratch`, which has scratch_bytes() bytes. What serves teams only is small instead of fast: parts take microseconds.
  [[gnu::cold]] Ending run(const tfaot_team& team, const void* const* inputs, void* const* outputs, unsigned char* scratch) const {
    const StandardArithmetic standard;
    if (!shares_layers_) return run_rows(team, inputs, outputs, scratch);
    unsigned char* const copies = scratch + bytes();
    const LentTeam lent(team, members_, copies + bytes_of_copies(), target_.member_scratch_size);
    const bool is_in_place = in_place(inputs, outputs);
    return run_program({ProgramCall(target_, sizes_, inputs, outputs, scratch, &lent), 0, batch_size_,
                        is_in_place ? nullptr : copies, is_in_place});
  }

  // Whether the threads of a team share the work.
  bool is_divided() const { return members_ > 1; }

 private:
  // The most threads of a team that compute.
  static constexpr std::size_t kMostMembers = 256;
  // The least time of a part of a batch, in nanoseconds as the costs of the model estimate it (benchmarks/threads.py).
  static constexpr double kLeastPart = 5000.0;

  // What threads gain less by sharing layers, which they begin and end together, than by rows: a thread with rows may be idle an
  // eighth of the time (benchmarks/threads.py).
  static constexpr double kOfLayers = 0.875;

  // Decides how `team_size` threads share the work: rows, unless large layers take less time. They do if rows leave threads idle,
  // or if each row of a few takes as long as all together, because the weights have to be read.
  [[gnu::cold]] void divide(std::size_t team_size) {
    const std::size_t parts = can_divide_rows() ? most_parts(team_size) : 1;
    const std::int64_t rounds = parts == 0 ? batch_size_ : rows_of_part(parts);
    shares_layers_ = target_.divides_layers &&
                     cost_of(batch_size_) / static_cast<double>(team_size) < kOfLayers * cost_of(rounds);
    members_ = shares_layers_ ? team_size : parts;
    if (!shares_layers_ && parts > 1) members_ = static_cast<std::size_t>((batch_size_ + rounds - 1) / rounds);
  }

  // Not if a tensor of all rows would be written by several threads.
  static bool can_divide_rows() {
    const tfaot_info& info = model_data.info;
    for (std::size_t i = 0; i < info.num_outputs; ++i) {
      if (!info.outputs[i].has_batch_axis) return false;
    }
    return info.rows_independent != 0;
  }

  // How many parts of rows are worth it, at most `most`.
  std::size_t most_parts(std::size_t most) const {
    double parts = static_cast<double>(batch_size_);
    const double time = parts * nanoseconds_of_row() / kLeastPart;
    if (time >= 0.0 && time < parts) parts = time;
    return parts < static_cast<double>(most) ? static_cast<std::size_t>(parts) : most;
  }

  // Of this target, for each of info.batch_sizes; null if they are not known.
  [[gnu::cold]] const double* known_costs() const {
    const tfaot_info& info = model_data.info;
    for (std::size_t i = 0; info.batch_costs != nullptr && info.num_batch_sizes != 0 && i < info.num_targets; ++i) {
      if (std::strcmp(info.targets[i], target_.name) == 0) return info.batch_costs + i * info.num_batch_sizes;
    }
    return nullptr;
  }

  // What `rows` rows take on one thread: between known sizes as far as they are from both, else in proportion.
  [[gnu::cold]] double cost_of(std::int64_t rows) const {
    const double* const costs = known_costs();
    if (costs == nullptr) return static_cast<double>(rows);
    const std::int64_t* const sizes = model_data.info.batch_sizes;
    std::size_t i = 0;
    while (i + 1 < model_data.info.num_batch_sizes && sizes[i] < rows) ++i;
    if (i == 0 || sizes[i] < rows) return costs[i] * static_cast<double>(rows) / static_cast<double>(sizes[i]);
    const double share = static_cast<double>(rows - sizes[i - 1]) / static_cast<double>(sizes[i] - sizes[i - 1]);
    return costs[i - 1] + share * (costs[i] - costs[i - 1]);
  }

  // Of the largest batch with a known cost; negative if none is known.
  double nanoseconds_of_row() const {
    const double* const costs = known_costs();
    if (costs == nullptr) return -1.0;
    const std::size_t last = model_data.info.num_batch_sizes - 1;
    return costs[last] / static_cast<double>(model_data.info.batch_sizes[last]);
  }

  std::int64_t rows_of_part(std::size_t parts) const {
    const auto count = static_cast<std::int64_t>(parts);
    return batch_size_ / count + (batch_size_ % count != 0 ? 1 : 0);
  }

  // Scratch memory of a thread that computes rows.
  std::size_t bytes_of_member() const {
    return ProgramCall::size(target_) + ProgramCall::size_of_copies(rows_of_part(members_));
  }

  struct DividedRows {
    const Computation& whole;
    const void* const* inputs;
    void* const* outputs;
    bool in_place;
    tfaot_status status;  // accessed atomically
  };

  [[gnu::cold]] Ending run_rows(const tfaot_team& team, const void* const* inputs, void* const* outputs, unsigned char* scratch) const {
    DividedRows rows = {*this, inputs, outputs, in_place(inputs, outputs), TFAOT_OK};
    Parts(team, members_, scratch, bytes_of_member()).run(members_, &compute_rows, &rows);
    return rows.status == TFAOT_OK ? kDone : rows.status == TFAOT_OUT_OF_MEMORY ? kOutOfMemory : kFailed;
  }

  [[gnu::cold]] static void compute_rows(void* argument, std::size_t number, unsigned char* scratch) {
    auto& rows = *static_cast<DividedRows*>(argument);
    const Computation& whole = rows.whole;
    const std::int64_t most = whole.rows_of_part(whole.members_), first = static_cast<std::int64_t>(number) * most;
    const std::int64_t left = whole.batch_size_ - first;
    const ProgramCall call(whole.target_, whole.sizes_, rows.inputs, rows.outputs, scratch, nullptr);
    unsigned char* const copies = scratch + ProgramCall::size(whole.target_);
    const Ending ending = whole.run_program({call, first, left < most ? left : most, copies, rows.in_place});
    if (ending.status != TFAOT_OK) __atomic_store_n(&rows.status, ending.status, __ATOMIC_RELAXED);
  }

  struct Guarded {
    Workspace workspace;
    const void* const* inputs;
    void* const* outputs;
    unsigned char* copies;
    bool succeeded;
  };

  std::size_t alignment_of(const tfaot_tensor& tensor) const {
    return unit_ != nullptr ? model_data.info.alignment : static_cast<std::size_t>(tensor.element_size);
  }

  // Rows of a program. Memory for copies is null if these are all rows, in place.
  struct GuardedProgram {
    ProgramCall call;
    std::int64_t first, rows;
    unsigned char* copies;
    bool in_place;
  };

  Ending run_program(GuardedProgram program) const {
    if (!target_.is_guarded) {
      compute(&program);
      return kDone;
    }
    const Outcome outcome = run_guarded(&compute, &program);
    if (outcome == Outcome::kDone) return kDone;
    return outcome == Outcome::kOutOfMemory ? kOutOfMemory : kFailed;
  }

  static void compute(void* argument) {
    auto& program = *static_cast<GuardedProgram*>(argument);
    if (program.copies == nullptr) {
      program.call.run(program.rows);
    } else {
      program.call.run_rows(program.first, program.rows, program.copies, program.in_place);
    }
  }

  Ending run_unit(const void* const* inputs, void* const* outputs, unsigned char* memory, unsigned char* copies) const {
    Guarded guarded = {Workspace(*unit_, memory), inputs, outputs, copies, false};
    const auto work = [](void* argument) {
      auto& g = *static_cast<Guarded*>(argument);
      g.succeeded = g.workspace.run(g.inputs, g.outputs, g.copies);
    };
    const Outcome outcome = run_guarded(work, &guarded);
    if (outcome == Outcome::kDone && guarded.succeeded) return kDone;
    return outcome == Outcome::kOutOfMemory ? kOutOfMemory : kFailed;
  }

  const Target& target_;
  std::int64_t batch_size_;
  Sizes sizes_;
  const Unit* unit_ = nullptr;  // null: the program
  std::size_t index_ = 0;
  std::size_t members_ = 1;     // threads that compute
  bool shares_layers_ = false;  // they share layers, not rows
};

// Memory that the library allocates. Its owner calls release: no destructor may run when a library is unloaded.
class Memory {
 public:
  constexpr Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  unsigned char* data() const { return data_; }
  // Other threads may ask while one reserves.
  std::size_t size() const { return __atomic_load_n(&size_, __ATOMIC_RELAXED); }

  // At least `size` bytes, whose content is lost if there were fewer; null if there is no memory.
  unsigned char* reserve(std::size_t size) {
    if (size <= size_ && data_ != nullptr) return data_;
    release();
    void* memory = nullptr;
    if (posix_memalign(&memory, kAlignment, size) != 0) return nullptr;
    data_ = static_cast<unsigned char*>(memory);
    __atomic_store_n(&size_, size, __ATOMIC_RELAXED);
    return data_;
  }

  void release() {
    std::free(data_);
    data_ = nullptr;
    __atomic_store_n(&size_, std::size_t{0}, __ATOMIC_RELAXED);
  }

 private:
  unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Exclusive use of something until the end of a scope, unless another thread has it: an exchange and a store, which take
// 4 ns together on one core of a Xeon without contention.
class InUse {
 public:
  explicit InUse(bool& busy) : busy_(__atomic_exchange_n(&busy, true, __ATOMIC_ACQUIRE) ? nullptr : &busy) {}
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() {
    if (busy_ != nullptr) __atomic_store_n(busy_, false, __ATOMIC_RELEASE);
  }
  bool granted() const { return busy_ != nullptr; }

 private:
  bool* busy_;
};

// Scratch memory for calls without their own. Each thread has a place, which it finds by its number, so that it allocates
// only once. If a thread ends, a new thread with the same number takes over its place.
class Places {
 public:
  // Calls work(memory) with the memory of a place of this thread.
  template <class Work>
  Ending with_memory(Work&& work) {
    const std::uintptr_t thread = this_thread();
    for (std::size_t i = first_place(thread), tries = 1;; i = (i + 1) % kPlaces, ++tries) {
      Place& place = places_[i];
      if (may_take(place, thread, tries > kPlaces)) {
        const InUse use(place.busy);
        if (use.granted()) return work(place.memory);
      }
      if (tries > kPlaces && tries % kPlaces == 0) sched_yield();
    }
  }

  std::size_t bytes() const {
    std::size_t size = 0;
    for (const Place& place : places_) size += place.memory.size();
    return size;
  }

  // The memory of calls in progress stays.
  void release() {
    for (Place& place : places_) {
      const InUse use(place.busy);
      if (use.granted()) place.memory.release();
    }
  }

 private:
  struct alignas(64) Place {
    std::uintptr_t thread = 0;  // whose it is; 0: nobody's
    bool busy = false;          // a call is in progress; accessed atomically
    Memory memory;
  };

  // A free place becomes the thread's. With `any`, all places belong to other threads, so any one that is not in use is
  // taken. A thread's own place is in use if a signal handler calls the model during a call.
  static bool may_take(Place& place, std::uintptr_t thread, bool any) {
    std::uintptr_t holder = __atomic_load_n(&place.thread, __ATOMIC_RELAXED);
    if (holder == thread || any) return true;
    return holder == 0 && __atomic_compare_exchange_n(&place.thread, &holder, thread, false, __ATOMIC_RELAXED,
                                                      __ATOMIC_RELAXED);
  }

  Place places_[kPlaces];
};

Places places;

void write_message(char* message, std::size_t size, const char* format, const char* a, const char* b) {
  if (message != nullptr && size != 0) std::snprintf(message, size, format, a, b);
}

// The message of every failure of a call.
void write_failure(char* message, std::size_t size, std::int64_t batch_size, const char* reason) {
  if (message == nullptr || size == 0) return;
  std::snprintf(message, size, "model %s, batch size %lld: %s", model_data.info.name, static_cast<long long>(batch_size),
                reason);
}

// The index of the target to run, or -1 with a status and message.
int choose_target(const char* wanted, char* message, std::size_t size, tfaot_status* status) {
  const tfaot_info& info = model_data.info;
  for (int i = static_cast<int>(info.num_targets) - 1; i >= 0; --i) {
    const TargetCode& code = model_data.targets[i];
    if (wanted != nullptr && std::strcmp(wanted, code.name) != 0) continue;
    if (code.runs_here()) return i;
    if (wanted == nullptr) continue;
    *status = TFAOT_UNSUPPORTED_CPU;
    write_message(message, size, "model %s: this CPU cannot run code for %s", info.name, wanted);
    return -1;
  }
  if (wanted != nullptr) {
    *status = TFAOT_INVALID_ARGUMENT;
    write_message(message, size, "model %s: the library has no code for target %s", info.name, wanted);
  } else {
    *status = TFAOT_UNSUPPORTED_CPU;
    write_message(message, size, "model %s: this CPU is below %s, the lowest target of the library", info.name,
                  info.targets[0]);
  }
  return -1;
}

// Memory that an instance holds for the program, or for a unit.
struct Holding {
  Memory work;    // empty until first used
  Memory copies;  // empty until buffers of the caller have to be copied
};

}  // namespace
}  // namespace tfaot_native

struct tfaot_instance {
  bool busy;  // a run is in progress; accessed atomically
  const tfaot_native::Target* target;
  tfaot_native::Holding* holdings;
  char message[TFAOT_MESSAGE_SIZE];
};

namespace tfaot_native {
namespace {

const tfaot_code* code_of(const Target* target) { return reinterpret_cast<const tfaot_code*>(target); }
const Target& target_of(const tfaot_code* code) { return *reinterpret_cast<const Target*>(code); }

// The units of a target allocate their tables when they are first asked for, which may fail.
struct Preparation {
  const Target* (*units)();
  const Target* target;
};

void prepare(void* argument) {
  auto* const preparation = static_cast<Preparation*>(argument);
  preparation->target = preparation->units();
}

tfaot_status out_of_memory(char* message, std::size_t message_size) {
  write_message(message, message_size, "model %s: out of memory%s", model_data.info.name, "");
  return TFAOT_OUT_OF_MEMORY;
}

}  // namespace

tfaot_status select(const char* target, const tfaot_code** code, char* message, std::size_t message_size) {
  if (code == nullptr) {
    write_message(message, message_size, "model %s: no place for its code was given%s", model_data.info.name, "");
    return TFAOT_INVALID_ARGUMENT;
  }
  *code = nullptr;
  tfaot_status status = TFAOT_OK;
  const int index = choose_target(target, message, message_size, &status);
  if (index < 0) return status;
  Preparation preparation = {model_data.targets[index].units, nullptr};
  if (run_guarded(&prepare, &preparation) != Outcome::kDone) return out_of_memory(message, message_size);
  *code = code_of(preparation.target);
  return TFAOT_OK;
}

const char* code_target(const tfaot_code* code) { return target_of(code).name; }

std::size_t team_scratch_bytes(const tfaot_code* code, std::int64_t batch_size, std::size_t team_size) {
  if (code == nullptr || batch_size < 1) return 0;
  const Computation computation(target_of(code), batch_size, nullptr, team_size);
  return computation.size().status == TFAOT_OK ? computation.scratch_bytes() : 0;
}

std::size_t scratch_bytes(const tfaot_code* code, std::int64_t batch_size) {
  return team_scratch_bytes(code, batch_size, 1);
}

// Computes in `scratch`, which has scratch_bytes bytes. A computation that is divided has a team.
static Ending compute_in(const Computation& computation, const tfaot_team* team, const void* const* inputs,
                         void* const* outputs, unsigned char* scratch) {
  if (computation.is_divided()) return computation.run(*team, inputs, outputs, scratch);
  computation.lay_out(scratch);
  unsigned char* const copies = computation.in_place(inputs, outputs) ? nullptr : scratch + computation.bytes();
  return computation.run(inputs, outputs, scratch, copies);
}

tfaot_status compute_with_team(const tfaot_code* code, std::int64_t batch_size, const std::size_t* sizes,
                               const void* const* inputs, void* const* outputs, const tfaot_team* team, void* scratch,
                               std::size_t scratch_size, char* message, std::size_t message_size) {
  if (code == nullptr) {
    write_failure(message, message_size, batch_size, "no code was given");
    return TFAOT_INVALID_ARGUMENT;
  }
  if (team != nullptr && (team->size == 0 || team->run == nullptr)) {
    write_failure(message, message_size, batch_size, "a team has at least one thread, and a function that runs tasks");
    return TFAOT_INVALID_ARGUMENT;
  }
  const Computation computation(target_of(code), batch_size, sizes, team == nullptr ? 1 : team->size);
  char reason[96];
  Ending ending = computation.buffers(inputs, outputs);
  if (ending.status == TFAOT_OK) {
    const std::size_t size = computation.scratch_bytes();
    if (scratch == nullptr) {
      ending = places.with_memory([&](Memory& memory) {
        unsigned char* const own = memory.reserve(size);
        return own == nullptr ? kOutOfMemory : compute_in(computation, team, inputs, outputs, own);
      });
    } else if (scratch_size < size) {
      std::snprintf(reason, sizeof reason, "scratch memory has %zu bytes, it needs %zu", scratch_size, size);
      ending = {TFAOT_INVALID_SCRATCH, reason};
    } else if (!is_aligned(scratch, kAlignment)) {
      std::snprintf(reason, sizeof reason, "scratch memory is not aligned to %zu bytes", kAlignment);
      ending = {TFAOT_INVALID_SCRATCH, reason};
    } else {
      ending = compute_in(computation, team, inputs, outputs, static_cast<unsigned char*>(scratch));
    }
  }
  if (ending.status != TFAOT_OK) write_failure(message, message_size, batch_size, ending.reason);
  return ending.status;
}

tfaot_status compute_sized(const tfaot_code* code, std::int64_t batch_size, const std::size_t* sizes,
                           const void* const* inputs, void* const* outputs, void* scratch, std::size_t scratch_size,
                           char* message, std::size_t message_size) {
  return compute_with_team(code, batch_size, sizes, inputs, outputs, nullptr, scratch, scratch_size, message, message_size);
}

tfaot_status compute(const tfaot_code* code, std::int64_t batch_size, const void* const* inputs, void* const* outputs,
                     void* scratch, std::size_t scratch_size, char* message, std::size_t message_size) {
  return compute_sized(code, batch_size, nullptr, inputs, outputs, scratch, scratch_size, message, message_size);
}

std::uint32_t permit(const tfaot_code* code, std::uint32_t features) {
  if (code == nullptr || target_of(code).permit_tiles == nullptr) return 0;
  return target_of(code).permit_tiles((features & TFAOT_TILES) != 0) != 0 ? TFAOT_TILES : 0;
}

std::size_t kept_bytes() { return places.bytes(); }

void release() { places.release(); }

tfaot_status create(const char* target, tfaot_instance** instance, char* message, std::size_t message_size) {
  if (instance == nullptr) {
    write_message(message, message_size, "model %s: no place for an instance was given%s", model_data.info.name, "");
    return TFAOT_INVALID_ARGUMENT;
  }
  *instance = nullptr;
  const tfaot_code* code = nullptr;
  const tfaot_status status = select(target, &code, message, message_size);
  if (status != TFAOT_OK) return status;
  auto* const holdings = new (std::nothrow) Holding[Computation::number_of_memories(target_of(code))];
  auto* const made = holdings != nullptr ? new (std::nothrow) tfaot_instance() : nullptr;
  if (made == nullptr) {
    delete[] holdings;
    return out_of_memory(message, message_size);
  }
  made->target = &target_of(code);
  made->holdings = holdings;
  *instance = made;
  return TFAOT_OK;
}

void destroy(tfaot_instance* instance) {
  if (instance == nullptr) return;
  for (std::size_t i = 0; i < Computation::number_of_memories(*instance->target); ++i) {
    instance->holdings[i].work.release();
    instance->holdings[i].copies.release();
  }
  delete[] instance->holdings;
  delete instance;
}

// As `compute`, in memory that the instance keeps prepared.
static Ending run_in(tfaot_instance* instance, std::int64_t batch_size, Sizes sizes, const void* const* inputs,
              void* const* outputs) {
  const Computation computation(*instance->target, batch_size, sizes);
  const Ending ending = computation.buffers(inputs, outputs);
  if (ending.status != TFAOT_OK) return ending;
  Holding& holding = instance->holdings[computation.index()];
  if (holding.work.data() == nullptr) {
    if (holding.work.reserve(computation.bytes()) == nullptr) return kOutOfMemory;
    computation.lay_out(holding.work.data());
  }
  unsigned char* copies = nullptr;
  if (!computation.in_place(inputs, outputs)) {
    copies = holding.copies.reserve(computation.bytes_of_all_copies());
    if (copies == nullptr) return kOutOfMemory;
  }
  return computation.run(inputs, outputs, holding.work.data(), copies);
}

tfaot_status run_sized(tfaot_instance* instance, std::int64_t batch_size, const std::size_t* sizes,
                       const void* const* inputs, void* const* outputs) {
  if (instance == nullptr) return TFAOT_INVALID_ARGUMENT;
  const InUse use(instance->busy);
  if (!use.granted()) return TFAOT_BUSY;
  const Ending ending = run_in(instance, batch_size, sizes, inputs, outputs);
  if (ending.status != TFAOT_OK) write_failure(instance->message, sizeof instance->message, batch_size, ending.reason);
  return ending.status;
}

tfaot_status run(tfaot_instance* instance, std::int64_t batch_size, const void* const* inputs, void* const* outputs) {
  return run_sized(instance, batch_size, nullptr, inputs, outputs);
}

const char* message(const tfaot_instance* instance) { return instance == nullptr ? "" : instance->message; }

const char* target(const tfaot_instance* instance) { return instance->target->name; }

std::size_t memory(const tfaot_instance* instance) {
  const std::size_t count = Computation::number_of_memories(*instance->target);
  std::size_t size = sizeof(tfaot_instance) + count * sizeof(Holding);
  for (std::size_t i = 0; i < count; ++i) size += instance->holdings[i].work.size() + instance->holdings[i].copies.size();
  return size;
}

const tfaot_model_table* model_table() {
  static const tfaot_model_table table = {
      TFAOT_ABI_VERSION, sizeof(tfaot_model_table), &model_data.info, &create, &destroy, &run, &message, &target, &memory,
      &select,           &code_target, &scratch_bytes, &compute, &kept_bytes, &release, &compute_sized, &run_sized,
      &state_bytes,      &save_state, &restore_state, &team_scratch_bytes, &compute_with_team,
      &serve_thread_pool, &stop_thread_pool, &run_on_thread_pool, &permit,
  };
  return &table;
}

}  // namespace tfaot_native
