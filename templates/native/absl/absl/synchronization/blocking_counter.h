// Stand-in for Abseil's header of this name: the callbacks have run when their calls return.
#ifndef TFAOT_STAND_IN_BLOCKING_COUNTER_H_
#define TFAOT_STAND_IN_BLOCKING_COUNTER_H_

namespace absl {
class BlockingCounter {
 public:
  explicit BlockingCounter(int) {}
  bool DecrementCount() { return false; }
  void Wait() {}
};
}  // namespace absl

#endif  // TFAOT_STAND_IN_BLOCKING_COUNTER_H_
