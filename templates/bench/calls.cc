// Measures C functions of inference engines for a program in Python: a shared library for ctypes.
//
// All such functions take words (pointers and sizes) and return an int that is zero on success.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "chunks.h"

namespace {

using Word = std::intptr_t;

int call(void* function, std::size_t count, const Word* a) {
  switch (count) {
    case 0: return reinterpret_cast<int (*)()>(function)();
    case 1: return reinterpret_cast<int (*)(Word)>(function)(a[0]);
    case 4: return reinterpret_cast<int (*)(Word, Word, Word, Word)>(function)(a[0], a[1], a[2], a[3]);
    case 7:
      return reinterpret_cast<int (*)(Word, Word, Word, Word, Word, Word, Word)>(function)(
          a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    case 12:
      return reinterpret_cast<int (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word)>(function)(
          a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    default: return -1;
  }
}

}  // namespace

// Measures chunks (chunks.h) of calls of `function` with `count` arguments. If `size` is not 0, the next rows of the `total` bytes at `from` are copied to the `size` bytes at `to` before
// each call, and the first rows at the end. Writes at most `room` times in nanoseconds to `times`, and returns their number,
// or -1 if a call fails.
extern "C" std::ptrdiff_t tfaot_bench_calls(void* function, std::size_t count, const Word* arguments,
                                            std::int64_t shortest, std::int64_t duration, std::int64_t* runs,
                                            double* times, std::size_t room, char* to, const char* from,
                                            std::size_t size, std::size_t total) {
  std::vector<double> taken;
  tfaot_bench::Turning rows = {to, from, size, total};
  const auto run = [=]() mutable {
    if (size != 0) rows.next();
    return call(function, count, arguments) == 0;
  };
  const bool works = tfaot_bench::chunks(run, shortest, duration, runs, &taken);
  if (size != 0) std::memcpy(to, from, size);
  if (!works) return -1;
  const std::size_t kept = std::min(room, taken.size());
  std::copy_n(taken.begin(), kept, times);
  return static_cast<std::ptrdiff_t>(kept);
}
