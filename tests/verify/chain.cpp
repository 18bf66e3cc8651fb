// A stand-in for the library of a program: WORK multiplications, each of which waits for the one before, also for that of
// the call before, and no branch that a CPU could predict wrongly: a call takes a time that is linear in WORK.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <tfaot/abi.h>

#ifndef FACTOR
#define FACTOR 2
#endif
#ifndef WORK
#define WORK 1
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

struct tfaot_instance {
  int unused;
};

namespace {

constexpr int64_t kShape[] = {-1, 1};
constexpr int64_t kSizes[] = {1};
constexpr const char* kTargets[] = {"x86-64-v2"};
constexpr tfaot_tensor kInputs[] = {{"x", TFAOT_FLOAT32, 2, kShape, 1, 4, 1}};
constexpr tfaot_tensor kOutputs[] = {{"y", TFAOT_FLOAT32, 2, kShape, 1, 4, 1}};
constexpr double kCosts[] = {1};
constexpr tfaot_info kInfo = {
    sizeof(tfaot_info), 64, "chain", "1.0", "0123456789ab", "tensorflow 2.17.1", 1, kInputs, 1, kOutputs, 1, kSizes,
    1,                  kTargets, kCosts, 1, 1,
};

tfaot_status create(const char*, tfaot_instance** instance, char*, size_t) {
  *instance = static_cast<tfaot_instance*>(std::calloc(1, sizeof(tfaot_instance)));
  return TFAOT_OK;
}

void destroy(tfaot_instance* instance) { std::free(instance); }

std::uint64_t value = 3;  // odd for ever: never 0

tfaot_status run(tfaot_instance*, int64_t rows, const void* const* inputs, void* const* outputs) {
  for (int64_t row = 0; row < rows; ++row) {
    const float x = static_cast<const float*>(inputs[0])[row];
    asm volatile(".rept " TEXT(WORK) "\n imul %1, %0\n .endr" : "+r"(value) : "r"(UINT64_C(0x9E3779B97F4A7C15)));
    static_cast<float*>(outputs[0])[row] = FACTOR * x + (value == 0 ? 1 : 0);
  }
  return TFAOT_OK;
}

const char* message(const tfaot_instance*) { return ""; }
const char* target(const tfaot_instance*) { return kTargets[0]; }
size_t memory(const tfaot_instance*) { return sizeof(tfaot_instance); }

constexpr tfaot::Table kTable = {
    TFAOT_ABI_VERSION, offsetof(tfaot::Table, select), &kInfo, create, destroy, run, message, target, memory,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tfaot::Table* tfaot_model_entry(void) { return &kTable; }
