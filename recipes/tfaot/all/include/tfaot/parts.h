// tfaot/parts.h: batches that are composed of compiled sizes, in memory of the caller.
#ifndef TFAOT_PARTS_H_
#define TFAOT_PARTS_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <cstring>
#include <string>

#include <tfaot/macros_on.h>

#include <tfaot/abi.h>
#include <tfaot/batching.h>
#include <tfaot/error.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

/// Bytes of one row; of the whole tensor if it has no batch axis.
inline std::size_t row_bytes(const tfaot_tensor& tensor) noexcept {
  return static_cast<std::size_t>(tensor.row_elements) * static_cast<std::size_t>(tensor.element_size);
}

/// Whether batches of other sizes may be composed of compiled ones. Assumed for libraries that do not say.
inline bool rows_independent(const tfaot_info& info) noexcept {
  constexpr std::size_t known = offsetof(tfaot_info, rows_independent) + sizeof info.rows_independent;
  return info.struct_size < known || info.rows_independent != 0;
}

/// Whether `run` of the library takes every number of rows from 1 on. Older libraries end before the field, or have 0.
inline bool any_batch_size(const tfaot_info& info) noexcept {
  constexpr std::size_t known = offsetof(tfaot_info, any_batch_size) + sizeof info.any_batch_size;
  return info.struct_size >= known && info.any_batch_size != 0;
}

/// Whether `batch_size` is one of the compiled sizes: any but 0, if the model is compiled for any size.
inline bool is_compiled(const tfaot_info& info, std::size_t batch_size) noexcept {
  if (any_batch_size(info)) return batch_size != 0;
  for (std::size_t i = 0; i < info.num_batch_sizes; ++i) {
    if (static_cast<std::size_t>(info.batch_sizes[i]) == batch_size) return true;
  }
  return false;
}

/// The index of the first output without a batch axis; the number of outputs if all have one.
inline std::size_t whole_output(const tfaot_info& info) noexcept {
  std::size_t i = 0;
  while (i < info.num_outputs && info.outputs[i].has_batch_axis != 0) ++i;
  return i;
}

/// Whether a batch can be composed of others.
inline bool can_be_split(const tfaot_info& info) noexcept {
  return rows_independent(info) && whole_output(info) == info.num_outputs;
}

/// "1, 4"
inline std::string listed_sizes(const tfaot_info& info) {
  std::string listed;
  for (std::size_t i = 0; i < info.num_batch_sizes; ++i) {
    listed += (i == 0 ? "" : ", ") + std::to_string(info.batch_sizes[i]);
  }
  return listed;
}

/// Why a batch cannot be composed of others, if it cannot.
inline Outcome split_outcome(const tfaot_info& info, std::size_t batch_size) {
  if (can_be_split(info)) return {};
  const std::size_t whole = whole_output(info);
  const std::string reason = whole == info.num_outputs
                                 ? "rows of this model depend on one another"
                                 : "output \"" + std::string(info.outputs[whole].name) + "\" has no batch axis";
  const std::string compiled = any_batch_size(info) ? std::string(batch_size == 0 ? "at least 1 row" : "one call")
                                                    : "a compiled one (" + listed_sizes(info) + ")";
  return Error(info.name, "batch size", compiled + " because " + reason, std::to_string(batch_size));
}

/// Runs parts of a batch as calls of compiled sizes. Pointers of a call, one per tensor, go to `inputs` and `outputs`;
/// padded rows lie in `padded`, of `padded_bytes`.
class Parts {
 public:
  Parts(const tfaot_info& info, const void** inputs, void** outputs, std::byte* padded) noexcept
      : info_(info), inputs_(inputs), outputs_(outputs), padded_(padded) {}

  /// Bytes for padded calls of `size` rows, with the library's alignment.
  static std::size_t padded_bytes(const tfaot_info& info, std::size_t size) noexcept {
    std::size_t bytes = 1;
    for (std::size_t i = 0; i < info.num_inputs; ++i) {
      const tfaot_tensor& tensor = info.inputs[i];
      if (tensor.has_batch_axis != 0) bytes += aligned(info, size * row_bytes(tensor));
    }
    for (std::size_t i = 0; i < info.num_outputs; ++i) bytes += aligned(info, size * row_bytes(info.outputs[i]));
    return bytes;
  }

  /// Rows from `first` on of the caller's buffers: `call(size, inputs, outputs)` computes them.
  template <class Call>
  void run(std::size_t first, BatchStep step, const void* const* inputs, void* const* outputs, Call&& call) const {
    if (step.padding == 0) {
      run_rows(first, step.size, inputs, outputs, call);
    } else {
      run_padded(first, step, inputs, outputs, call);
    }
  }

 private:
  // Rows [first, first + size) of the caller's buffers, in place.
  template <class Call>
  void run_rows(std::size_t first, std::size_t size, const void* const* inputs, void* const* outputs, Call&& call) const {
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      inputs_[i] = static_cast<const std::byte*>(inputs[i]) + offset(info_.inputs[i], first);
    }
    for (std::size_t i = 0; i < info_.num_outputs; ++i) {
      outputs_[i] = static_cast<std::byte*>(outputs[i]) + offset(info_.outputs[i], first);
    }
    call(size, inputs_, outputs_);
  }

  // Rows [first, first + size - padding), through scratch memory. The last row is repeated as padding: unlike zeros, it is
  // certainly a valid input of the model.
  template <class Call>
  void run_padded(std::size_t first, BatchStep step, const void* const* inputs, void* const* outputs, Call&& call) const {
    const std::size_t rows = step.size - step.padding;
    std::byte* next = padded_;
    for (std::size_t i = 0; i < info_.num_inputs; ++i) {
      const tfaot_tensor& tensor = info_.inputs[i];
      const std::byte* source = static_cast<const std::byte*>(inputs[i]) + offset(tensor, first);
      if (tensor.has_batch_axis == 0) {
        inputs_[i] = source;
        continue;
      }
      const std::size_t row = row_bytes(tensor);
      std::memcpy(next, source, rows * row);
      for (std::size_t j = rows; j < step.size; ++j) std::memcpy(next + j * row, next + (rows - 1) * row, row);
      inputs_[i] = next;
      next += aligned(info_, step.size * row);
    }
    for (std::size_t i = 0; i < info_.num_outputs; ++i) {
      outputs_[i] = next;
      next += aligned(info_, step.size * row_bytes(info_.outputs[i]));
    }
    call(step.size, inputs_, outputs_);
    for (std::size_t i = 0; i < info_.num_outputs; ++i) {
      const tfaot_tensor& tensor = info_.outputs[i];
      std::memcpy(static_cast<std::byte*>(outputs[i]) + offset(tensor, first), outputs_[i], rows * row_bytes(tensor));
    }
  }

  static std::size_t aligned(const tfaot_info& info, std::size_t bytes) noexcept {
    return (bytes + info.alignment - 1) / info.alignment * info.alignment;
  }

  static std::size_t offset(const tfaot_tensor& tensor, std::size_t row) noexcept {
    return tensor.has_batch_axis != 0 ? row * row_bytes(tensor) : 0;
  }

  const tfaot_info& info_;
  const void** inputs_;
  void** outputs_;
  std::byte* padded_;
};

}  // namespace detail
}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_PARTS_H_
