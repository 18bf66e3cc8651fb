// Times a call on one thread and on two, in turn, over a program of random weights. argv: the file of weights, rounds, then
// batch sizes. Each line of the output is a batch size, then pairs of microseconds, one per round: alone, and with a team.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <tfaot/shared.h>
#include <tfaot/threads.h>
#include <tfaot_kernels/team.h>

#include "model.h"

extern "C" tfaot_native::Program tfaot_program;

namespace tfaot_native {
namespace {

constexpr std::int64_t kInputShape[] = {-1, INPUTS}, kOutputShape[] = {-1, OUTPUTS}, kSizes[] = {1};
constexpr tfaot_tensor kInput = {"x", TFAOT_FLOAT32, 2, kInputShape, INPUTS, 4, 1};
constexpr tfaot_tensor kOutput = {"y", TFAOT_FLOAT32, 2, kOutputShape, OUTPUTS, 4, 1};
constexpr const char* kTargets[] = {"native"};
constexpr std::uint64_t kOffsets[] = {0};
alignas(64) unsigned char weights[WEIGHTS];

const Target* target() {
  static const Target code = {"native", 0, nullptr, &tfaot_program, SCRATCH, false, nullptr, DIVIDES, MEMBER};
  return &code;
}
bool yes() { return true; }
constexpr TargetCode kCodes[] = {{"native", &yes, &target}};

}  // namespace

extern const ModelData model_data = {
    {sizeof(tfaot_info), 64, "network", "1", "0", "none", 1, &kInput, 1, &kOutput, 1, kSizes, 1, kTargets, nullptr, 1, 1, 0,
     nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, nullptr},
    kCodes, 1, kOffsets, weights, nullptr};

}  // namespace tfaot_native

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRoundMicroseconds = 100'000;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// The shortest of calls that follow one another for a while.
template <class Call>
double timed(Call call) {
  double least = 1e30, sum = 0.0;
  for (int i = 0; sum < kRoundMicroseconds || i < 3; ++i) {
    const Clock::time_point start = Clock::now();
    call();
    const double time = microseconds(Clock::now() - start);
    least = std::min(least, time);
    sum += time;
  }
  return least;
}

}  // namespace

int main(int, char** argv) {
  std::FILE* const file = std::fopen(argv[1], "rb");
  if (file == nullptr || std::fread(tfaot_native::weights, 1, WEIGHTS, file) != WEIGHTS) return 1;
  std::fclose(file);
  const tfaot::Code code(*tfaot_native::model_table());
  tfaot::Threads threads(2);
  const tfaot::Team team = tfaot::team_of(threads);
  const int rounds = std::atoi(argv[2]);
  for (char** size = argv + 3; *size != nullptr; ++size) {
    const auto rows = static_cast<std::size_t>(std::atoi(*size));
    std::vector<float> in(rows * INPUTS), alone(rows * OUTPUTS), together(rows * OUTPUTS);
    for (std::size_t k = 0; k < in.size(); ++k) in[k] = static_cast<float>(k % 17) / 16.0f - 0.5f;
    const void* const inputs[] = {in.data()};
    void* const one[] = {alone.data()};
    void* const two[] = {together.data()};
    std::printf("%zu", rows);
    for (int round = 0; round <= rounds; ++round) {
      const double first = timed([&] { code.run(rows, inputs, one); });
      const double second = timed([&] { code.run(rows, inputs, two, team); });
      if (round > 0) std::printf(" %.2f %.2f", first, second);
    }
    std::printf("\n");
    if (std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) != 0) return 2;
  }
}
