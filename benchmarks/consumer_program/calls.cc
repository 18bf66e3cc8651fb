// Times calls of one model in different ways, beside its bare compiled function.
//
//     calls ROUNDS WEIGHTS OFFSET...
//
// Compiled with -DMODEL=NAME, -DMODEL_HEADER=<tfaot-model-NAME/model.h> and, for the bare function, with what tfcompile
// wrote for batch size 1: its header (tfaot_b1.h) and its object, the same that is in the model's library. WEIGHTS is a
// file with the arguments that follow the inputs, each at its OFFSET.
//
// Prints lines `BATCH_SIZE WAY NANOSECONDS...`, one time per round: the ways take turns within a round, in an order that
// changes from round to round. What they compute is compared first; exit code 1 where it differs.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <tfaot/model.h>
#include MODEL_HEADER

#include "adapter.h"
#include "tfaot_b1.h"

using StaticData = tensorflow::XlaCompiledCpuFunction::StaticData;

void* StaticData::operator new(std::size_t) {
  alignas(StaticData) static unsigned char memory[sizeof(StaticData)];
  return memory;
}

namespace {

using Generated = tfaot_model::MODEL;

constexpr std::size_t kAlignment = 64;
constexpr double kTurn = 100e3;  // nanoseconds that one turn of one way takes about
constexpr std::size_t kInputRow = Generated::inputs[0].row_size;
constexpr std::size_t kOutputRow = Generated::outputs[0].row_size;

[[noreturn]] void fail(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::exit(1);
}

// Floats where all ways can use them in place. They live as long as the process, as all memory here.
float* floats(std::size_t count) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, count * sizeof(float) + 1) != 0) fail("out of memory");
  return static_cast<float*>(std::memset(memory, 0, count * sizeof(float)));
}

// The function that tfcompile made, with a table of buffers as tfcompile's own class makes it, once.
class Bare {
 public:
  Bare(const float* input, float* output, const char* weights, const std::vector<std::size_t>& offsets) {
    const StaticData& data = tfaot_native::static_data<tfaot_b1::Unit>();
    table_.resize(data.num_buffers);
    for (std::size_t i = 0; i < data.num_buffers; ++i) {
      if (data.buffer_infos[i].is_temporary()) table_[i] = floats(data.buffer_infos[i].size() / sizeof(float) + 1);
    }
    table_[data.result_index_table[0]] = output;
    table_[data.arg_index_table[0]] = const_cast<float*>(input);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      table_[data.arg_index_table[1 + i]] = const_cast<char*>(weights + offsets[i]);
    }
    result_ = table_[data.result_index];
  }

  void operator()() {
    XlaCustomCallStatus_ status = {false};
    tfaot_b1_run(result_, nullptr, nullptr, table_.data(), &status, nullptr);
    if (status.failed) fail("the computation failed");
  }

 private:
  std::vector<void*> table_;
  void* result_;
};

double nanoseconds(std::chrono::steady_clock::duration taken) {
  return std::chrono::duration<double, std::nano>(taken).count();
}

// Nanoseconds of one of `runs` calls. The call is inlined here: no way pays for the benchmark.
template <class Call>
double time_of(Call& call, long runs) {
  const auto start = std::chrono::steady_clock::now();
  for (long i = 0; i < runs; ++i) call();
  return nanoseconds(std::chrono::steady_clock::now() - start) / static_cast<double>(runs);
}

struct Way {
  std::string name;
  std::function<double(long)> time;  // of one call, over that many
  long runs = 1;                     // of one turn
  std::vector<double> times;
};

template <class Call>
Way way(const char* name, Call call) {
  return {name, [call](long runs) mutable { return time_of(call, runs); }, 1, {}};
}

void take_turns(std::size_t batch_size, std::vector<Way> ways, long rounds) {
  for (Way& each : ways) {
    double time = each.time(1);  // allocates, and warms the caches
    while (time * static_cast<double>(each.runs) < kTurn) time = each.time(each.runs *= 2);
  }
  for (long round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& each = ways[(i + static_cast<std::size_t>(round)) % ways.size()];
      each.times.push_back(each.time(each.runs));
    }
  }
  for (const Way& each : ways) {
    std::printf("%zu %s", batch_size, each.name.c_str());
    for (const double time : each.times) std::printf(" %.2f", time);
    std::printf("\n");
  }
}

void compare(const char* name, const float* expected, const float* got, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(&expected[i], &got[i], sizeof(float)) != 0) fail((std::string(name) + " differs").c_str());
  }
}

// Inputs of one batch size, where the results go, and an instance of each way.
struct Case {
  std::size_t rows;
  const float* input;
  float* output;
  tfaot::FloatArrays nested;
  tfaot::Model<Generated> model;

  explicit Case(std::size_t batch_size) : rows(batch_size), output(floats(batch_size * kOutputRow)) {
    float* const made = floats(rows * kInputRow);
    for (std::size_t i = 0; i < rows * kInputRow; ++i) made[i] = static_cast<float>(i % 17) / 8.0f - 1.0f;
    input = made;
    for (std::size_t i = 0; i < rows; ++i) nested.emplace_back(made + i * kInputRow, made + (i + 1) * kInputRow);
  }

  tfaot::span<const float> in() const { return {input, rows * kInputRow}; }
  tfaot::span<float> out() const { return {output, rows * kOutputRow}; }

  Way contiguous() {
    return way("contiguous", [this] { model.run(rows, {in()}, {out()}); });
  }
  Way nested_vectors() {
    return way("nested", [this] { (void)model.run<tfaot::FloatArrays>(rows, nested); });
  }

  void check() {
    model.run(rows, {in()}, {out()});
    const auto [rows_of_results] = model.run<tfaot::FloatArrays>(rows, nested);
    for (std::size_t i = 0; i < rows; ++i) {
      compare("nested", output + i * kOutputRow, rows_of_results[i].data(), kOutputRow);
    }
  }
};

void time_one_row(const char* weights, const std::vector<std::size_t>& offsets, long rounds) {
  Case one(1);
  float* const expected = floats(kOutputRow);
  Bare(one.input, expected, weights, offsets)();
  one.check();
  compare("the library's answer", expected, one.output, kOutputRow);

  Bare bare(one.input, one.output, weights, offsets);
  const tfaot_model_table& table = Generated::table();
  tfaot_instance* instance = nullptr;
  if (table.create(nullptr, &instance, nullptr, 0) != TFAOT_OK) fail("no instance");
  const void* const inputs[] = {one.input};
  void* const outputs[] = {one.output};
  Generated generated;
  take_turns(1, {
    way("bare", [&] { bare(); }),
    way("C", [&] { if (table.run(instance, 1, inputs, outputs) != TFAOT_OK) fail("the C call failed"); }),
    way("class", [&] { generated.run(1, {one.in()}, {one.out()}); }),
    one.contiguous(),
    one.nested_vectors(),
  }, rounds);
  table.destroy(instance);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const long rounds = std::strtol(argv[1], nullptr, 10);
  std::ifstream file(argv[2], std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  char* const weights = reinterpret_cast<char*>(floats(bytes.size() / sizeof(float) + 1));
  std::memcpy(weights, bytes.data(), bytes.size());
  std::vector<std::size_t> offsets;
  for (int i = 3; i < argc; ++i) offsets.push_back(std::strtoul(argv[i], nullptr, 10));

  time_one_row(weights, offsets, rounds);
  constexpr std::size_t composed = 100;
  std::vector<std::size_t> sizes(Generated::batch_sizes.begin(), Generated::batch_sizes.end());
  sizes.push_back(composed);
  for (const std::size_t size : sizes) {
    if (size == 1) continue;
    Case batch(size);
    batch.check();
    take_turns(size, {batch.contiguous(), batch.nested_vectors()}, rounds);
  }
  return 0;
}
