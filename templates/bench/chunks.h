// How the programs of `tfaot-pkg bench` measure time: in chunks of runs, each long enough for the clock's resolution.
#ifndef TFAOT_BENCH_CHUNKS_H_
#define TFAOT_BENCH_CHUNKS_H_

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tfaot_bench {

inline std::int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

// Rows that an engine reads at `to`, `size` bytes per run: each run gets the next ones of the `total` bytes at `from`, and
// the first ones again after the last. With the same rows, the CPU would predict all branches that depend on them.
struct Turning {
  char* to;
  const char* from;
  std::size_t size, total, at = 0;

  void next() {
    std::memcpy(to, from + at, size);
    at += size;
    if (at + size > total) at = 0;
  }
};

// Measures the mean time of a run, in nanoseconds, over chunks of `*runs` runs each, for `duration` nanoseconds, at least
// once. `*runs` grows until a chunk takes `shortest` nanoseconds. False if a run fails.
template <class Run>
bool chunks(Run run, std::int64_t shortest, std::int64_t duration, std::int64_t* runs, std::vector<double>* times) {
  times->clear();
  for (const std::int64_t begin = now(); times->empty() || now() - begin < duration;) {
    const std::int64_t start = now();
    for (std::int64_t i = 0; i < *runs; ++i) {
      if (!run()) return false;
    }
    const std::int64_t taken = now() - start;
    if (taken < shortest) {
      *runs *= 2;
      continue;
    }
    times->push_back(static_cast<double>(taken) / static_cast<double>(*runs));
  }
  return true;
}

}  // namespace tfaot_bench

#endif
