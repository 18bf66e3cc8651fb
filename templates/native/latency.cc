// Times model libraries: latency LIBRARY UNIT... [-- LIBRARY UNIT...]... prints one line per library and unit,
//
//     LIBRARY TARGET BATCH_SIZE NANOSECONDS...
//
// the number of the library and, for each round, the time of one run: one thread, inputs of zeros, buffers used in
// place. A UNIT is TARGET:BATCH_SIZE, or TARGET for all batch sizes of the library. Every round times each unit of each
// library once: what disturbs the machine for a while disturbs all of them, and no median much.

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tfaot/c_api.h"

namespace {

constexpr std::int64_t kShortest = 200'000;  // nanoseconds that one measurement takes at least, for the clock
constexpr std::size_t kMostRounds = 51;
constexpr std::size_t kFewestRounds = 3;
// Nanoseconds after which rounds end: per library, target and batch size, and for all of them.
constexpr std::int64_t kEnough = 500'000'000;
constexpr std::int64_t kEnoughForAll = 60'000'000'000;

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

// One library's target at one batch size: what is run, and how long that took.
class Timed {
 public:
  Timed(int library, const tfaot_model_table& model, const std::string& target, tfaot_instance* instance,
        std::int64_t batch_size)
      : library_(library), model_(&model), target_(target), instance_(instance), batch_size_(batch_size) {
    const std::vector<void*> in = buffers(model.info->inputs, model.info->num_inputs, batch_size);
    inputs_.assign(in.begin(), in.end());
    outputs_ = buffers(model.info->outputs, model.info->num_outputs, batch_size);
  }

  // Find how many runs make one measurement. False where a run fails.
  bool prepare() {
    for (std::int64_t taken = 0;; runs_ *= 2) {
      if (!run(&taken)) return false;
      if (taken >= kShortest) return true;
    }
  }

  // Take one measurement and add its time to `*total`. False where a run fails.
  bool measure(std::int64_t* total) {
    std::int64_t taken = 0;
    if (!run(&taken)) return false;
    *total += taken;
    times_.push_back(static_cast<double>(taken) / static_cast<double>(runs_));
    return true;
  }

  void print() const {
    std::printf("%d %s %lld", library_, target_.c_str(), static_cast<long long>(batch_size_));
    for (const double time : times_) std::printf(" %.1f", time);
    std::printf("\n");
  }

 private:
  bool run(std::int64_t* taken) {
    const std::int64_t start = now();
    for (std::int64_t i = 0; i < runs_; ++i) {
      if (model_->run(instance_, batch_size_, inputs_.data(), outputs_.data()) != TFAOT_OK) return false;
    }
    *taken = now() - start;
    return true;
  }

  int library_;
  const tfaot_model_table* model_;
  std::string target_;
  tfaot_instance* instance_;
  std::int64_t batch_size_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::int64_t runs_ = 1;
  std::vector<double> times_;
};

const tfaot_model_table* opened(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, TFAOT_ENTRY_POINT) : nullptr;
  return symbol != nullptr ? reinterpret_cast<const tfaot_model_table* (*)()>(symbol)() : nullptr;
}

// Add `unit` of a library. 0, or the code to exit with.
int add(int library, const tfaot_model_table& model, const std::string& unit, std::vector<Timed>* all) {
  const std::size_t colon = unit.find(':');
  const std::string target = unit.substr(0, colon);
  const std::int64_t wanted = colon != std::string::npos ? std::atoll(unit.c_str() + colon + 1) : 0;
  tfaot_instance* instance = nullptr;
  if (model.create(target.c_str(), &instance, nullptr, 0) != TFAOT_OK) return 3;
  for (std::size_t i = 0; i < model.info->num_batch_sizes; ++i) {
    if (wanted != 0 && wanted != model.info->batch_sizes[i]) continue;
    all->emplace_back(library, model, target, instance, model.info->batch_sizes[i]);
    if (!all->back().prepare()) return 4;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Timed> all;
  int library = 0;
  for (int i = 1; i < argc; ++i, ++library) {
    const tfaot_model_table* model = opened(argv[i]);
    if (model == nullptr) return 2;
    while (++i < argc && std::strcmp(argv[i], "--") != 0) {
      const int failed = add(library, *model, argv[i], &all);
      if (failed != 0) return failed;
    }
  }
  const std::int64_t enough = std::min(kEnough * static_cast<std::int64_t>(all.size()), kEnoughForAll);
  std::int64_t total = 0;
  for (std::size_t round = 0; round < kFewestRounds || (round < kMostRounds && total < enough); ++round) {
    for (Timed& each : all) {
      if (!each.measure(&total)) return 4;
    }
  }
  for (const Timed& each : all) each.print();
  return 0;  // the process takes instances and buffers with it
}
