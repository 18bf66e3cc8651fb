// What a library has in place of a C++ runtime: memory, and errors without exceptions.
//
// A library carries no unwinder, so that it loads with any C library since 2018 and runs nothing when it is loaded. What
// would throw ends the call instead (runtime.cc): run_guarded returns the reason, and gives all memory back.
#ifndef TFAOT_NATIVE_RUNTIME_H_
#define TFAOT_NATIVE_RUNTIME_H_

#include <cstddef>
#include <cstdint>

namespace tfaot_native {

// Which thread calls: what no two living threads have in common, the address of the thread's own memory. Variables of
// threads would not do: the C library allocates them at their first use, ends the program if it cannot, and keeps what
// it allocated.
std::uintptr_t this_thread();

// What belongs to threads lies in tables of so many places, where a search for a thread begins at the place given here.
constexpr std::size_t kPlaces = 512;
constexpr std::size_t first_place(std::uintptr_t thread) { return thread * 0x9E3779B97F4A7C15u >> 55; }
static_assert(kPlaces == std::size_t{1} << (64 - 55), "the shift gives as many places");

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
