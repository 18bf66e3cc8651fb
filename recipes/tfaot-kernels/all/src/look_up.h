// look_up.h: tables of bytes.
#ifndef TFAOT_KERNELS_LOOK_UP_H_
#define TFAOT_KERNELS_LOOK_UP_H_

#include "vectors.h"

namespace tfaot_kernels {
inline namespace TFAOT_KERNELS_TARGET {

/// By vectors of 64 bytes: two instructions choose among 128 bytes each.
template <class Bytes>
inline void lookUpVectors(const std::uint8_t* table, std::size_t count, const std::uint8_t* in, std::uint8_t* out) {
  constexpr std::size_t kBytes = sizeof(Bytes);
  Bytes parts[4];
  for (std::size_t i = 0; i < 4; ++i) parts[i] = load(table + i * kBytes);
  const auto found = [&](Bytes places) {
    const Bytes below = lookedUp(places, parts[0], parts[1]), above = lookedUp(places, parts[2], parts[3]);
    return places < broadcast(std::uint8_t{128}) ? below : above;
  };
  for (; count >= kBytes; count -= kBytes, in += kBytes, out += kBytes) store(out, found(load(in)));
  if (count != 0) storeFirst(out, count, found(loadFirst(in, count)));
}

inline void lookUpBytes(const std::uint8_t* table, std::size_t count, const std::uint8_t* in, std::uint8_t* out) {
  using Bytes = VectorOf<std::uint8_t>;
  if constexpr (kMayLookUp<Bytes>) {
    if (looksUp()) return lookUpVectors<Bytes>(table, count, in, out);
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = table[in[i]];
}

}  // namespace TFAOT_KERNELS_TARGET
}  // namespace tfaot_kernels

#endif  // TFAOT_KERNELS_LOOK_UP_H_
