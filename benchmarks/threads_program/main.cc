// Times a call on one thread and on two, in turn, over a program of random weights. argv: the file of weights, rounds, then
// batch sizes. Each line of the output is a batch size, then pairs of microseconds: processor time alone, and as if two threads
// took the parts; then for each round time alone, and with a team.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <time.h>

#include <tfaot/shared.h>
#include <tfaot/threads.h>
#include <tfaot_kernels/team.h>

#include "model.h"

extern "C" tfaot_native::Program tfaot_program;
#if TILES
extern "C" unsigned tfaot_program_permit_tiles(bool is_granted);
#else
constexpr unsigned (*tfaot_program_permit_tiles)(bool) = nullptr;
#endif

namespace tfaot_native {
namespace {

constexpr std::int64_t kInputShape[] = {-1, INPUTS}, kOutputShape[] = {-1, OUTPUTS}, kSizes[] = {1};
constexpr tfaot_tensor kInput = {"x", TFAOT_FLOAT32, 2, kInputShape, INPUTS, 4, 1};
constexpr tfaot_tensor kOutput = {"y", TFAOT_FLOAT32, 2, kOutputShape, OUTPUTS, 4, 1};
constexpr const char* kTargets[] = {"native"};
constexpr std::uint64_t kOffsets[] = {0};
alignas(64) unsigned char weights[WEIGHTS];

const Target* target() {
  static const Target code = {"native", 0, nullptr, &tfaot_program, SCRATCH, false, nullptr, DIVIDES, MEMBER,
                              tfaot_program_permit_tiles};
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

// Processor time of parts that are computed one after the other, as if two threads took them: it does not depend on what else
// the machine does. Two threads with caches of their own may be faster.
struct Simulated : tfaot_kernels::Team {
  Simulated() : Team{2, &run_parts} {}

  static double now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
  }
  static void run_parts(const Team& team, std::size_t count, Part* part, void* argument) {
    auto& own = const_cast<Simulated&>(static_cast<const Simulated&>(team));
    double threads[2] = {}, last = now();
    for (std::size_t i = 0; i < count; ++i) {
      part(argument, i, own.memory.data() + (64 - reinterpret_cast<std::uintptr_t>(own.memory.data()) % 64));
      const double end = now();
      threads[threads[1] < threads[0]] += end - last;
      last = end;
    }
    own.saved += std::min(threads[0], threads[1]) - kBegin;
  }

  static constexpr double kBegin = 1.0;  // microseconds until another thread takes part
  std::vector<unsigned char> memory = std::vector<unsigned char>(MEMBER + 64);
  double saved = 0.0;
};

// The least processor time of a call on one thread, and on two as if they had processors of their own.
void print_simulated(std::size_t rows, const void* const* inputs, void* const* outputs) {
  std::vector<unsigned char> memory(SCRATCH + 64);
  unsigned char* const scratch = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  double alone = 1e30, together = 1e30;
  Simulated team;
  for (int i = 0; i < 40; ++i) {
    const double start = Simulated::now();
    tfaot_program(rows, inputs, outputs, tfaot_native::weights, scratch, nullptr);
    const double between = Simulated::now();
    team.saved = 0.0;
    tfaot_program(rows, inputs, outputs, tfaot_native::weights, scratch, &team);
    alone = std::min(alone, between - start);
    together = std::min(together, Simulated::now() - between - team.saved);
  }
  std::printf(" %.2f %.2f", alone, together);
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
    print_simulated(rows, inputs, one);
    for (int round = 0; round <= rounds; ++round) {
      const double first = timed([&] { code.run(rows, inputs, one); });
      const double second = timed([&] { code.run(rows, inputs, two, team); });
      if (round > 0) std::printf(" %.2f %.2f", first, second);
    }
    std::printf("\n");
    if (std::memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) != 0) return 2;
  }
}
