// Times two libraries of one model in turns: substitution TARGET LIBRARY LIBRARY prints one line per batch size,
//
//     BATCH_SIZE NANOSECONDS NANOSECONDS
//
// the medians of one run's time, one thread. A round takes one measurement of each library at each batch size, so that
// what disturbs the machine disturbs both.

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tfaot/c_api.h"

namespace {

constexpr std::int64_t kShortest = 300'000;    // nanoseconds that one measurement takes at least
constexpr std::int64_t kEnough = 150'000'000;  // nanoseconds of measurements per library and batch size
constexpr std::size_t kRounds = 41;
constexpr std::size_t kFewestRounds = 7;

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

// A buffer for one tensor: values between -1 and 1 where these are floats, else zeros. It is never freed.
void* buffer(const tfaot_tensor& tensor, std::int64_t batch_size, std::uint32_t seed) {
  const std::int64_t count = (tensor.has_batch_axis != 0 ? batch_size : 1) * tensor.row_elements;
  const auto bytes = static_cast<std::size_t>(count * tensor.element_size);
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, std::max<std::size_t>(bytes, 1)) != 0) std::exit(1);
  std::fill_n(static_cast<char*>(memory), bytes, 0);
  if (tensor.dtype == TFAOT_FLOAT32) {
    for (std::int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525 + 1013904223;
      static_cast<float*>(memory)[i] = static_cast<float>(seed >> 8) / (1 << 23) - 1;
    }
  }
  return memory;
}

class Timed {
 public:
  Timed(const tfaot_model_table& model, tfaot_instance* instance, std::int64_t batch_size)
      : model_(&model), instance_(instance), batch_size_(batch_size) {
    const tfaot_info& info = *model.info;
    for (std::size_t i = 0; i < info.num_inputs; ++i) inputs_.push_back(buffer(info.inputs[i], batch_size, 7 + i));
    for (std::size_t i = 0; i < info.num_outputs; ++i) outputs_.push_back(buffer(info.outputs[i], batch_size, 0));
    while (run() < kShortest) runs_ *= 2;
  }

  std::int64_t batchSize() const { return batch_size_; }

  std::int64_t measure() {
    const std::int64_t taken = run();
    times_.push_back(static_cast<double>(taken) / static_cast<double>(runs_));
    return taken;
  }

  double median() {
    const auto middle = times_.begin() + static_cast<std::ptrdiff_t>(times_.size() / 2);
    std::nth_element(times_.begin(), middle, times_.end());
    return *middle;
  }

 private:
  std::int64_t run() {
    const std::int64_t start = now();
    for (std::int64_t i = 0; i < runs_; ++i) {
      if (model_->run(instance_, batch_size_, inputs_.data(), outputs_.data()) != TFAOT_OK) std::exit(4);
    }
    return now() - start;
  }

  const tfaot_model_table* model_;
  tfaot_instance* instance_;
  std::int64_t batch_size_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::int64_t runs_ = 1;
  std::vector<double> times_;
};

std::vector<Timed> timedOf(const char* path, const char* target) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, TFAOT_ENTRY_POINT);
  if (symbol == nullptr) std::exit(2);
  const tfaot_model_table& model = *reinterpret_cast<const tfaot_model_table* (*)()>(symbol)();
  tfaot_instance* instance = nullptr;
  if (model.create(target, &instance, nullptr, 0) != TFAOT_OK) std::exit(3);
  std::vector<Timed> all;
  for (std::size_t i = 0; i < model.info->num_batch_sizes; ++i) {
    all.emplace_back(model, instance, model.info->batch_sizes[i]);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 1;
  std::vector<Timed> first = timedOf(argv[2], argv[1]);
  std::vector<Timed> second = timedOf(argv[3], argv[1]);
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::int64_t taken = 0;
    for (std::size_t round = 0; round < kFewestRounds || (round < kRounds && taken < 2 * kEnough); ++round) {
      taken += first[i].measure() + second[i].measure();
    }
    const auto batch_size = static_cast<long long>(first[i].batchSize());
    std::printf("%lld %.1f %.1f\n", batch_size, first[i].median(), second[i].median());
  }
  return 0;
}
