// One batch size of a compiled model, with the members of the classes that TensorFlow's tfcompile generates: the base of
// the classes in NAME_bsN.h. It uses only the C ABI, so that it can be included together with CMSSW's own tfaot headers.
#ifndef TFAOT_COMPILED_FUNCTION_H_
#define TFAOT_COMPILED_FUNCTION_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/c_api.h>
#include <tfaot/permissions.h>
#include <tfaot/team.h>

// Without exceptions, functions of these classes are other ones (version.h).
#if TFAOT_EXCEPTIONS
#define TFAOT_CMSSW_NAMESPACE v2
#else
#define TFAOT_CMSSW_NAMESPACE v2_without_exceptions
#endif

namespace tfaot_cmssw {
inline namespace TFAOT_CMSSW_NAMESPACE {

/// An instance of a model at one batch size. It serves one thread at a time.
class CompiledFunction {
 public:
  /// Whether there are buffers for the arguments. If not, callers set one for each by set_arg_data before Run.
  enum class AllocMode { ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS, RESULTS_PROFILES_AND_TEMPS_ONLY };

  CompiledFunction(const CompiledFunction&) = delete;
  CompiledFunction& operator=(const CompiledFunction&) = delete;

  /// Compute the results from the arguments. False if that failed: error_msg() says why.
  bool Run() {
    for (const void* const argument : arguments_) {
      if (argument == nullptr) return failed("an argument has no data: call set_arg_data first");
    }
    if (code_ != nullptr) return run_with_team();
    const tfaot_status status = table_.run(instance_.get(), size_, arguments_.data(), results_.data());
    if (status != TFAOT_OK) {
      return failed(status == TFAOT_BUSY ? "this instance is in use by another thread" : table_.message(instance_.get()));
    }
    error_.clear();
    return true;
  }

  /// The reason why the last Run failed; empty if it did not.
  std::string error_msg() const { return error_; }

  /// From now on Run computes on the threads of `pool`, an Eigen::ThreadPoolDevice, a pool with the functions of
  /// Eigen::ThreadPoolInterface, or an executor of tfaot/team.h; on the calling thread alone if it is null. Answers have the
  /// same bits. The pool must live longer than the last Run.
  template <class Pool>
  void set_thread_pool(const Pool* pool) {
    // Classes of TensorFlow take pools that are const, whose threads work all the same.
    set_team(pool == nullptr ? tfaot::Team() : tfaot::team_of(*const_cast<Pool*>(pool)));
  }
  void set_thread_pool(std::nullptr_t) { set_team(tfaot::Team()); }

  int num_args() const noexcept { return static_cast<int>(arguments_.size()); }
  int num_results() const noexcept { return static_cast<int>(results_.size()); }
  int num_variables() const noexcept { return 0; }

  /// Bytes of a tensor.
  int arg_size(int index) const { return static_cast<int>(bytes(input(index), size_)); }
  int result_size(int index) const { return static_cast<int>(bytes(output(index), size_)); }

  /// The address of a tensor. Throws std::out_of_range.
  void* arg_data(std::size_t index) { return const_cast<void*>(arguments_.at(index)); }
  const void* arg_data(std::size_t index) const { return arguments_.at(index); }
  void* result_data(std::size_t index) { return results_.at(index); }
  const void* result_data(std::size_t index) const { return results_.at(index); }
  void** results() noexcept { return results_.data(); }
  const void* const* results() const noexcept { return results_.data(); }

  /// Read an argument from memory of the caller, at every Run until it is set again. Throws std::out_of_range.
  void set_arg_data(std::size_t index, const void* data) { arguments_.at(index) = data; }

  /// The index of a tensor by its name in the model's signature; -1 if there is none.
  int LookupArgIndex(const std::string& name) const { return find(info().inputs, info().num_inputs, name); }
  int LookupResultIndex(const std::string& name) const { return find(info().outputs, info().num_outputs, name); }
  const char* GetArgName(int index) const { return input(index).name; }
  const char* GetResultName(int index) const { return output(index).name; }
  bool HasNameIndices() const noexcept { return true; }

 protected:
  /// `mode` is AllocMode, or tensorflow::XlaCompiledCpuFunction::AllocMode, which has the same values.
  template <class Mode>
  CompiledFunction(const tfaot_model_table& table, std::size_t size, Mode mode)
      : table_(table), size_(static_cast<std::int64_t>(size)) {
    static_assert(std::is_enum<Mode>::value, "the mode is an AllocMode");
    char message[TFAOT_MESSAGE_SIZE] = "";
    tfaot_instance* instance = nullptr;
    tfaot::detail::permit(table, static_cast<const char*>(nullptr));
    if (table.create(nullptr, &instance, message, sizeof message) != TFAOT_OK) {
      raise(std::runtime_error(std::string("model '") + table.info->name + "': " + message));
    }
    instance_ = {instance, table.destroy};
    const bool allocates = static_cast<int>(mode) == 0;
    for (std::size_t i = 0; i < info().num_inputs; ++i) {
      arguments_.push_back(allocates ? allocated(info().inputs[i]) : nullptr);
    }
    for (std::size_t i = 0; i < info().num_outputs; ++i) results_.push_back(allocated(info().outputs[i]));
  }

  // Instances are not deleted through this class.
  ~CompiledFunction() = default;

 private:
  // As tfaot::detail::raise of error.h, which cannot be included together with CMSSW's headers.
  template <class Failure>
  [[__noreturn__]] static void raise(const Failure& failure) {
#if TFAOT_EXCEPTIONS
    throw failure;
#else
    std::fprintf(stderr, "%s\n", failure.what());
    std::abort();
#endif
  }

  struct Free {
    std::align_val_t alignment{};
    void operator()(void* bytes) const { ::operator delete(bytes, alignment); }
  };

  // Libraries that are too old for teams compute on the calling thread.
  void set_team(const tfaot::Team& team) {
    code_ = nullptr;
    team_ = team;
    if (team.get() == nullptr || !TFAOT_HAS(&table_, compute_with_team)) return;
    const tfaot_code* code = nullptr;
    char message[TFAOT_MESSAGE_SIZE] = "";
    if (table_.select(table_.target(instance_.get()), &code, message, sizeof message) != TFAOT_OK) {
      raise(std::runtime_error(message));
    }
    scratch_size_ = table_.team_scratch_bytes(code, size_, team.size());
    const std::align_val_t alignment{TFAOT_SCRATCH_ALIGNMENT};
    scratch_ = {::operator new(scratch_size_, alignment), Free{alignment}};
    code_ = code;
  }

  bool run_with_team() {
    char message[TFAOT_MESSAGE_SIZE] = "";
    const tfaot_status status =
        table_.compute_with_team(code_, size_, nullptr, arguments_.data(), results_.data(), team_.get(), scratch_.get(),
                                 scratch_size_, message, sizeof message);
    if (status != TFAOT_OK) return failed(message);
    error_.clear();
    return true;
  }

  const tfaot_info& info() const noexcept { return *table_.info; }

  const tfaot_tensor& input(int index) const { return at(info().inputs, info().num_inputs, index); }
  const tfaot_tensor& output(int index) const { return at(info().outputs, info().num_outputs, index); }

  static const tfaot_tensor& at(const tfaot_tensor* tensors, std::size_t count, int index) {
    if (index < 0 || static_cast<std::size_t>(index) >= count) raise(std::out_of_range("there is no such tensor"));
    return tensors[index];
  }

  static int find(const tfaot_tensor* tensors, std::size_t count, const std::string& name) {
    for (std::size_t i = 0; i < count; ++i) {
      if (name == tensors[i].name) return static_cast<int>(i);
    }
    return -1;
  }

  static std::int64_t bytes(const tfaot_tensor& tensor, std::int64_t size) noexcept {
    return tensor.row_elements * tensor.element_size * (tensor.has_batch_axis != 0 ? size : 1);
  }

  void* allocated(const tfaot_tensor& tensor) {
    const std::align_val_t alignment{info().alignment};
    const std::size_t length = static_cast<std::size_t>(bytes(tensor, size_));
    // One byte more, because an empty tensor needs an address, too.
    buffers_.emplace_back(::operator new(length + 1, alignment), Free{alignment});
    std::memset(buffers_.back().get(), 0, length);
    return buffers_.back().get();
  }

  bool failed(const char* reason) {
    error_ = std::string("model '") + info().name + "': " + reason;
    return false;
  }

  const tfaot_model_table& table_;
  std::int64_t size_;
  std::unique_ptr<tfaot_instance, void (*)(tfaot_instance*)> instance_{nullptr, nullptr};
  std::vector<std::unique_ptr<void, Free>> buffers_;
  std::vector<const void*> arguments_;
  std::vector<void*> results_;
  std::string error_;
  // Of a pool: null without one.
  const tfaot_code* code_ = nullptr;
  tfaot::Team team_;
  std::unique_ptr<void, Free> scratch_{nullptr, Free{std::align_val_t{TFAOT_SCRATCH_ALIGNMENT}}};
  std::size_t scratch_size_ = 0;
};

}  // namespace TFAOT_CMSSW_NAMESPACE
}  // namespace tfaot_cmssw

#endif  // TFAOT_COMPILED_FUNCTION_H_
