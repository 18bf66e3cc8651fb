// What a library has in place of a C++ runtime: memory, and errors without exceptions.
//
// A library carries no unwinder, so that it loads with any C library since 2018 and runs nothing when it is loaded. What
// would throw ends the call instead (runtime.cc): run_guarded returns the reason, and gives all memory back.
#ifndef TFAOT_NATIVE_RUNTIME_H_
#define TFAOT_NATIVE_RUNTIME_H_

namespace tfaot_native {

enum class Outcome { kDone, kOutOfMemory, kFailed };

// Calls work(argument). Where memory is missing, or the standard library would throw, the call ends there: memory that
// it allocated is free again, and what it was initializing is uninitialized again. Destructors do not run.
Outcome run_guarded(void (*work)(void*), void* argument);

// Ends the call of this thread that is guarded, as one that failed.
[[noreturn]] void fail_call();

// While one lives, what this thread allocates stays when a guarded call ends early: for values that outlive the call.
class Lasting {
 public:
  Lasting();
  ~Lasting();
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;
};

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_RUNTIME_H_
