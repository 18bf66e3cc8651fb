// Stand-in for XLA's header of this name: generated code for our interfaces' dtypes needs nothing of it.
#ifndef TFAOT_STAND_IN_XLA_TYPES_H_
#define TFAOT_STAND_IN_XLA_TYPES_H_

#include <complex>
#include <cstdint>

#endif  // TFAOT_STAND_IN_XLA_TYPES_H_
