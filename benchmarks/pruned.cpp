// pruned.cpp: the two forms of a dense layer by C names, and the time of calls, for benchmarks/pruned.py.
#include <ctime>

#include "tfaot_kernels/kernels.h"

namespace kernels = tfaot_kernels;

namespace {

/// Seconds of this thread for one of `calls` calls.
template <class Call>
double timed(std::size_t calls, Call call) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  for (std::size_t i = 0; i < calls; ++i) call();
  return (now() - begin) / static_cast<double>(calls);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) double time_of(const kernels::SparseDense* layer, bool skips, std::size_t batch,
                                                                 const float* in, float* out, float* scratch, std::size_t calls) {
  if (skips) return timed(calls, [&] { kernels::sparseDense(*layer, batch, in, out, scratch); });
  return timed(calls, [&] { kernels::dense(layer->dense, batch, in, out); });
}
