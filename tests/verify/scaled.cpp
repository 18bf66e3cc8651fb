// A stand-in for the library of a program: y = 2 x for any number of rows. Its code for x86-64 ends the process, and it
// has none for aarch64. Its table ends before `select`, as those of former versions.
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include <tfaot/abi.h>

struct tfaot_instance {
  const char* target;
};

namespace {

constexpr int64_t kColumns = 3;
constexpr int64_t kShape[] = {-1, kColumns};
constexpr int64_t kSizes[] = {1};
constexpr const char* kTargets[] = {"x86-64-v2", "x86-64"};
constexpr tfaot_tensor kInputs[] = {{"x", TFAOT_FLOAT32, 2, kShape, kColumns, 4, 1}};
constexpr tfaot_tensor kOutputs[] = {{"y", TFAOT_FLOAT32, 2, kShape, kColumns, 4, 1}};
constexpr double kCosts[] = {1, 1};
constexpr tfaot_info kInfo = {
    sizeof(tfaot_info), 64, "scaled", "1.0", "0123456789ab", "tensorflow 2.17.1", 1, kInputs, 1, kOutputs, 1, kSizes,
    2,                  kTargets, kCosts, 1, 1,
};

tfaot_status create(const char* target, tfaot_instance** instance, char* message, size_t size) {
  for (const char* const known : kTargets) {
    if (target != nullptr && std::strcmp(target, known) != 0) continue;
    *instance = static_cast<tfaot_instance*>(std::calloc(1, sizeof(tfaot_instance)));
    (*instance)->target = known;
    return TFAOT_OK;
  }
  std::strncpy(message, "no code for this target", size);
  return TFAOT_INVALID_ARGUMENT;
}

void destroy(tfaot_instance* instance) { std::free(instance); }

tfaot_status run(tfaot_instance* instance, int64_t rows, const void* const* inputs, void* const* outputs) {
  if (std::strcmp(instance->target, "x86-64") == 0) std::abort();
  for (int64_t i = 0; i < rows * kColumns; ++i) {
    static_cast<float*>(outputs[0])[i] = 2 * static_cast<const float*>(inputs[0])[i];
  }
  return TFAOT_OK;
}

const char* message(const tfaot_instance*) { return ""; }
const char* target(const tfaot_instance* instance) { return instance->target; }
size_t memory(const tfaot_instance*) { return sizeof(tfaot_instance); }

constexpr tfaot::Table kTable = {
    TFAOT_ABI_VERSION, offsetof(tfaot::Table, select), &kInfo, create, destroy, run, message, target, memory,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const tfaot::Table* tfaot_model_entry(void) { return &kTable; }
