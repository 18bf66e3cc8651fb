// Measures a model library and an emulator of one row by turns, on the same rows:
//
//     fpga LIBRARY TARGET EMULATOR SYMBOL ROWS COUNT ANSWERS ROUNDS BATCH_SIZE...
//
// ROWS is a file of COUNT rows of float32. The answers of the library for all of them are written to ANSWERS.SIZE, and
// those of the emulator, which may be "" (there is none), to ANSWERS.emulator. A line is printed for each round:
// nanoseconds per row of the emulator (0 if there is none), and of the library at each batch size. Each takes at least
// 20 ms, and a round goes on with the row at which the last one ended.

#include <dlfcn.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "tfaot/c_api.h"
#include "tfaot/permissions.h"

namespace {

constexpr double kShortest = 20e6;

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(2);
}

// Computes rows [first, first + size).
struct Engine {
  std::size_t size;
  std::function<void(std::size_t)> compute;
  std::size_t next = 0;

  double measure(std::size_t rows) {
    std::size_t done = 0;
    const double start = now();
    double end = start;
    for (; end - start < kShortest; end = now()) {
      // The clock is read every few rows.
      for (const std::size_t wanted = done + std::max<std::size_t>(16, size); done < wanted; done += size) {
        if (next + size > rows) next = 0;
        compute(next);
        next += size;
      }
    }
    return (end - start) / static_cast<double>(done);
  }
};

void write(const std::string& path, const std::vector<float>& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
}

}  // namespace

int main(int argc, char** argv) {
  require(argc > 9, "arguments");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, "no library");
  const auto entry = reinterpret_cast<const tfaot_model_table* (*)()>(dlsym(library, TFAOT_ENTRY_POINT));
  require(entry != nullptr, "no model");
  const tfaot_model_table& model = *entry();
  require(model.info->num_inputs == 1 && model.info->num_outputs == 1, "one input and one output");
  tfaot_instance* instance = nullptr;
  tfaot::detail::permit(model, argv[2]);
  require(model.create(argv[2], &instance, nullptr, 0) == TFAOT_OK, "no instance");

  const auto in = static_cast<std::size_t>(model.info->inputs[0].row_elements);
  const auto out = static_cast<std::size_t>(model.info->outputs[0].row_elements);
  const auto rows = static_cast<std::size_t>(std::atoll(argv[6]));
  std::vector<float> x(rows * in), y(rows * out);
  std::ifstream(argv[5], std::ios::binary)
      .read(reinterpret_cast<char*>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(float)));

  std::vector<Engine> engines;
  if (*argv[3] != '\0') {
    void* emulator = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
    require(emulator != nullptr, "no emulator");
    const auto one_row = reinterpret_cast<void (*)(float*, float*)>(dlsym(emulator, argv[4]));
    require(one_row != nullptr, "no function of the emulator");
    engines.push_back({1, [&x, &y, in, out, one_row](std::size_t row) { one_row(&x[row * in], &y[row * out]); }});
  }
  for (int i = 9; i < argc; ++i) {
    const auto size = static_cast<std::size_t>(std::atoll(argv[i]));
    engines.push_back({size, [&, size](std::size_t row) {
                         const void* given = &x[row * in];
                         void* made = &y[row * out];
                         require(model.run(instance, static_cast<std::int64_t>(size), &given, &made) == TFAOT_OK, "run");
                       }});
  }
  for (std::size_t i = 0; i < engines.size(); ++i) {
    std::fill(y.begin(), y.end(), -12345.0F);
    for (std::size_t row = 0; row + engines[i].size <= rows; row += engines[i].size) engines[i].compute(row);
    // Rows at the end that fill no batch are computed with some before them.
    engines[i].compute(rows - engines[i].size);
    const bool is_emulator = i == 0 && *argv[3] != '\0';
    write(std::string(argv[7]) + "." + (is_emulator ? "emulator" : std::to_string(engines[i].size)), y);
  }
  for (int round = 0; round < std::atoi(argv[8]); ++round) {
    if (*argv[3] == '\0') std::printf("0 ");
    for (Engine& each : engines) std::printf("%.2f ", each.measure(rows));
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}
