// Stand-in for Abseil's header of this name: callbacks that are called once, in the caller's thread.
#ifndef TFAOT_STAND_IN_ANY_INVOCABLE_H_
#define TFAOT_STAND_IN_ANY_INVOCABLE_H_

#include <functional>

namespace absl {
template <class Signature>
using AnyInvocable = std::function<Signature>;
}  // namespace absl

#endif  // TFAOT_STAND_IN_ANY_INVOCABLE_H_
