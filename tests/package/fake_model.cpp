// A stand-in for a native library: the C ABI with arithmetic that is known, so that tests of the packaging need no
// TensorFlow. `y = MODEL_SLOPE * x + bias-in`, `label` is the position of the row's largest y. Compiled for the batch
// sizes 2 and 4. It fails on purpose where x is -1000, and says that it is busy where x is -2000. `MODEL_SYMBOL_runs`
// tells how often a size ran; what `MODEL_SYMBOL_during` was given is called once, during the next run.
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
    kBatchSizes,        2,  kTargets, kBatchCosts, 1, 0,
};

std::atomic<size_t> runs[5];  // by batch size
std::atomic<void (*)()> during;

tfaot_status create(const char* target, tfaot_instance** instance, char* message, size_t message_size) {
  *instance = nullptr;
  for (const char* const known : kTargets) {
    if (target != nullptr && std::strcmp(target, known) != 0) continue;
    *instance = static_cast<tfaot_instance*>(std::calloc(1, sizeof(tfaot_instance)));
    if (*instance == nullptr) return TFAOT_OUT_OF_MEMORY;
    (*instance)->target = known;
    return TFAOT_OK;
  }
  std::snprintf(message, message_size, "model " MODEL_NAME ": the library has no code for target %s", target);
  return TFAOT_INVALID_ARGUMENT;
}

void destroy(tfaot_instance* instance) { std::free(instance); }

tfaot_status run(tfaot_instance* instance, int64_t batch_size, const void* const* inputs, void* const* outputs) {
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
        std::snprintf(instance->message, sizeof instance->message, "model " MODEL_NAME ", batch size %lld: x is -1000",
                      static_cast<long long>(batch_size));
        return TFAOT_COMPUTATION_FAILED;
      }
      y[i] = MODEL_SLOPE * x[i] + bias[column];
      if (y[i] > y[row * kColumns + label[row]]) label[row] = column;
    }
  }
  return TFAOT_OK;
}

const char* message(const tfaot_instance* instance) { return instance->message; }
const char* target(const tfaot_instance* instance) { return instance->target; }
size_t memory(const tfaot_instance*) { return sizeof(tfaot_instance); }

constexpr tfaot::Table kTable = {
    TFAOT_ABI_VERSION, sizeof(tfaot::Table), &kInfo, create, destroy, run, message, target, memory,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tfaot::Table* MODEL_SYMBOL(void) { return &kTable; }

extern "C" size_t PASTE(MODEL_SYMBOL, _runs)(int64_t batch_size);
extern "C" size_t PASTE(MODEL_SYMBOL, _runs)(int64_t batch_size) { return runs[batch_size]; }

extern "C" void PASTE(MODEL_SYMBOL, _during)(void (*called)());
extern "C" void PASTE(MODEL_SYMBOL, _during)(void (*called)()) { during = called; }
