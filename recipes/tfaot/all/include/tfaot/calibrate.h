// tfaot/calibrate.h: measures the cost of a run of each batch size that the library lists, on this machine.
#ifndef TFAOT_CALIBRATE_H_
#define TFAOT_CALIBRATE_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include <tfaot/macros_on.h>

#include <tfaot/aligned_bytes.h>
#include <tfaot/instance.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {
namespace detail {

/// Zeroed buffers of `tensors` for `batch_size` rows, one after the other.
class ZeroedBuffers {
 public:
  ZeroedBuffers(const tfaot_tensor* tensors, std::size_t count, std::size_t batch_size, std::size_t alignment) {
    std::vector<std::size_t> offsets;
    std::size_t size = 1;
    for (std::size_t i = 0; i < count; ++i) {
      offsets.push_back((size + alignment - 1) / alignment * alignment);
      size = offsets.back() + row_bytes(tensors[i]) * (tensors[i].has_batch_axis != 0 ? batch_size : 1);
    }
    std::byte* const data = bytes_.reserve(size, alignment);
    std::memset(data, 0, size);
    for (const std::size_t offset : offsets) pointers_.push_back(data + offset);
  }

  void* const* writable() const noexcept { return pointers_.data(); }
  const void* const* readable() const noexcept { return const_cast<const void* const*>(pointers_.data()); }

 private:
  AlignedBytes bytes_;
  std::vector<void*> pointers_;
};

}  // namespace detail

/// Nanoseconds of one run of `instance` at each size that the library lists, on inputs of zeros: the minimum of as many
/// rounds over all sizes as fit into `budget`, at least one. Throws Error if a run fails.
inline std::vector<double> measure_batch_costs(Instance& instance, std::chrono::nanoseconds budget) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 4;  // per measurement, because reading the clock takes some tens of nanoseconds
  const tfaot_info& info = instance.info();
  const auto largest = static_cast<std::size_t>(info.batch_sizes[info.num_batch_sizes - 1]);
  const detail::ZeroedBuffers in(info.inputs, info.num_inputs, largest, info.alignment);
  const detail::ZeroedBuffers out(info.outputs, info.num_outputs, largest, info.alignment);
  std::vector<double> costs(info.num_batch_sizes, std::numeric_limits<double>::infinity());
  const auto measure = [&](std::size_t i, int runs) {
    const auto size = static_cast<std::size_t>(info.batch_sizes[i]);
    const Clock::time_point start = Clock::now();
    for (int run = 0; run < runs; ++run) instance.run_compiled(size, in.readable(), out.writable());
    const std::chrono::duration<double, std::nano> taken = Clock::now() - start;
    return taken.count() / runs;
  };
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < costs.size(); ++i) measure(i, 1);  // allocates, and warms the caches
  do {
    for (std::size_t i = 0; i < costs.size(); ++i) {
      const double cost = measure(i, kRuns);
      // At least 1: with a coarse clock, two readings may be equal, and a cost must be positive.
      if (cost < costs[i]) costs[i] = cost > 1.0 ? cost : 1.0;
    }
  } while (Clock::now() - begin < budget);
  return costs;
}

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_CALIBRATE_H_
