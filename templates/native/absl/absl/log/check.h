// Stand-in for Abseil's header of this name: a failed check ends the call, whose status says so.
#ifndef TFAOT_STAND_IN_CHECK_H_
#define TFAOT_STAND_IN_CHECK_H_

#include "runtime.h"

namespace tfaot_native {

// Swallows the text that is streamed after a check, then ends the call.
class FailedCheck {
 public:
  template <class T>
  FailedCheck& operator<<(const T&) {
    return *this;
  }
  ~FailedCheck() { fail_call(); }
};

class PassedCheck {
 public:
  template <class T>
  const PassedCheck& operator<<(const T&) const {
    return *this;
  }
};

}  // namespace tfaot_native

#define CHECK(condition) \
  if (condition) {       \
  } else                 \
    ::tfaot_native::FailedCheck()
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define DCHECK(condition) ::tfaot_native::PassedCheck()
#define DCHECK_EQ(a, b) ::tfaot_native::PassedCheck()
#define DCHECK_LT(a, b) ::tfaot_native::PassedCheck()
#define LOG(severity) ::tfaot_native::FailedCheck()

#endif  // TFAOT_STAND_IN_CHECK_H_
