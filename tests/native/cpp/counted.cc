// A model of one layer that a team divides by rows: y = 3 x + 1, and the thread that computed the row, after some time.

#include <unistd.h>

#include <tfaot_kernels/team.h>

#include "model.h"

namespace tfaot_native {
namespace {

constexpr std::int64_t kShape[] = {-1}, kSizes[] = {1, 4};
constexpr tfaot_tensor kX = {"x", TFAOT_FLOAT32, 1, kShape, 1, 4, 1};
constexpr tfaot_tensor kOutputs[] = {{"thread", TFAOT_INT64, 1, kShape, 1, 8, 1}, {"y", TFAOT_FLOAT32, 1, kShape, 1, 4, 1}};
constexpr const char* kTargets[] = {"x86-64"};
constexpr unsigned char kWeights[64] = {};
constexpr std::uint64_t kOffsets[] = {0, 0};
constexpr std::size_t kScratch = 192;
constexpr useconds_t kTime = 200;  // microseconds of a row

void program(std::size_t rows, const void* const* inputs, void* const* outputs, const unsigned char*, unsigned char* scratch,
             const tfaot_kernels::Team* team) {
  const auto* const x = static_cast<const float*>(inputs[0]);
  auto* const thread = static_cast<std::int64_t*>(outputs[0]);
  auto* const y = static_cast<float*>(outputs[1]);
  const auto compute = [&](std::size_t row, unsigned char* memory) {
    memory[kScratch - 1] = 1;
    usleep(kTime);
    thread[row] = gettid();
    y[row] = 3.0f * x[row] + 1.0f;
  };
  if (team != nullptr) return tfaot_kernels::divide(*team, rows, compute);
  for (std::size_t row = 0; row < rows; ++row) compute(row, scratch);
}

const Target* target() {
  static const Target code = {"x86-64", 0, nullptr, &program, kScratch, false, nullptr, true, kScratch};
  return &code;
}
bool yes() { return true; }
constexpr TargetCode kCodes[] = {{"x86-64", &yes, &target}};

}  // namespace

extern const ModelData model_data = {
    {sizeof(tfaot_info), 16, "counted", "1.0.0", "0123456789ab", "none", 1, &kX, 2, kOutputs, 2, kSizes, 1, kTargets, nullptr,
     1, 1, 0, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr},
    kCodes, 1, kOffsets, kWeights, nullptr};

}  // namespace tfaot_native

extern "C" __attribute__((visibility("default"))) const tfaot_model_table* tfaot_model_entry();
extern "C" const tfaot_model_table* tfaot_model_entry() { return tfaot_native::model_table(); }
