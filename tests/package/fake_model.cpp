// A stand-in for a native library: the C ABI with arithmetic that is known, so that tests of the packaging need no
// TensorFlow. `y = MODEL_SLOPE * x + bias-in`, `label` is the position of the row's largest y. Compiled for the batch
// sizes 2 and 4. It fails on purpose where x is -1000, and says that it is busy where x is -2000. `MODEL_SYMBOL_runs`
// tells how often a size ran; what `MODEL_SYMBOL_during` was given is called once, during the next run. `compute` leaves
// marks in scratch memory and fails if another call changes them meanwhile. With a team it needs as much scratch memory for
// each thread, and `MODEL_SYMBOL_tasks` tells how many tasks teams ran. With MODEL_FORMER the table ends before what was added
// to it.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <tfaot/abi.h>

#define PASTE_NAMES(a, b) a##b
#define PASTE(a, b) PASTE_NAMES(a, b)

struct tfaot_instance {
  const char* target;
  char message[64];
};

namespace {

constexpr int64_t kColumns = 3;
constexpr int64_t kRowShape[] = {-1, kColumns};
constexpr int64_t kBatchShape[] = {-1};
constexpr int64_t kBiasShape[] = {kColumns};
constexpr int64_t kBatchSizes[] = {2, 4};
constexpr const char* kTargets[] = {"x86-64-v2", "x86-64-v3"};
constexpr tfaot_tensor kInputs[] = {
    {"bias-in", TFAOT_FLOAT32, 1, kBiasShape, kColumns, 4, 0},
    {"x", TFAOT_FLOAT32, 2, kRowShape, kColumns, 4, 1},
};
constexpr tfaot_tensor kOutputs[] = {
    {"label", TFAOT_INT64, 1, kBatchShape, 1, 8, 1},
    {"y", TFAOT_FLOAT32, 2, kRowShape, kColumns, 4, 1},
};
// By target: of x86-64-v2 a run costs the same at both sizes, so that padding is cheap.
constexpr double kBatchCosts[] = {100, 100, 100, 150};
constexpr tfaot_info kInfo = {
    sizeof(tfaot_info), 64, MODEL_NAME, MODEL_VERSION, MODEL_UID, "tensorflow 2.17.1", 2, kInputs, 2, kOutputs, 2,
    kBatchSizes,        2,  kTargets, kBatchCosts, 1, 0, 0, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr,
};

std::atomic<size_t> runs[5];  // by batch size
std::atomic<void (*)()> during;

const char* known_target(const char* target, char* message, size_t message_size) {
  for (const char* const known : kTargets) {
    if (target == nullptr || std::strcmp(target, known) == 0) return known;
  }
  std::snprintf(message, message_size, "model " MODEL_NAME ": the library has no code for target %s", target);
  return nullptr;
}

tfaot_status create(const char* target, tfaot_instance** instance, char* message, size_t message_size) {
  *instance = nullptr;
  const char* const known = known_target(target, message, message_size);
  if (known == nullptr) return TFAOT_INVALID_ARGUMENT;
  *instance = static_cast<tfaot_instance*>(std::calloc(1, sizeof(tfaot_instance)));
  if (*instance == nullptr) return TFAOT_OUT_OF_MEMORY;
  (*instance)->target = known;
  return TFAOT_OK;
}

void destroy(tfaot_instance* instance) { std::free(instance); }

tfaot_status computed(int64_t batch_size, const void* const* inputs, void* const* outputs, char* message,
                      size_t message_size) {
  if (batch_size != 2 && batch_size != 4) return TFAOT_NO_SUCH_BATCH_SIZE;
  ++runs[batch_size];
  if (void (*const called)() = during.exchange(nullptr)) called();
  const float* bias = static_cast<const float*>(inputs[0]);
  const float* x = static_cast<const float*>(inputs[1]);
  int64_t* label = static_cast<int64_t*>(outputs[0]);
  float* y = static_cast<float*>(outputs[1]);
  for (int64_t row = 0; row < batch_size; ++row) {
    label[row] = 0;
    for (int64_t column = 0; column < kColumns; ++column) {
      const int64_t i = row * kColumns + column;
      if (x[i] == -2000.0f) return TFAOT_BUSY;
      if (x[i] == -1000.0f) {
        std::snprintf(message, message_size, "model " MODEL_NAME ", batch size %lld: x is -1000",
                      static_cast<long long>(batch_size));
        return TFAOT_COMPUTATION_FAILED;
      }
      y[i] = MODEL_SLOPE * x[i] + bias[column];
      if (y[i] > y[row * kColumns + label[row]]) label[row] = column;
    }
  }
  return TFAOT_OK;
}

tfaot_status run(tfaot_instance* instance, int64_t batch_size, const void* const* inputs, void* const* outputs) {
  return computed(batch_size, inputs, outputs, instance->message, sizeof instance->message);
}

tfaot_status select(const char* target, const tfaot_code** code, char* message, size_t message_size) {
  *code = reinterpret_cast<const tfaot_code*>(known_target(target, message, message_size));
  return *code != nullptr ? TFAOT_OK : TFAOT_INVALID_ARGUMENT;
}

const char* code_target(const tfaot_code* code) { return reinterpret_cast<const char*>(code); }

size_t scratch_bytes(const tfaot_code*, int64_t batch_size) {
  return batch_size == 2 || batch_size == 4 ? 64 * static_cast<size_t>(batch_size) : 0;
}

tfaot_status compute(const tfaot_code* code, int64_t batch_size, const void* const* inputs, void* const* outputs,
                     void* scratch, size_t scratch_size, char* message, size_t message_size) {
  alignas(TFAOT_SCRATCH_ALIGNMENT) unsigned char own[256];
  if (scratch == nullptr) {
    scratch = own;
    scratch_size = sizeof own;
  }
  const size_t size = scratch_bytes(code, batch_size);
  if (scratch_size < size || reinterpret_cast<uintptr_t>(scratch) % TFAOT_SCRATCH_ALIGNMENT != 0) {
    std::snprintf(message, message_size, "model " MODEL_NAME ", batch size %lld: not %zu aligned bytes of scratch memory",
                  static_cast<long long>(batch_size), size);
    return TFAOT_INVALID_SCRATCH;
  }
  static std::atomic<int> calls{0};
  const auto mark = static_cast<unsigned char>(++calls);
  auto* const bytes = static_cast<unsigned char*>(scratch);
  std::memset(bytes, mark, size);
  const tfaot_status status = computed(batch_size, inputs, outputs, message, message_size);
  for (size_t i = 0; i < size; ++i) {
    if (bytes[i] != mark) std::abort();
  }
  return status;
}

std::atomic<size_t> tasks;

size_t team_scratch_bytes(const tfaot_code* code, int64_t batch_size, size_t team_size) {
  return scratch_bytes(code, batch_size) * team_size;
}

tfaot_status compute_with_team(const tfaot_code* code, int64_t batch_size, const size_t*, const void* const* inputs,
                               void* const* outputs, const tfaot_team* team, void* scratch, size_t scratch_size,
                               char* message, size_t message_size) {
  if (scratch_size < team_scratch_bytes(code, batch_size, team->size)) return TFAOT_INVALID_SCRATCH;
  team->run(team->context, team->size, [](void* counted) { ++*static_cast<std::atomic<size_t>*>(counted); }, &tasks);
  return compute(code, batch_size, inputs, outputs, scratch, scratch_size, message, message_size);
}

uint32_t permit(const tfaot_code*, uint32_t) { return 0; }
size_t kept_bytes() { return 0; }
void release() {}

const char* message(const tfaot_instance* instance) { return instance->message; }
const char* target(const tfaot_instance* instance) { return instance->target; }
size_t memory(const tfaot_instance*) { return sizeof(tfaot_instance); }

constexpr tfaot::Table kTable = {
    TFAOT_ABI_VERSION,
#ifdef MODEL_FORMER
    offsetof(tfaot::Table, select),
#else
    sizeof(tfaot::Table),
#endif
    &kInfo, create,      destroy,       run,     message,    target, memory,
    select, code_target, scratch_bytes, compute, kept_bytes, release, nullptr, nullptr,
    nullptr, nullptr, nullptr, team_scratch_bytes, compute_with_team, nullptr, nullptr, nullptr, permit,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tfaot::Table* MODEL_SYMBOL(void) { return &kTable; }

extern "C" size_t PASTE(MODEL_SYMBOL, _runs)(int64_t batch_size);
extern "C" size_t PASTE(MODEL_SYMBOL, _runs)(int64_t batch_size) { return runs[batch_size]; }

extern "C" size_t PASTE(MODEL_SYMBOL, _tasks)();
extern "C" size_t PASTE(MODEL_SYMBOL, _tasks)() { return tasks; }

extern "C" void PASTE(MODEL_SYMBOL, _during)(void (*called)());
extern "C" void PASTE(MODEL_SYMBOL, _during)(void (*called)()) { during = called; }
