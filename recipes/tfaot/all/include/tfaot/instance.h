// tfaot/instance.h: one instance of a compiled model, without types: pointers in, pointers out.
//
// The generated classes check types and sizes and then come here. What this adds to the C ABI: ownership, exceptions,
// and batches of any size.
#ifndef TFAOT_INSTANCE_H_
#define TFAOT_INSTANCE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <tfaot/abi.h>
#include <tfaot/batching.h>
#include <tfaot/error.h>
#include <tfaot/span.h>

namespace tfaot {
inline namespace v1 {

namespace detail {

/// Bytes at an alignment; grows, never shrinks.
class AlignedBytes {
 public:
  AlignedBytes() noexcept = default;
  AlignedBytes(AlignedBytes&& other) noexcept { swap(other); }
  AlignedBytes& operator=(AlignedBytes&& other) noexcept {
    swap(other);
    return *this;
  }
  ~AlignedBytes() { release(); }

  /// At least `size` bytes; what was there before is lost when they had to be allocated anew.
  std::byte* reserve(std::size_t size, std::size_t alignment) {
    if (size > size_) {
      release();
      data_ = static_cast<std::byte*>(::operator new(size, std::align_val_t{alignment}));
      size_ = size;
      alignment_ = alignment;
    }
    return data_;
  }

  std::size_t size() const noexcept { return size_; }

 private:
  void swap(AlignedBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(alignment_, other.alignment_);
  }
  void release() noexcept {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{alignment_});
    data_ = nullptr;
    size_ = 0;
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t alignment_ = 1;
};

/// Bytes of one row; of the whole tensor where it has no batch axis.
inline std::size_t row_bytes(const tfaot_tensor& tensor) noexcept {
  return static_cast<std::size_t>(tensor.row_elements) * static_cast<std::size_t>(tensor.element_size);
}

}  // namespace detail

/// An instance of a model: scratch memory over the model's constant weights. It serves one thread at a time; the
/// documented pattern is one instance per thread. It can be moved, not copied.
class Instance {
 public:
  /// An instance that runs the code of `target` ("x86-64-v3"), or of the best one for this CPU where it is null.
  /// Throws Error: the CPU lacks what the lowest target needs, no such target, the library is too old, no memory.
  explicit Instance(const Table& table, const char* target = nullptr)
      : table_(&table), inputs_(table.info->num_inputs), outputs_(table.info->num_outputs) {
    if (table.abi_version < TFAOT_ABI_VERSION) {
      throw Error(table.info->name, "ABI version of the library",
                  "at least " + std::to_string(TFAOT_ABI_VERSION), std::to_string(table.abi_version));
    }
    char message[TFAOT_MESSAGE_SIZE] = "";
    if (table.create(target, &handle_, message, sizeof message) != TFAOT_OK) {
      throw Error(table.info->name, message);
    }
  }

  Instance(Instance&& other) noexcept
      : table_(other.table_),
        handle_(std::exchange(other.handle_, nullptr)),
        inputs_(std::move(other.inputs_)),
        outputs_(std::move(other.outputs_)),
        scratch_(std::move(other.scratch_)) {}

  Instance& operator=(Instance&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(handle_, other.handle_);
    inputs_.swap(other.inputs_);
    outputs_.swap(other.outputs_);
    scratch_ = std::move(other.scratch_);
    return *this;
  }

  ~Instance() {
    if (handle_ != nullptr) table_->destroy(handle_);
  }

  const tfaot_info& info() const noexcept { return *table_->info; }

  /// The target whose code this instance runs.
  const char* target() const { return table_->target(checked_handle()); }

  /// Bytes that this instance holds now, without the object itself.
  std::size_t memory() const { return table_->memory(checked_handle()) + scratch_.size(); }

  /// Compute `batch_size` rows: one pointer per tensor, in the order of `info()`, none null.
  ///
  /// A batch size that was compiled runs in place. Any other is made of those that were (batching.h); this needs a
  /// batch axis in every output. The first run of a size may allocate, later ones do not. Throws Error.
  void run(std::size_t batch_size, const void* const* inputs, void* const* outputs) {
    tfaot_instance* handle = checked_handle();
    if (is_compiled(batch_size)) {
      run_step(handle, batch_size, inputs, outputs);
      return;
    }
    check_can_be_split(batch_size);
    for (std::size_t done = 0; done < batch_size;) {
      const BatchStep step = next_step(batch_size - done, compiled_sizes());
      if (step.padding == 0) {
        run_rows(handle, done, step.size, inputs, outputs);
      } else {
        run_padded(handle, done, step, inputs, outputs);
      }
      done += step.size - step.padding;
    }
  }

 private:
  tfaot_instance* checked_handle() const {
    if (handle_ == nullptr) throw Error(info().name, "this instance was moved from");
    return handle_;
  }

  span<const std::int64_t> compiled_sizes() const noexcept { return {info().batch_sizes, info().num_batch_sizes}; }

  bool is_compiled(std::size_t batch_size) const noexcept {
    for (const std::int64_t size : compiled_sizes()) {
      if (static_cast<std::size_t>(size) == batch_size) return true;
    }
    return false;
  }

  // An output without a batch axis depends on the whole batch: the parts' values cannot be put together.
  void check_can_be_split(std::size_t batch_size) const {
    for (std::size_t i = 0; i < info().num_outputs; ++i) {
      if (info().outputs[i].has_batch_axis != 0) continue;
      std::string expected = "a compiled one (";
      for (const std::int64_t size : compiled_sizes()) {
        if (expected.back() != '(') expected += ", ";
        expected += std::to_string(size);
      }
      expected += ") because output \"" + std::string(info().outputs[i].name) + "\" has no batch axis";
      throw Error(info().name, "batch size", expected, std::to_string(batch_size));
    }
  }

  void run_step(tfaot_instance* handle, std::size_t size, const void* const* inputs, void* const* outputs) {
    if (table_->run(handle, static_cast<std::int64_t>(size), inputs, outputs) != TFAOT_OK) {
      throw Error(info().name, table_->message(handle));
    }
  }

  // Rows [first, first + size) of the caller's buffers, in place.
  void run_rows(tfaot_instance* handle, std::size_t first, std::size_t size, const void* const* inputs,
                void* const* outputs) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i] = static_cast<const std::byte*>(inputs[i]) + offset(info().inputs[i], first);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i] = static_cast<std::byte*>(outputs[i]) + offset(info().outputs[i], first);
    }
    run_step(handle, size, inputs_.data(), outputs_.data());
  }

  // Rows [first, first + size - padding), through scratch memory. The last row is repeated as padding: unlike zeros,
  // it is sure to be a value that the model can take.
  void run_padded(tfaot_instance* handle, std::size_t first, BatchStep step, const void* const* inputs,
                  void* const* outputs) {
    const std::size_t rows = step.size - step.padding;
    std::byte* next = scratch_.reserve(scratch_bytes(step.size), info().alignment);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const tfaot_tensor& tensor = info().inputs[i];
      const std::byte* source = static_cast<const std::byte*>(inputs[i]) + offset(tensor, first);
      if (tensor.has_batch_axis == 0) {
        inputs_[i] = source;
        continue;
      }
      const std::size_t row = detail::row_bytes(tensor);
      std::memcpy(next, source, rows * row);
      for (std::size_t j = rows; j < step.size; ++j) std::memcpy(next + j * row, next + (rows - 1) * row, row);
      inputs_[i] = next;
      next += aligned(step.size * row);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i] = next;
      next += aligned(step.size * detail::row_bytes(info().outputs[i]));
    }
    run_step(handle, step.size, inputs_.data(), outputs_.data());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const tfaot_tensor& tensor = info().outputs[i];
      std::memcpy(static_cast<std::byte*>(outputs[i]) + offset(tensor, first), outputs_[i],
                  rows * detail::row_bytes(tensor));
    }
  }

  std::size_t scratch_bytes(std::size_t size) const noexcept {
    std::size_t bytes = 1;
    for (std::size_t i = 0; i < info().num_inputs; ++i) {
      const tfaot_tensor& tensor = info().inputs[i];
      if (tensor.has_batch_axis != 0) bytes += aligned(size * detail::row_bytes(tensor));
    }
    for (std::size_t i = 0; i < info().num_outputs; ++i) {
      bytes += aligned(size * detail::row_bytes(info().outputs[i]));
    }
    return bytes;
  }

  std::size_t aligned(std::size_t bytes) const noexcept {
    const std::size_t alignment = info().alignment;
    return (bytes + alignment - 1) / alignment * alignment;
  }

  static std::size_t offset(const tfaot_tensor& tensor, std::size_t row) noexcept {
    return tensor.has_batch_axis != 0 ? row * detail::row_bytes(tensor) : 0;
  }

  const Table* table_;
  tfaot_instance* handle_ = nullptr;
  std::vector<const void*> inputs_;  // pointers of the step that runs
  std::vector<void*> outputs_;
  detail::AlignedBytes scratch_;  // of padded steps
};

}  // namespace v1
}  // namespace tfaot

#endif  // TFAOT_INSTANCE_H_
