// A compiled model in the form that the tfaot::Model of CMSSW's PhysicsTools/TensorFlowAOT expects: a buffer per batch size
// and tensor, accessed by index. It uses only the C ABI, because that package defines the same names in namespace tfaot.
#ifndef TFAOT_CMSDIST_WRAPPER_H_
#define TFAOT_CMSDIST_WRAPPER_H_

#include <tfaot/macros_off.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/c_api.h>

namespace tfaot_cmssw {
inline namespace v1 {

/// The constant of the element type `Element`, such as TFAOT_FLOAT32.
template <class Element>
constexpr std::int32_t dtype_of() noexcept {
  if (std::is_same<Element, bool>::value) return TFAOT_BOOL;
  if (std::is_same<Element, float>::value) return TFAOT_FLOAT32;
  if (std::is_same<Element, double>::value) return TFAOT_FLOAT64;
  if (!std::is_integral<Element>::value) return 0;
  const bool is_signed = std::is_signed<Element>::value;
  switch (sizeof(Element)) {
    case 1: return is_signed ? TFAOT_INT8 : TFAOT_UINT8;
    case 2: return is_signed ? TFAOT_INT16 : TFAOT_UINT16;
    case 4: return is_signed ? TFAOT_INT32 : TFAOT_UINT32;
    default: return is_signed ? TFAOT_INT64 : TFAOT_UINT64;
  }
}

/// An instance of a model with buffers for all compiled batch sizes. It serves one thread at a time. Every tensor has a
/// batch axis. Wrong arguments (a size that was not compiled, an index, an element type) throw.
class Wrapper {
 public:
  Wrapper(const tfaot_model_table& table, const std::string& name) : table_(table), name_(name) {
    char message[TFAOT_MESSAGE_SIZE] = "";
    tfaot_instance* instance = nullptr;
    if (table.create(nullptr, &instance, message, sizeof message) != TFAOT_OK) fail(message);
    instance_ = {instance, table.destroy};
    const tfaot_info& info = *table.info;
    for (std::size_t i = 0; i < info.num_batch_sizes; ++i) {
      const std::size_t size = static_cast<std::size_t>(info.batch_sizes[i]);
      batchSizes_.push_back(size);
      Buffers& buffers = buffers_[size];
      allocate(info.inputs, info.num_inputs, size, buffers.args, argCounts_[size]);
      allocate(info.outputs, info.num_outputs, size, buffers.results, resultCounts_[size]);
    }
    argCountsNoBatch_ = row_sizes(info.inputs, info.num_inputs);
    resultCountsNoBatch_ = row_sizes(info.outputs, info.num_outputs);
  }

  Wrapper(const Wrapper&) = delete;
  Wrapper& operator=(const Wrapper&) = delete;

  const std::string& name() const { return name_; }

  const std::vector<std::size_t>& batchSizes() const { return batchSizes_; }
  std::size_t nBatchSizes() const { return batchSizes_.size(); }
  bool hasBatchSize(std::size_t batchSize) const { return buffers_.count(batchSize) != 0; }

  /// Inputs: their number, elements by batch size, elements of one row, and addresses.
  std::size_t nArgs() const { return argCountsNoBatch_.size(); }
  const std::map<std::size_t, std::vector<std::size_t>>& argCounts() const { return argCounts_; }
  const std::vector<std::size_t>& argCountsNoBatch() const { return argCountsNoBatch_; }
  int argCount(std::size_t batchSize, std::size_t index) const {
    return static_cast<int>(at(argCounts_, batchSize)[checked(index, nArgs(), "input")]);
  }
  int argCountNoBatch(std::size_t index) const {
    return static_cast<int>(argCountsNoBatch_[checked(index, nArgs(), "input")]);
  }
  template <class Element>
  Element* argData(std::size_t batchSize, std::size_t index) {
    return data<Element>(at(buffers_, batchSize).args, table_.info->inputs, checked(index, nArgs(), "input"));
  }
  template <class Element>
  const Element* argData(std::size_t batchSize, std::size_t index) const {
    return data<Element>(at(buffers_, batchSize).args, table_.info->inputs, checked(index, nArgs(), "input"));
  }

  /// The same for outputs.
  std::size_t nResults() const { return resultCountsNoBatch_.size(); }
  const std::map<std::size_t, std::vector<std::size_t>>& resultCounts() const { return resultCounts_; }
  const std::vector<std::size_t>& resultCountsNoBatch() const { return resultCountsNoBatch_; }
  int resultCount(std::size_t batchSize, std::size_t index) const {
    return static_cast<int>(at(resultCounts_, batchSize)[checked(index, nResults(), "output")]);
  }
  int resultCountNoBatch(std::size_t index) const {
    return static_cast<int>(resultCountsNoBatch_[checked(index, nResults(), "output")]);
  }
  template <class Element>
  Element* resultData(std::size_t batchSize, std::size_t index) {
    return data<Element>(at(buffers_, batchSize).results, table_.info->outputs, checked(index, nResults(), "output"));
  }
  template <class Element>
  const Element* resultData(std::size_t batchSize, std::size_t index) const {
    return data<Element>(at(buffers_, batchSize).results, table_.info->outputs, checked(index, nResults(), "output"));
  }

  /// Compute the batch whose inputs are in the buffers of this size. False if that failed.
  bool runSilent(std::size_t batchSize) {
    const Buffers& buffers = at(buffers_, batchSize);
    std::vector<const void*>& in = inputs_;
    std::vector<void*>& out = outputs_;
    in.assign(buffers.args.size(), nullptr);
    out.assign(buffers.results.size(), nullptr);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = buffers.args[i].get();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = buffers.results[i].get();
    return table_.run(instance_.get(), static_cast<std::int64_t>(batchSize), in.data(), out.data()) == TFAOT_OK;
  }

  /// The same; throws if it failed.
  void run(std::size_t batchSize) {
    if (!runSilent(batchSize)) fail(table_.message(instance_.get()));
  }

 private:
  struct Free {
    std::align_val_t alignment{};
    void operator()(void* bytes) const { ::operator delete(bytes, alignment); }
  };
  using Bytes = std::unique_ptr<void, Free>;
  struct Buffers {
    std::vector<Bytes> args, results;
  };

  [[__noreturn__]] void fail(const std::string& reason) const {
    throw std::runtime_error("model '" + name_ + "': " + reason);
  }

  void allocate(const tfaot_tensor* tensors, std::size_t count, std::size_t size, std::vector<Bytes>& bytes,
                std::vector<std::size_t>& elements) {
    const std::align_val_t alignment{table_.info->alignment};
    for (std::size_t i = 0; i < count; ++i) {
      elements.push_back(size * static_cast<std::size_t>(tensors[i].row_elements));
      const std::size_t length = elements.back() * static_cast<std::size_t>(tensors[i].element_size);
      // One byte more, because an empty tensor needs an address, too.
      bytes.emplace_back(::operator new(length + 1, alignment), Free{alignment});
      std::memset(bytes.back().get(), 0, length);
    }
  }

  static std::vector<std::size_t> row_sizes(const tfaot_tensor* tensors, std::size_t count) {
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < count; ++i) sizes.push_back(static_cast<std::size_t>(tensors[i].row_elements));
    return sizes;
  }

  template <class Element>
  Element* data(const std::vector<Bytes>& bytes, const tfaot_tensor* tensors, std::size_t index) const {
    if (tensors[index].dtype != dtype_of<Element>()) {
      fail("\"" + std::string(tensors[index].name) + "\" has elements of another type");
    }
    return static_cast<Element*>(bytes[index].get());
  }

  template <class Value>
  const Value& at(const std::map<std::size_t, Value>& values, std::size_t batchSize) const {
    const auto found = values.find(batchSize);
    if (found == values.end()) fail("batch size " + std::to_string(batchSize) + " was not compiled");
    return found->second;
  }

  std::size_t checked(std::size_t index, std::size_t count, const char* what) const {
    if (index >= count) fail("there is no " + std::string(what) + " of index " + std::to_string(index));
    return index;
  }

  const tfaot_model_table& table_;
  std::string name_;
  std::unique_ptr<tfaot_instance, void (*)(tfaot_instance*)> instance_{nullptr, nullptr};
  std::vector<std::size_t> batchSizes_, argCountsNoBatch_, resultCountsNoBatch_;
  std::map<std::size_t, std::vector<std::size_t>> argCounts_, resultCounts_;
  std::map<std::size_t, Buffers> buffers_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace v1
}  // namespace tfaot_cmssw

#endif  // TFAOT_CMSDIST_WRAPPER_H_
