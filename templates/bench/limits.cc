// Measures the limits of one core for `tfaot-pkg bench`, compiled for the level that is measured: limits ANSWERS
//
// Requests come on standard input, one per line; answers go to the file descriptor ANSWERS, one line of JSON each:
//
//     peak D           multiply-adds of floats per second, the best of chunks for D nanoseconds: {"rate": ...}
//     read N D         bytes per second when N bytes are read repeatedly, the best of chunks for D nanoseconds

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "chunks.h"

namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
constexpr int kLanes = kBytes / 4;
constexpr int kSums = 12;  // two units with a latency of 4 to 5 cycles have up to 10 operations in flight
constexpr int kSteps = 1000;
constexpr int kStreams = 8;
constexpr std::int64_t kShortest = 100'000;  // nanoseconds

typedef float Vector __attribute__((vector_size(kBytes)));

volatile float seed = 0.5f;
volatile float sink;

template <class Run>
double best(Run run, std::int64_t duration) {
  std::int64_t runs = 1;
  std::vector<double> times;
  tfaot_bench::chunks([&] { run(); return true; }, kShortest, duration, &runs, &times);
  return *std::min_element(times.begin(), times.end());
}

void multiplyAdds() {
  Vector sums[kSums];
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) sums[i] = Vector{} + seed;
  const Vector factor = Vector{} + seed, term = Vector{} + seed;
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + term;
  }
  Vector total = {};
#pragma GCC unroll 12
  for (int i = 0; i < kSums; ++i) total += sums[i];
  sink = total[0];
}

void readAll(const float* data, std::size_t count) {
  Vector sums[kStreams] = {};
  for (std::size_t i = 0; i + kStreams * kLanes <= count; i += kStreams * kLanes) {
#pragma GCC unroll 8
    for (int v = 0; v < kStreams; ++v) {
      sums[v] += *reinterpret_cast<const Vector*>(data + i + static_cast<std::size_t>(v * kLanes));
    }
  }
  Vector total = {};
#pragma GCC unroll 8
  for (int v = 0; v < kStreams; ++v) total += sums[v];
  sink = total[0];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int answers = std::atoi(argv[1]);
  void* memory = nullptr;
  std::size_t room = 0;
  for (char line[256]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    long long size = 0, duration = 0;
    if (std::sscanf(line, "peak %lld", &duration) == 1) {
      const double rate = kSteps * kSums * kLanes * 1e9 / best(multiplyAdds, duration);
      dprintf(answers, "{\"rate\": %.0f}\n", rate);
    } else if (std::sscanf(line, "read %lld %lld", &size, &duration) == 2) {
      constexpr std::size_t kStep = kStreams * kBytes;
      const std::size_t bytes = std::max(kStep, static_cast<std::size_t>(size) / kStep * kStep);
      if (bytes > room) {
        std::free(memory);
        if (posix_memalign(&memory, 64, bytes) != 0) return 1;
        std::memset(memory, 0, bytes);
        room = bytes;
      }
      const float* data = static_cast<const float*>(memory);
      const double time = best([&] { readAll(data, bytes / sizeof(float)); }, duration);
      dprintf(answers, "{\"rate\": %.0f}\n", static_cast<double>(bytes) * 1e9 / time);
    } else {
      dprintf(answers, "{\"error\": \"no such request\"}\n");
    }
  }
  return 0;
}
