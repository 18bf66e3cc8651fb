// Stand-in for TensorFlow's header of this name: all that a generated header needs of it.
#ifndef TFAOT_STAND_IN_TYPES_H_
#define TFAOT_STAND_IN_TYPES_H_

#include <cstddef>
#include <cstdint>

namespace tensorflow {
using int8 = std::int8_t;
using int16 = std::int16_t;
using int32 = std::int32_t;
using int64 = std::int64_t;
using uint8 = std::uint8_t;
using uint16 = std::uint16_t;
using uint32 = std::uint32_t;
using uint64 = std::uint64_t;
}  // namespace tensorflow

#endif  // TFAOT_STAND_IN_TYPES_H_
