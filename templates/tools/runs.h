// Runs of a model on buffers that it uses in place, and the time that they take. For any number of models (latency.cc).

#ifndef TFAOT_TOOLS_RUNS_H_
#define TFAOT_TOOLS_RUNS_H_

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tfaot/c_api.h"
#include "tfaot/permissions.h"

namespace tools {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, Free>;

// Bytes of `tensor` at one batch size.
inline std::size_t bytes_of(const tfaot_tensor& tensor, std::int64_t batch_size) {
  const std::int64_t rows = tensor.has_batch_axis != 0 ? batch_size : 1;
  return static_cast<std::size_t>(rows * tensor.row_elements * tensor.element_size);
}

// Zeroed memory of `size` bytes, aligned such that a model uses it in place.
inline Buffer allocate(const tfaot_info& info, std::size_t size) {
  // At the start of a page: at other places, the same loop over 64 KiB took 0.69 to 0.98 us, so libraries that are
  // compared would not be treated alike.
  constexpr std::size_t kPage = 4096;
  const std::size_t alignment = info.alignment > kPage ? info.alignment : kPage;
  const std::size_t whole = (size / alignment + 1) * alignment;
  Buffer made(std::aligned_alloc(alignment, whole));
  if (made == nullptr) std::abort();
  std::memset(made.get(), 0, whole);
  return made;
}

// One buffer per tensor.
inline std::vector<Buffer> allocate(const tfaot_info& info, const tfaot_tensor* tensors, std::size_t count,
                                    std::int64_t batch_size) {
  std::vector<Buffer> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(allocate(info, bytes_of(tensors[i], batch_size)));
  return made;
}

// The pointers that `run` of the C ABI takes.
template <typename Pointer>
std::vector<Pointer> pointers(const std::vector<Buffer>& buffers) {
  std::vector<Pointer> made;
  for (const Buffer& buffer : buffers) made.push_back(buffer.get());
  return made;
}

// Nanoseconds of a clock that is never adjusted.
inline std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

// Runs of an instance at one batch size, in one thread, on zeroed buffers of their own. `model` and `instance` must
// outlive them.
class Runs {
 public:
  Runs(const tfaot_model_table& model, tfaot_instance* instance, std::int64_t batch_size)
      : model_(&model),
        instance_(instance),
        batch_size_(batch_size),
        in_(allocate(*model.info, model.info->inputs, model.info->num_inputs, batch_size)),
        out_(allocate(*model.info, model.info->outputs, model.info->num_outputs, batch_size)),
        inputs_(pointers<const void*>(in_)),
        outputs_(pointers<void*>(out_)) {}

  std::int64_t batch_size() const { return batch_size_; }
  void* input(std::size_t index) const { return in_[index].get(); }

  // Find how many runs take at least `shortest` nanoseconds, because of the clock's resolution: a measurement is the mean of
  // so many runs. False if a run fails, here and below.
  bool prepare(std::int64_t shortest) {
    for (std::int64_t taken = 0;; count_ *= 2) {
      if (!run(&taken)) return false;
      if (taken >= shortest) return true;
    }
  }

  // Take one measurement.
  bool measure() {
    std::int64_t taken = 0;
    if (!run(&taken)) return false;
    times_.push_back(static_cast<double>(taken) / static_cast<double>(count_));
    return true;
  }

  // Run `count` times, without a measurement.
  bool repeat(std::int64_t count) {
    std::int64_t taken = 0;
    count_ = count;
    return run(&taken);
  }

  // The measurements, in nanoseconds of one run.
  const std::vector<double>& times() const { return times_; }

 private:
  bool run(std::int64_t* taken) {
    const std::int64_t start = now();
    for (std::int64_t i = 0; i < count_; ++i) {
      if (model_->run(instance_, batch_size_, inputs_.data(), outputs_.data()) != TFAOT_OK) return false;
    }
    *taken = now() - start;
    return true;
  }

  const tfaot_model_table* model_;
  tfaot_instance* instance_;
  std::int64_t batch_size_;
  std::vector<Buffer> in_, out_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::int64_t count_ = 1;
  std::vector<double> times_;
};

}  // namespace tools

#endif  // TFAOT_TOOLS_RUNS_H_
