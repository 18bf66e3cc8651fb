// Times a model library: latency LIBRARY TARGET... prints one line per target and batch size,
//
//     TARGET BATCH_SIZE NANOSECONDS
//
// the median over repetitions of the time of one run, one thread, inputs of zeros, buffers used in place.

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tfaot/c_api.h"

namespace {

constexpr std::int64_t kRepetition = 200'000;  // nanoseconds that one repetition takes at least
constexpr std::size_t kRepetitions = 51;
constexpr std::size_t kFewest = 3;
constexpr std::int64_t kEnough = 500'000'000;  // nanoseconds after which a slow model is not repeated more often

std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

// Zeroed buffers of all `tensors` at one batch size; they live as long as the process.
std::vector<void*> buffers(const tfaot_tensor* tensors, std::size_t count, std::int64_t batch_size) {
  std::vector<void*> made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t rows = tensors[i].has_batch_axis != 0 ? batch_size : 1;
    const auto size = static_cast<std::size_t>(rows * tensors[i].row_elements * tensors[i].element_size);
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, std::max<std::size_t>(size, 1)) != 0) std::exit(1);
    made.push_back(std::memset(memory, 0, size));
  }
  return made;
}

// The median time of a run, in nanoseconds; negative where a run fails.
double measure(const tfaot_model_table& model, tfaot_instance* instance, std::int64_t batch_size) {
  const std::vector<void*> in = buffers(model.info->inputs, model.info->num_inputs, batch_size);
  const std::vector<void*> out = buffers(model.info->outputs, model.info->num_outputs, batch_size);
  const std::vector<const void*> inputs(in.begin(), in.end());
  std::int64_t runs = 1;  // of one repetition: doubled until it is long enough for the clock
  std::int64_t total = 0;
  std::vector<double> times;
  while (times.size() < kFewest || (times.size() < kRepetitions && total < kEnough)) {
    const std::int64_t start = now();
    for (std::int64_t i = 0; i < runs; ++i) {
      if (model.run(instance, batch_size, inputs.data(), out.data()) != TFAOT_OK) return -1;
    }
    const std::int64_t taken = now() - start;
    if (times.empty() && taken < kRepetition) {
      runs *= 2;
      continue;
    }
    times.push_back(static_cast<double>(taken) / static_cast<double>(runs));
    total += taken;
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (library == nullptr) return 2;
  void* symbol = dlsym(library, TFAOT_ENTRY_POINT);
  if (symbol == nullptr) return 2;
  const tfaot_model_table& model = *reinterpret_cast<const tfaot_model_table* (*)()>(symbol)();
  for (int i = 2; i < argc; ++i) {
    tfaot_instance* instance = nullptr;
    if (model.create(argv[i], &instance, nullptr, 0) != TFAOT_OK) return 3;
    for (std::size_t j = 0; j < model.info->num_batch_sizes; ++j) {
      const double time = measure(model, instance, model.info->batch_sizes[j]);
      if (time < 0) return 4;
      std::printf("%s %lld %.1f\n", argv[i], static_cast<long long>(model.info->batch_sizes[j]), time);
    }
    model.destroy(instance);
  }
  return 0;
}
