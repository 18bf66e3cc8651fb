// tfaot/batching.h: how a batch of any size is made of the batch sizes that were compiled.
#ifndef TFAOT_BATCHING_H_
#define TFAOT_BATCHING_H_

#include <cstddef>
#include <cstdint>

#include <tfaot/span.h>

namespace tfaot {
inline namespace v1 {

/// One call of the compiled code: `size` rows, of which the last `padding` ones are not asked for.
struct BatchStep {
  std::size_t size;
  std::size_t padding;
};

/// The next step for `remaining` rows (at least 1), given the compiled `sizes` (ascending, not empty): the largest
/// size that fits; where none does, the smallest, padded.
///
/// This is the whole rule: `remaining` goes down by `size - padding` with every step until it is 0.
constexpr BatchStep next_step(std::size_t remaining, span<const std::int64_t> sizes) noexcept {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(sizes[i]);
    if (size <= remaining) return {size, 0};
  }
  const auto smallest = static_cast<std::size_t>(sizes[0]);
  return {smallest, smallest - remaining};
}

}  // namespace v1
}  // namespace tfaot

#endif  // TFAOT_BATCHING_H_
