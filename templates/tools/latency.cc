// Measures model libraries: latency LIBRARY UNIT... [-- LIBRARY UNIT...]... prints one line per library and unit,
//
//     LIBRARY TARGET BATCH_SIZE NANOSECONDS...
//
// with the number of the library and, for each round, the time of one run: one thread, inputs of zeros, buffers used in
// place. A UNIT is TARGET:BATCH_SIZE, or TARGET for all batch sizes of the library. TARGET:BATCH_SIZE:COUNT is run COUNT times,
// and nothing is printed about it: whoever started this program takes its time. Every round measures each unit of each
// library once, so that a temporary disturbance of the machine affects all of them, and no median much.

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "runs.h"
#include "sealed.h"

namespace {

constexpr std::int64_t kShortest = 200'000;  // nanoseconds of one measurement at least, because of the clock's resolution
constexpr std::size_t kMostRounds = 51;
constexpr std::size_t kFewestRounds = 3;
// Rounds end after so many nanoseconds: per library, target and batch size, and for all of them.
constexpr std::int64_t kEnough = 500'000'000;
constexpr std::int64_t kEnoughForAll = 60'000'000'000;

// One library's target at one batch size.
struct Unit {
  int library;
  std::string target;
  tools::Runs runs;

  void print() const {
    std::printf("%d %s %lld", library, target.c_str(), static_cast<long long>(runs.batch_size()));
    for (const double time : runs.times()) std::printf(" %.1f", time);
    std::printf("\n");
  }
};

const tfaot_model_table* opened(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* symbol = library != nullptr ? dlsym(library, TFAOT_ENTRY_POINT) : nullptr;
  return symbol != nullptr ? reinterpret_cast<const tfaot_model_table* (*)()>(symbol)() : nullptr;
}

// Adds `unit` of a library. Returns 0, or the exit code if that fails.
int add(int library, const tfaot_model_table& model, const std::string& unit, std::vector<Unit>* all) {
  const std::size_t colon = unit.find(':');
  const std::string target = unit.substr(0, colon);
  const std::size_t second = colon != std::string::npos ? unit.find(':', colon + 1) : std::string::npos;
  const std::int64_t wanted = colon != std::string::npos ? std::atoll(unit.c_str() + colon + 1) : 0;
  tfaot_instance* instance = nullptr;
  tfaot::detail::permit(model, target.c_str());
  if (model.create(target.c_str(), &instance, nullptr, 0) != TFAOT_OK) return 3;
  for (std::size_t i = 0; i < model.info->num_batch_sizes; ++i) {
    if (wanted != 0 && wanted != model.info->batch_sizes[i]) continue;
    if (second != std::string::npos) {
      tools::Runs runs(model, instance, model.info->batch_sizes[i]);
      if (!runs.repeat(std::atoll(unit.c_str() + second + 1))) return 4;
      continue;
    }
    all->push_back({library, target, tools::Runs(model, instance, model.info->batch_sizes[i])});
    if (!all->back().runs.prepare(kShortest)) return 4;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  tools::start_no_programs();
  std::vector<Unit> all;
  int library = 0;
  for (int i = 1; i < argc; ++i, ++library) {
    const tfaot_model_table* model = opened(argv[i]);
    if (model == nullptr) return 2;
    while (++i < argc && std::strcmp(argv[i], "--") != 0) {
      const int failed = add(library, *model, argv[i], &all);
      if (failed != 0) return failed;
    }
  }
  if (all.empty()) return 0;
  const std::int64_t enough = std::min(kEnough * static_cast<std::int64_t>(all.size()), kEnoughForAll);
  const std::int64_t end = tools::now() + enough;
  for (std::size_t round = 0; round < kFewestRounds || (round < kMostRounds && tools::now() < end); ++round) {
    for (Unit& each : all) {
      if (!each.runs.measure()) return 4;
    }
  }
  for (const Unit& each : all) each.print();
  return 0;  // the instances are freed when the process ends
}
