// Replaces the C++ runtime in a library: memory, and errors without exceptions.
//
// A library carries no unwinder, so that it loads with any C library since 2018 and runs nothing when it is loaded. What
// would throw ends the call instead (runtime.cc): run_guarded returns the reason, and gives all memory back.
#ifndef TFAOT_NATIVE_RUNTIME_H_
#define TFAOT_NATIVE_RUNTIME_H_

#include <cstddef>
#include <cstdint>

namespace tfaot_native {

// A number that no two living threads share: the address of the thread's own memory. thread_local variables are no
// alternative: the C library allocates them at their first use, ends the program if it cannot, and keeps the memory.
std::uintptr_t this_thread();

// Tables of data of threads have kPlaces places; the search for a thread begins at first_place.
constexpr std::size_t kPlaces = 512;
constexpr std::size_t first_place(std::uintptr_t thread) { return thread * 0x9E3779B97F4A7C15u >> 55; }
static_assert(kPlaces == std::size_t{1} << (64 - 55), "the shift must give a place of the table");

enum class Outcome { kDone, kOutOfMemory, kFailed };

// Calls work(argument). If memory runs out, or the standard library would throw, the call ends at that place: the memory
// that it allocated is freed, and variables that it was initializing are uninitialized again. Destructors do not run.
Outcome run_guarded(void (*work)(void*), void* argument);

// Ends the guarded call of this thread with Outcome::kFailed.
[[noreturn]] void fail_call();

// While an object of this class exists, memory that this thread allocates is kept even if the guarded call ends early:
// for values that outlive the call.
class Lasting {
 public:
  Lasting();
  ~Lasting();
  Lasting(const Lasting&) = delete;
  Lasting& operator=(const Lasting&) = delete;
};

}  // namespace tfaot_native

#endif  // TFAOT_NATIVE_RUNTIME_H_
