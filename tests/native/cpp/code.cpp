// What computes without instances (templates/native/library.cc), over a model with a program (target x86-64: y = 3 x + 1,
// in scratch memory), with units of two batch sizes (x86-64-v2: the same), and with a program whose layer a team divides
// (x86-64-v3: the same). All write to all of their scratch memory and look whether it stays theirs. usage: code CASE
#ifdef COUNT_ALLOCATIONS
#include "count_allocations.h"
#endif

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include <tfaot_kernels/team.h>

#include "model.h"
#include "runtime.h"

namespace tfaot_native {
namespace {

constexpr std::size_t kRow = 3, kProgramScratch = 1000, kUnitScratch = 300, kMemberScratch = 192;
constexpr std::int64_t kShape[] = {-1, kRow};
constexpr tfaot_tensor kX = {"x", TFAOT_FLOAT32, 2, kShape, kRow, 4, 1};
constexpr tfaot_tensor kY = {"y", TFAOT_FLOAT32, 2, kShape, kRow, 4, 1};
constexpr std::int64_t kSizes[] = {1, 4};
constexpr const char* kTargets[] = {"x86-64", "x86-64-v2", "x86-64-v3"};
constexpr unsigned char kWeights[64] = {3, 1};
double costs[] = {1e6, 4e6, 1e6, 4e6, 1e6, 4e6};  // of each target and size
constexpr std::uint64_t kOffsets[] = {0, 0};

std::atomic<unsigned> calls{0};
std::atomic<void (*)()> during{nullptr};  // what is called once in the next computation
std::atomic<std::size_t> parts{0}, most_rows{0};  // computed since the last reset, and the most rows of one

// Compute with a mark of this call all over the memory.
void compute_marked(std::size_t rows, const float* x, float* y, const unsigned char* weights, unsigned char* scratch,
                    std::size_t size) {
  const auto mark = static_cast<unsigned char>(++calls);
  std::memset(scratch, mark, size);
  ++parts;
  for (std::size_t most = most_rows; rows > most && !most_rows.compare_exchange_weak(most, rows);) continue;
  if (void (*const called)() = during.exchange(nullptr)) called();
  for (std::size_t i = 0; i < rows * kRow; ++i) {
    y[i] = static_cast<float>(weights[0]) * x[i] + static_cast<float>(weights[1]);
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (scratch[i] != mark) std::abort();
  }
}

void program(std::size_t rows, const void* const* inputs, void* const* outputs, const unsigned char* weights,
             unsigned char* scratch, const tfaot_kernels::Team*) {
  compute_marked(rows, static_cast<const float*>(inputs[0]), static_cast<float*>(outputs[0]), weights, scratch,
                 kProgramScratch);
}

// It fails if the first number of its rows is -1000.
void failing_program(std::size_t rows, const void* const* inputs, void* const* outputs, const unsigned char* weights,
                     unsigned char* scratch, const tfaot_kernels::Team* team) {
  program(rows, inputs, outputs, weights, scratch, team);
  if (static_cast<const float*>(inputs[0])[0] == -1000.0f) fail_call();
}

const Target* program_target() {
  static const Target target = {"x86-64", 0, nullptr, &failing_program, kProgramScratch, true};
  return &target;
}

// One row at a time, if a team computes.
void divided_program(std::size_t rows, const void* const* inputs, void* const* outputs, const unsigned char* weights,
                     unsigned char* scratch, const tfaot_kernels::Team* team) {
  const auto* const x = static_cast<const float*>(inputs[0]);
  auto* const y = static_cast<float*>(outputs[0]);
  if (team == nullptr) return compute_marked(rows, x, y, weights, scratch, kProgramScratch);
  std::memset(scratch, 77, kProgramScratch);
  tfaot_kernels::divide(*team, rows, [&](std::size_t row, unsigned char* memory) {
    compute_marked(1, x + row * kRow, y + row * kRow, weights, memory, kMemberScratch);
  });
  for (std::size_t i = 0; i < kProgramScratch; ++i) {
    if (scratch[i] != 77) std::abort();
  }
}

const Target* divided_target() {
  static const Target target = {"x86-64-v3", 0, nullptr, &divided_program, kProgramScratch, false, nullptr, true, kMemberScratch};
  return &target;
}

// Buffers: x, weights, y, scratch.
template <std::int64_t Rows>
bool run_unit(void** table) {
  compute_marked(Rows, static_cast<float*>(table[0]), static_cast<float*>(table[2]), static_cast<unsigned char*>(table[1]),
                 static_cast<unsigned char*>(table[3]), kUnitScratch);
  return static_cast<float*>(table[0])[0] != -1000.0f;
}

constexpr Buffer kBuffers[] = {{48, BufferKind::kArgument, nullptr},
                               {64, BufferKind::kArgument, nullptr},
                               {48, BufferKind::kScratch, nullptr},
                               {kUnitScratch, BufferKind::kScratch, nullptr}};
constexpr std::int32_t kArguments[] = {0, 1}, kResults[] = {2};

const Target* unit_target() {
  static const Unit units[] = {{1, 4, kBuffers, kArguments, kResults, &run_unit<1>},
                               {4, 4, kBuffers, kArguments, kResults, &run_unit<4>}};
  static const Target target = {"x86-64-v2", 2, units, nullptr, 0, false};
  return &target;
}

bool yes() { return true; }
constexpr TargetCode kCodes[] = {
    {"x86-64", &yes, &program_target}, {"x86-64-v2", &yes, &unit_target}, {"x86-64-v3", &yes, &divided_target}};

}  // namespace

extern const ModelData model_data = {
    {sizeof(tfaot_info), 16, "triple", "1.0.0", "0123456789ab", "none", 1, &kX, 1, &kY, 2, kSizes, 3, kTargets, costs, 1, 0, 0,
     nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr},
    kCodes, 1, kOffsets, kWeights, nullptr};

}  // namespace tfaot_native

namespace {

const tfaot_model_table& model = *tfaot_native::model_table();

void expect(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

const tfaot_code* code_of(const char* target) {
  char message[TFAOT_MESSAGE_SIZE] = "";
  const tfaot_code* code = nullptr;
  expect(model.select(target, &code, message, sizeof message) == TFAOT_OK, message);
  expect(std::strcmp(model.code_target(code), target) == 0, "the target");
  return code;
}

// Rows with a place for their answers, `offset` bytes behind an aligned address.
struct Batch {
  Batch(std::int64_t count, std::size_t offset) : rows(count), x(memory(count, offset)), y(memory(count, offset)), shift(offset) {
    for (std::int64_t i = 0; i < 3 * rows; ++i) {
      const float value = static_cast<float>(i % 7);
      std::memcpy(x + 4 * i, &value, 4);
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    std::free(x - shift);
    std::free(y - shift);
  }
  static unsigned char* memory(std::int64_t count, std::size_t offset) {
    const std::size_t size = static_cast<std::size_t>(12 * count) + offset;
    return static_cast<unsigned char*>(std::aligned_alloc(64, (size + 63) / 64 * 64)) + offset;
  }
  tfaot_status run(const tfaot_code* code, void* scratch, std::size_t size, char* message = nullptr) {
    std::memset(y, 0, static_cast<std::size_t>(12 * rows));
    const void* const inputs[] = {x};
    void* const outputs[] = {y};
    return model.compute(code, rows, inputs, outputs, scratch, size, message, message == nullptr ? 0 : TFAOT_MESSAGE_SIZE);
  }
  tfaot_status run(const tfaot_code* code, const tfaot_team* team, void* scratch, std::size_t size, char* message = nullptr) {
    std::memset(y, 0, static_cast<std::size_t>(12 * rows));
    const void* const inputs[] = {x};
    void* const outputs[] = {y};
    return model.compute_with_team(code, rows, nullptr, inputs, outputs, team, scratch, size, message,
                                   message == nullptr ? 0 : TFAOT_MESSAGE_SIZE);
  }
  bool right() const {
    for (std::int64_t i = 0; i < 3 * rows; ++i) {
      float value;
      std::memcpy(&value, y + 4 * i, 4);
      if (value != 3.0f * static_cast<float>(i % 7) + 1.0f) return false;
    }
    return true;
  }
  std::int64_t rows;
  unsigned char *x, *y;
  std::size_t shift;
};

struct Scratch {
  explicit Scratch(std::size_t bytes) : size(bytes), data(std::aligned_alloc(64, (bytes + 63) / 64 * 64)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data); }
  std::size_t size;
  void* data;
};

constexpr std::int64_t kAny[] = {1, 2, 5, 4000, 30000}, kCompiled[] = {1, 4};

template <class Call>
void for_all(Call&& call) {
  for (const char* target : {"x86-64", "x86-64-v2"}) {
    const tfaot_code* code = code_of(target);
    for (const std::size_t offset : {0u, 4u, 1u}) {
      if (target[6] == '\0') {
        for (const std::int64_t rows : kAny) call(code, rows, offset);
      } else {
        for (const std::int64_t rows : kCompiled) call(code, rows, offset);
      }
    }
  }
}

// AddressSanitizer and valgrind see a byte too many.
void sizes() {
  for_all([](const tfaot_code* code, std::int64_t rows, std::size_t offset) {
    Batch batch(rows, offset);
    const std::size_t size = model.scratch_bytes(code, rows);
    expect(size != 0 && size % TFAOT_SCRATCH_ALIGNMENT == 0, "a multiple of the alignment");
    const Scratch scratch(size);
    expect(batch.run(code, scratch.data, size) == TFAOT_OK && batch.right(), "in so many bytes");
    char message[TFAOT_MESSAGE_SIZE];
    expect(batch.run(code, scratch.data, size - 1, message) == TFAOT_INVALID_SCRATCH, "one byte less");
    char wanted[TFAOT_MESSAGE_SIZE];
    std::snprintf(wanted, sizeof wanted, "model triple, batch size %lld: scratch memory has %zu bytes, it needs %zu",
                  static_cast<long long>(rows), size - 1, size);
    expect(std::strcmp(message, wanted) == 0, message);
    auto* const odd = static_cast<unsigned char*>(scratch.data) + 16;
    expect(batch.run(code, odd, size, message) == TFAOT_INVALID_SCRATCH, "not aligned");
    expect(std::strstr(message, "scratch memory is not aligned to 64 bytes") != nullptr, message);
  });
}

void wrong() {
  char message[TFAOT_MESSAGE_SIZE] = "";
  const tfaot_code* code = code_of("x86-64-v2");
  expect(model.select("z80", &code, message, sizeof message) == TFAOT_INVALID_ARGUMENT && code == nullptr, "no target");
  expect(std::strcmp(message, "model triple: the library has no code for target z80") == 0, message);
  expect(model.select(nullptr, nullptr, message, sizeof message) == TFAOT_INVALID_ARGUMENT, "no place");
  Batch batch(3, 0);
  expect(batch.run(nullptr, nullptr, 0, message) == TFAOT_INVALID_ARGUMENT, "no code");
  expect(std::strcmp(message, "model triple, batch size 3: no code was given") == 0, message);
  code = code_of("x86-64-v2");
  for (const std::int64_t rows : {-1, 0, 2, 3, 5}) expect(model.scratch_bytes(code, rows) == 0, "no such unit");
  expect(batch.run(code, nullptr, 0, message) == TFAOT_NO_SUCH_BATCH_SIZE, "no such unit");
  expect(std::strcmp(message, "model triple, batch size 3: this batch size was not compiled") == 0, message);
  const tfaot_code* any = code_of("x86-64");
  for (const std::int64_t rows : {std::int64_t{-1}, std::int64_t{0}, INT64_MAX, INT64_MAX / 8}) {
    expect(model.scratch_bytes(any, rows) == 0, "no such batch");
  }
  const void* const nothing[] = {nullptr};
  void* const nowhere[] = {nullptr};
  expect(model.compute(any, 3, nothing, nowhere, nullptr, 0, nullptr, 0) == TFAOT_INVALID_ARGUMENT, "null pointers");
  Batch fails(4, 0);
  const float bad = -1000.0f;
  std::memcpy(fails.x, &bad, 4);
  expect(fails.run(code, nullptr, 0, message) == TFAOT_COMPUTATION_FAILED, "it failed");
  expect(std::strcmp(message, "model triple, batch size 4: the computation failed") == 0, message);
  model.release();
  expect(model.kept_bytes() == 0, "released");
}

// 64 threads, in memory of their own and in that of the library, twice.
void threads() {
  const tfaot_code* const codes[] = {code_of("x86-64"), code_of("x86-64-v2")};
  for (int round = 0; round < 2; ++round) {
    std::vector<std::thread> all;
    for (int i = 0; i < 64; ++i) {
      all.emplace_back([&codes, i] {
        const tfaot_code* code = codes[i % 2];
        Batch first(1, 0), second(4, static_cast<std::size_t>(i / 2 % 2));
        const std::size_t size = model.scratch_bytes(code, 4);
        const Scratch own(size);
        for (int turn = 0; turn < 50; ++turn) {
          void* const scratch = i / 4 % 2 == 0 ? own.data : nullptr;
          expect(first.run(code, scratch, size) == TFAOT_OK && first.right(), "one row");
          expect(second.run(code, scratch, size) == TFAOT_OK && second.right(), "four rows");
          if (i == 9 && turn % 10 == 0) model.release();  // others go on
          if (i == 10) model.kept_bytes();
        }
      });
    }
    for (std::thread& thread : all) thread.join();
  }
  // What the threads left may be released already: the one that releases may have been the last.
  Batch last(1, 0);
  expect(last.run(codes[0], nullptr, 0) == TFAOT_OK && last.right(), "one row");
  expect(model.kept_bytes() > 0 && model.kept_bytes() % 64 == 0, "memory is kept");
  model.release();
  expect(model.kept_bytes() == 0, "and released");
}

// What happens during a call leaves its memory alone: a release, and calls of the same thread, as in a signal handler.
void during() {
  for_all([](const tfaot_code* code, std::int64_t rows, std::size_t offset) {
    static const tfaot_code* inner;
    inner = code;
    Batch batch(rows, offset);
    tfaot_native::during = [] {
      model.release();
      Batch other(1, 0);
      expect(other.run(inner, nullptr, 0) == TFAOT_OK && other.right(), "a call during a call");
      model.release();
    };
    expect(batch.run(code, nullptr, 0) == TFAOT_OK && batch.right(), "the call around it");
    expect(tfaot_native::during == nullptr && model.kept_bytes() == model.scratch_bytes(code, rows), "its memory stays");
    model.release();
  });
}

// An instance computes the same, in the same code.
void instances() {
  for_all([](const tfaot_code* code, std::int64_t rows, std::size_t offset) {
    Batch batch(rows, offset);
    tfaot_instance* instance = nullptr;
    expect(model.create(model.code_target(code), &instance, nullptr, 0) == TFAOT_OK, "created");
    const void* const inputs[] = {batch.x};
    void* const outputs[] = {batch.y};
    for (int i = 0; i < 2; ++i) {
      std::memset(batch.y, 0, static_cast<std::size_t>(12 * rows));
      expect(model.run(instance, rows, inputs, outputs) == TFAOT_OK && batch.right(), model.message(instance));
    }
    expect(model.kept_bytes() == 0, "in its own memory");
    model.destroy(instance);
  });
}

// Teams: whatever they do, within their contract or with fewer calls than they were asked for.
using Task = void (*)(void*);
void all_at_once(void*, std::size_t count, Task task, void* argument) {
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(task, argument);
  if (count > 0) task(argument);
  for (std::thread& thread : threads) thread.join();
}
void one_by_one(void*, std::size_t count, Task task, void* argument) {
  for (std::size_t i = 0; i < count; ++i) task(argument);
}
void elsewhere(void*, std::size_t count, Task task, void* argument) {
  for (std::size_t i = 0; i < count; ++i) std::thread(task, argument).join();
}
void nothing(void*, std::size_t, Task, void*) {}
void one_less(void*, std::size_t count, Task task, void* argument) { all_at_once(nullptr, count - 1, task, argument); }
void too_many(void*, std::size_t count, Task task, void* argument) { all_at_once(nullptr, count + 3, task, argument); }

template <class Call>
void for_all_teams(Call&& call) {
  for (const auto run : {all_at_once, one_by_one, elsewhere, nothing, one_less, too_many}) {
    for (const std::size_t size : {1u, 2u, 3u, 4u, 7u}) call(tfaot_team{nullptr, size, run});
  }
}

void teams() {
  for_all_teams([](const tfaot_team& team) {
    for (const char* target : {"x86-64", "x86-64-v2", "x86-64-v3"}) {
      const tfaot_code* code = code_of(target);
      for (const std::int64_t rows : {1, 4, 2, 3, 5, 31, 4000}) {
        if (std::strcmp(target, "x86-64-v2") == 0 && rows != 1 && rows != 4) continue;
        for (const std::size_t offset : {0u, 1u}) {
          Batch batch(rows, offset);
          const std::size_t size = model.team_scratch_bytes(code, rows, team.size);
          expect(size >= model.scratch_bytes(code, rows) && size % TFAOT_SCRATCH_ALIGNMENT == 0, "the size");
          const Scratch scratch(size);
          expect(batch.run(code, &team, scratch.data, size) == TFAOT_OK && batch.right(), "in so many bytes");
          expect(batch.run(code, &team, scratch.data, size - 1) == TFAOT_INVALID_SCRATCH, "one byte less");
          expect(batch.run(code, &team, nullptr, 0) == TFAOT_OK && batch.right(), "in the library's memory");
        }
      }
    }
  });
  model.release();
}

// How a call is divided: rows if all threads have nearly as many, else layers.
void division() {
  const auto parts_of = [](const char* target, std::int64_t rows, std::size_t team_size) {
    Batch batch(rows, 0);
    const tfaot_team team = {nullptr, team_size, one_by_one};
    tfaot_native::parts = tfaot_native::most_rows = 0;
    expect(batch.run(code_of(target), &team, nullptr, 0) == TFAOT_OK && batch.right(), "right");
    return static_cast<std::size_t>(tfaot_native::parts);
  };
  const auto most_rows = [] { return static_cast<std::size_t>(tfaot_native::most_rows); };
  expect(parts_of("x86-64", 1, 4) == 1, "one row");
  expect(parts_of("x86-64", 3, 4) == 3 && most_rows() == 1, "fewer rows than threads");
  expect(parts_of("x86-64", 64, 4) == 4 && most_rows() == 16, "rows");
  expect(parts_of("x86-64", 65, 4) == 4 && most_rows() == 17, "one more");
  expect(parts_of("x86-64", 5, 4) == 3 && most_rows() == 2, "no thread without rows");
  expect(parts_of("x86-64", 1000, 5000) <= 256, "teams of any size");
  expect(parts_of("x86-64-v2", 4, 4) == 1, "XLA's code");
  expect(parts_of("x86-64-v3", 1, 4) == 1, "a layer of one row");
  expect(parts_of("x86-64-v3", 3, 2) == 3 && most_rows() == 1, "layers: rows would leave a thread idle");
  expect(parts_of("x86-64-v3", 3, 1) == 1 && most_rows() == 3, "a team of one");
  expect(parts_of("x86-64-v3", 8, 2) == 2 && most_rows() == 4, "rows");
  expect(parts_of("x86-64-v3", 6, 2) == 2 && most_rows() == 3, "as many rows for each thread");
  tfaot_native::costs[5] = 1.1e6;  // four rows take little longer than one, as in dense layers
  expect(parts_of("x86-64-v3", 6, 2) == 6 && most_rows() == 1, "layers: each thread would read all weights for its rows");
  expect(parts_of("x86-64-v3", 2, 2) == 2 && most_rows() == 1, "layers of two rows");
  expect(parts_of("x86-64-v3", 16, 2) == 2 && most_rows() == 8, "rows");
  tfaot_native::costs[5] = 100.0;
  expect(parts_of("x86-64", 64, 4) == 4, "costs of another target");
  tfaot_native::costs[0] = tfaot_native::costs[1] = 100.0;
  expect(parts_of("x86-64", 64, 4) == 1, "a call that is too short");
  model.release();
}

// Threads that serve a pool, which calls from several threads share.
void thread_pools() {
  for (const std::size_t serving : {0u, 1u, 3u}) {
    tfaot_thread_pool pool = {};
    const tfaot_team team = {&pool, serving + 1, model.run_on_thread_pool};
    std::vector<std::thread> servers;
    for (std::size_t i = 0; i < serving; ++i) servers.emplace_back(model.serve_thread_pool, &pool);
    std::atomic<std::size_t> others{0};
    if (serving != 0) {
      // Until another thread has taken part; the pause lets threads sleep.
      struct Seen {
        std::thread::id caller;
        std::atomic<std::size_t>* others;
      } seen{std::this_thread::get_id(), &others};
      while (others == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        model.run_on_thread_pool(
            &pool, serving + 1,
            [](void* argument) {
              const auto& known = *static_cast<Seen*>(argument);
              if (std::this_thread::get_id() != known.caller) ++*known.others;
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            },
            &seen);
      }
    }
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 3; ++caller) {
      callers.emplace_back([&] {
        for (const char* target : {"x86-64", "x86-64-v2", "x86-64-v3"}) {
          for (const std::int64_t rows : {1, 4, 31, 4000}) {
            if (std::strcmp(target, "x86-64-v2") == 0 && rows > 4) continue;
            for (int i = 0; i < 20; ++i) {
              Batch batch(rows, 1);
              expect(batch.run(code_of(target), &team, nullptr, 0) == TFAOT_OK && batch.right(), "by a pool");
            }
          }
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
    model.stop_thread_pool(&pool);
    for (std::thread& server : servers) server.join();
    Batch batch(31, 0);
    expect(batch.run(code_of("x86-64"), &team, nullptr, 0) == TFAOT_OK && batch.right(), "a pool that was stopped");
    model.serve_thread_pool(&pool);  // returns at once
  }
}

void wrong_teams() {
  char message[TFAOT_MESSAGE_SIZE] = "";
  const tfaot_code* code = code_of("x86-64");
  Batch batch(5, 0);
  for (const tfaot_team& team : {tfaot_team{nullptr, 0, one_by_one}, tfaot_team{nullptr, 2, nullptr}}) {
    expect(batch.run(code, &team, nullptr, 0, message) == TFAOT_INVALID_ARGUMENT, "refused");
    expect(std::strcmp(message, "model triple, batch size 5: a team has at least one thread, and a function that runs tasks") == 0,
           message);
  }
  for (const std::int64_t rows : {-1, 0}) expect(model.team_scratch_bytes(code, rows, 3) == 0, "no such batch");
  expect(model.team_scratch_bytes(nullptr, 1, 3) == 0, "no code");
  // The last of three parts fails: so does the call, and the next one computes.
  const tfaot_team team = {nullptr, 3, all_at_once};
  const float bad = -1000.0f, good = 5.0f;
  std::memcpy(batch.x + 12 * 4, &bad, 4);
  expect(batch.run(code, &team, nullptr, 0, message) == TFAOT_COMPUTATION_FAILED, "it failed");
  expect(std::strcmp(message, "model triple, batch size 5: the computation failed") == 0, message);
  std::memcpy(batch.x + 12 * 4, &good, 4);
  expect(batch.run(code, &team, nullptr, 0) == TFAOT_OK && batch.right(), "the next call");
  model.release();
}

// Calls of 16 threads, each with a team; and a call from a task of another one.
void nested_teams() {
  static const tfaot_team team = {nullptr, 3, all_at_once};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([i] {
      const tfaot_code* code = code_of(i % 2 == 0 ? "x86-64" : "x86-64-v3");
      for (const std::int64_t rows : {1, 2, 7, 100}) {
        Batch batch(rows, 0);
        expect(batch.run(code, &team, nullptr, 0) == TFAOT_OK && batch.right(), "one of many calls");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  tfaot_native::during = [] {
    Batch other(9, 0);
    expect(other.run(code_of("x86-64"), &team, nullptr, 0) == TFAOT_OK && other.right(), "a call within a part");
  };
  Batch batch(64, 0);
  // Of a program without the guard of XLA's code: memory that is allocated under guard belongs to the call.
  expect(batch.run(code_of("x86-64-v3"), &team, nullptr, 0) == TFAOT_OK && batch.right(), "the call around it");
  model.release();
}

#if defined(__x86_64__)
// All threads compute with the arithmetic of the calling thread, which flushes subnormal numbers, and get their own back.
void arithmetic() {
  const unsigned before = __builtin_ia32_stmxcsr(), flushes = 0x8040;
  static unsigned seen;
  const tfaot_team team = {nullptr, 2, [](void*, std::size_t, Task task, void* argument) {
                             std::thread([&] {
                               const unsigned own = 0x1f80 | 0x2000;  // rounds down
                               __builtin_ia32_ldmxcsr(own);
                               task(argument);
                               seen = __builtin_ia32_stmxcsr() & ~0x3fu;
                             }).join();
                           }};
  for (const unsigned wanted : {0x1f80u, 0x1f80u | flushes}) {
    tfaot_native::during = nullptr;
    Batch batch(64, 0);
    static unsigned within;
    tfaot_native::during = [] { within = __builtin_ia32_stmxcsr() & ~0x3fu; };
    __builtin_ia32_ldmxcsr(wanted);
    const tfaot_status status = batch.run(code_of("x86-64"), &team, nullptr, 0);
    __builtin_ia32_ldmxcsr(before);
    expect(status == TFAOT_OK && batch.right(), "right");
    expect(within == wanted, "the calling thread's arithmetic");
    expect(seen == (0x1f80 | 0x2000), "its own arithmetic again");
  }
  model.release();
}
#endif

#ifdef COUNT_ALLOCATIONS
// Nothing with scratch memory of the caller.
void counted_teams() {
  for (const char* target : {"x86-64", "x86-64-v3"}) {
    const tfaot_code* code = code_of(target);
    for (const std::size_t size : {1u, 2u, 4u}) {
      const tfaot_team team = {nullptr, size, one_by_one};
      for (const std::int64_t rows : {1, 3, 64}) {
        Batch batch(rows, 1);
        const Scratch scratch(model.team_scratch_bytes(code, rows, size));
        const auto call = [&] { expect(batch.run(code, &team, scratch.data, scratch.size) == TFAOT_OK, "run"); };
        expect(allocations_of(call) == 0, "an allocation beside the caller's memory");
      }
    }
  }
}

// Nothing with scratch memory of the caller, from the first call on; none after a thread's first call without.
void counted() {
  for_all([](const tfaot_code* code, std::int64_t rows, std::size_t offset) {
    Batch batch(rows, offset);
    const Scratch scratch(model.scratch_bytes(code, rows));
    const auto call = [&](void* memory) {
      return allocations_of([&] { expect(batch.run(code, memory, scratch.size) == TFAOT_OK, "run"); });
    };
    expect(call(scratch.data) == 0, "an allocation beside the caller's memory");
    model.release();
    expect(call(nullptr) == 1, "the counter counts");
    expect(call(nullptr) == 0, "an allocation at a second call");
    const std::size_t kept = model.kept_bytes();
    expect(kept == scratch.size, "what it keeps");
  });
}
#endif

}  // namespace

int main(int, char** argv) {
  const struct {
    const char* name;
    void (*run)();
  } cases[] = {
      {"sizes", sizes}, {"wrong", wrong}, {"threads", threads}, {"during", during}, {"instances", instances},
      {"teams", teams}, {"division", division}, {"wrong_teams", wrong_teams}, {"nested_teams", nested_teams},
      {"thread_pools", thread_pools},
#if defined(__x86_64__)
      {"arithmetic", arithmetic},
#endif
#ifdef COUNT_ALLOCATIONS
      {"counted", counted}, {"counted_teams", counted_teams},
#endif
  };
  for (const auto& one : cases) {
    if (std::strcmp(argv[1], one.name) != 0) continue;
    one.run();
    model.release();
    std::puts("good");
    return 0;
  }
  return 2;
}
