// runtime.h for sources that are built with a C++ runtime.

#include "runtime.h"

#include <cstdlib>
#include <new>

namespace tfaot_native {

// A program calls nothing that throws: only memory for an instance may be missing.
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

Lasting::Lasting() {}
Lasting::~Lasting() {}

}  // namespace tfaot_native
