// Stand-in for Abseil's header of this name.
#ifndef TFAOT_STAND_IN_OPTIMIZATION_H_
#define TFAOT_STAND_IN_OPTIMIZATION_H_

#define ABSL_PREDICT_FALSE(x) (__builtin_expect(static_cast<bool>(x), false))
#define ABSL_PREDICT_TRUE(x) (__builtin_expect(static_cast<bool>(x), true))

#endif  // TFAOT_STAND_IN_OPTIMIZATION_H_
