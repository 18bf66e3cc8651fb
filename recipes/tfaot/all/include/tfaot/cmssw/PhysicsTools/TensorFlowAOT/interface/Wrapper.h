// tfaot::Wrapper: tensors by index in buffers of its own, one set per compiled batch size, like CMSSW's class of this name.
//
//     tfaot::Wrapper wrapper(tfaot_model::digits::table());
//     std::copy(image, image + wrapper.argCount(1, 0), wrapper.argData<float>(1, 0));
//     wrapper.run(1);
//     const float* const probability = wrapper.resultData<float>(1, 1);
//
// Unlike CMSSW's it is not the base of the generated classes but made from their table, and it checks element types.
// `allocMode` is missing: it belongs to tfcompile's class. For batches of any size use tfaot::Model.
#ifndef TFAOT_CMSSW_WRAPPER_H_
#define TFAOT_CMSSW_WRAPPER_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/aligned_bytes.h>
#include <tfaot/arguments.h>
#include <tfaot/error.h>
#include <tfaot/instance.h>
#include <tfaot/tensor.h>

#include "PhysicsTools/TensorFlowAOT/interface/Util.h"

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// An instance of a model with buffers for its arguments (inputs) and results (outputs). One thread at a time.
///
/// Functions throw Error if the model does not have the given batch size or index.
class Wrapper {
 public:
  /// As `Instance`. Throws Error.
  explicit Wrapper(const Table& table, const char* target = nullptr)
      : instance_(table, target), name_(info().name), sizes_(detail::compiled_sizes(table)) {
    for (std::size_t i = 0; i < nArgs(); ++i) argRows_.push_back(elements(info().inputs[i], 1));
    for (std::size_t i = 0; i < nResults(); ++i) resultRows_.push_back(elements(info().outputs[i], 1));
    for (const std::size_t size : sizes_) {
      for (std::size_t i = 0; i < nArgs(); ++i) argCounts_[size].push_back(elements(info().inputs[i], size));
      for (std::size_t i = 0; i < nResults(); ++i) resultCounts_[size].push_back(elements(info().outputs[i], size));
    }
  }

  const std::string& name() const noexcept { return name_; }

  /// The batch sizes that the library lists, ascending. There are buffers for these only, whatever else it can run.
  const std::vector<std::size_t>& batchSizes() const noexcept { return sizes_; }
  std::size_t nBatchSizes() const noexcept { return sizes_.size(); }
  bool hasBatchSize(std::size_t batchSize) const noexcept {
    for (const std::size_t size : sizes_) {
      if (size == batchSize) return true;
    }
    return false;
  }

  /// Numbers of elements: by batch size, and of one row.
  std::size_t nArgs() const noexcept { return info().num_inputs; }
  const std::map<std::size_t, std::vector<std::size_t>>& argCounts() const noexcept { return argCounts_; }
  const std::vector<std::size_t>& argCountsNoBatch() const noexcept { return argRows_; }
  int argCount(std::size_t batchSize, std::size_t argIndex) const {
    check(batchSize, "argument", argIndex, nArgs());
    return static_cast<int>(argCounts_.at(batchSize)[argIndex]);
  }
  int argCountNoBatch(std::size_t argIndex) const {
    check(sizes_.front(), "argument", argIndex, nArgs());
    return static_cast<int>(argRows_[argIndex]);
  }

  std::size_t nResults() const noexcept { return info().num_outputs; }
  const std::map<std::size_t, std::vector<std::size_t>>& resultCounts() const noexcept { return resultCounts_; }
  const std::vector<std::size_t>& resultCountsNoBatch() const noexcept { return resultRows_; }
  int resultCount(std::size_t batchSize, std::size_t resultIndex) const {
    check(batchSize, "result", resultIndex, nResults());
    return static_cast<int>(resultCounts_.at(batchSize)[resultIndex]);
  }
  int resultCountNoBatch(std::size_t resultIndex) const {
    check(sizes_.front(), "result", resultIndex, nResults());
    return static_cast<int>(resultRows_[resultIndex]);
  }

  /// The elements of a tensor, zeros at first, in the order of `info().inputs` and `info().outputs`. Throws Error if
  /// `Element` is not its element type.
  template <class Element>
  Element* argData(std::size_t batchSize, std::size_t argIndex) {
    check<Element>(batchSize, "argument", argIndex, info().inputs, nArgs());
    return static_cast<Element*>(buffers(batchSize).arguments[argIndex]);
  }
  template <class Element>
  Element* resultData(std::size_t batchSize, std::size_t resultIndex) {
    check<Element>(batchSize, "result", resultIndex, info().outputs, nResults());
    return static_cast<Element*>(buffers(batchSize).results[resultIndex]);
  }

  /// Compute the results of this batch size from its arguments.
  void run(std::size_t batchSize) {
    check(batchSize, "argument", 0, 1);
    Buffers& data = buffers(batchSize);
    const std::vector<const void*> arguments(data.arguments.begin(), data.arguments.end());
    instance_.run_compiled(batchSize, arguments.data(), data.results.data());
  }

  /// The same; false if it failed.
  bool runSilent(std::size_t batchSize) {
#if TFAOT_EXCEPTIONS
    try {
      run(batchSize);
      return true;
    } catch (const Error&) {
      return false;
    }
#else
    run(batchSize);
    return true;
#endif
  }

 private:
  struct Buffers {
    detail::AlignedBytes bytes;
    std::vector<void*> arguments, results;
  };

  const tfaot_info& info() const noexcept { return instance_.info(); }

  static std::size_t elements(const tfaot_tensor& tensor, std::size_t batchSize) noexcept {
    return static_cast<std::size_t>(tensor.row_elements) * (tensor.has_batch_axis != 0 ? batchSize : 1);
  }

  void check(std::size_t batchSize, const char* kind, std::size_t index, std::size_t count) const {
    if (!hasBatchSize(batchSize)) detail::raise(Error(name_, "batch size", "a compiled one", std::to_string(batchSize)));
    if (index >= count) {
      detail::raise(Error(name_, std::string("index of ") + kind, "one below " + std::to_string(count), std::to_string(index)));
    }
  }

  template <class Element>
  void check(std::size_t batchSize, const char* kind, std::size_t index, const tfaot_tensor* tensors,
             std::size_t count) const {
    check(batchSize, kind, index, count);
    if (tensors[index].dtype != static_cast<std::int32_t>(dtype_of<Element>)) {
      detail::raise(Error(name_, std::string(kind) + " \"" + tensors[index].name + "\"",
                  dtype_name(static_cast<DType>(tensors[index].dtype)), dtype_name(dtype_of<Element>)));
    }
  }

  // Allocated when the batch size is first used.
  Buffers& buffers(std::size_t batchSize) {
    Buffers& made = buffers_[batchSize];
    if (made.bytes.size() != 0) return made;
    std::vector<std::size_t> offsets;
    std::size_t size = 0;
    const auto add = [&](const tfaot_tensor& tensor, std::size_t count) {
      offsets.push_back(size);
      const std::size_t bytes = count * static_cast<std::size_t>(tensor.element_size);
      size += (bytes / detail::kBufferAlignment + 1) * detail::kBufferAlignment;
    };
    for (std::size_t i = 0; i < nArgs(); ++i) add(info().inputs[i], argCounts_[batchSize][i]);
    for (std::size_t i = 0; i < nResults(); ++i) add(info().outputs[i], resultCounts_[batchSize][i]);
    std::byte* const data = made.bytes.reserve(size, detail::kBufferAlignment);
    std::memset(data, 0, size);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      (i < nArgs() ? made.arguments : made.results).push_back(data + offsets[i]);
    }
    return made;
  }

  Instance instance_;
  std::string name_;
  std::vector<std::size_t> sizes_, argRows_, resultRows_;
  std::map<std::size_t, std::vector<std::size_t>> argCounts_, resultCounts_;
  std::map<std::size_t, Buffers> buffers_;
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_CMSSW_WRAPPER_H_
