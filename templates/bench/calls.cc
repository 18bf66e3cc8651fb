// Times C functions of inference engines for a program in Python: a shared library for ctypes.
//
// All such functions take words (pointers and sizes) and return a word that is zero if all is well.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "chunks.h"

namespace {

using Word = std::intptr_t;

Word call(void* function, std::size_t count, const Word* a) {
  switch (count) {
    case 0: return reinterpret_cast<Word (*)()>(function)();
    case 1: return reinterpret_cast<Word (*)(Word)>(function)(a[0]);
    case 4: return reinterpret_cast<Word (*)(Word, Word, Word, Word)>(function)(a[0], a[1], a[2], a[3]);
    case 7:
      return reinterpret_cast<Word (*)(Word, Word, Word, Word, Word, Word, Word)>(function)(
          a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    case 8:
      return reinterpret_cast<Word (*)(Word, Word, Word, Word, Word, Word, Word, Word)>(function)(
          a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    case 12:
      return reinterpret_cast<Word (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word)>(function)(
          a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
    default: return -1;
  }
}

}  // namespace

// Chunks (chunks.h) of calls of `function` with `count` arguments. Where `wide` is 0 its result is an int, else a
// pointer. Writes at most `room` times in nanoseconds to `times`; returns how many, or -1 if a call fails.
extern "C" std::ptrdiff_t tfaot_bench_calls(void* function, std::size_t count, const Word* arguments, int wide,
                                            std::int64_t shortest, std::int64_t duration, std::int64_t* runs,
                                            double* times, std::size_t room) {
  std::vector<double> taken;
  const auto run = [=] {
    const Word result = call(function, count, arguments);
    return wide != 0 ? result == 0 : static_cast<int>(result) == 0;
  };
  if (!tfaot_bench::chunks(run, shortest, duration, runs, &taken)) return -1;
  const std::size_t kept = std::min(room, taken.size());
  std::copy_n(taken.begin(), kept, times);
  return static_cast<std::ptrdiff_t>(kept);
}
