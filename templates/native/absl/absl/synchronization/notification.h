// Stand-in for Abseil's header of this name: the callback has run when its call returns, so there is nothing to wait for.
#ifndef TFAOT_STAND_IN_NOTIFICATION_H_
#define TFAOT_STAND_IN_NOTIFICATION_H_

namespace absl {
class Notification {
 public:
  void Notify() {}
  void WaitForNotification() const {}
};
}  // namespace absl

#endif  // TFAOT_STAND_IN_NOTIFICATION_H_
