// Implements runtime.h for sources that are built with a C++ runtime.

#include "runtime.h"

#include <cstdint>
#include <cstdlib>
#include <new>

namespace tfaot_native {

// Programs call nothing that throws. Only the allocation of memory for an instance may fail.
Outcome run_guarded(void (*work)(void*), void* argument) {
  try {
    work(argument);
    return Outcome::kDone;
  } catch (const std::bad_alloc&) {
    return Outcome::kOutOfMemory;
  } catch (...) {
    return Outcome::kFailed;
  }
}

void fail_call() { std::abort(); }

// As in the binary library: not a thread-local variable, which the C library would allocate.
std::uintptr_t this_thread() {
  std::uintptr_t address;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(address));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(address));
#endif
  return address;
}

Lasting::Lasting() {}
Lasting::~Lasting() {}

}  // namespace tfaot_native
