// The parts of a C++ runtime that compiled code and the standard library's headers need, using only the C library.

#include "runtime.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include <sched.h>

#if defined(__clang__) && defined(__aarch64__)
// Clang has no __builtin_setjmp for AArch64, and libraries may not need the C library's longjmp: these functions store and
// load the registers that AAPCS64 lets a function keep. The names are local to this object file.
__asm__(
    ".text\n"
    ".p2align 2\n"
    ".type tfaot_native_mark, %function\n"
    "tfaot_native_mark:\n"
    "  stp x19, x20, [x0]\n"
    "  stp x21, x22, [x0, #16]\n"
    "  stp x23, x24, [x0, #32]\n"
    "  stp x25, x26, [x0, #48]\n"
    "  stp x27, x28, [x0, #64]\n"
    "  stp x29, x30, [x0, #80]\n"
    "  stp d8, d9, [x0, #96]\n"
    "  stp d10, d11, [x0, #112]\n"
    "  stp d12, d13, [x0, #128]\n"
    "  stp d14, d15, [x0, #144]\n"
    "  mov x2, sp\n"
    "  str x2, [x0, #160]\n"
    "  mov w0, #0\n"
    "  ret\n"
    ".size tfaot_native_mark, .-tfaot_native_mark\n"
    ".p2align 2\n"
    ".type tfaot_native_return, %function\n"
    "tfaot_native_return:\n"
    "  ldp x19, x20, [x0]\n"
    "  ldp x21, x22, [x0, #16]\n"
    "  ldp x23, x24, [x0, #32]\n"
    "  ldp x25, x26, [x0, #48]\n"
    "  ldp x27, x28, [x0, #64]\n"
    "  ldp x29, x30, [x0, #80]\n"
    "  ldp d8, d9, [x0, #96]\n"
    "  ldp d10, d11, [x0, #112]\n"
    "  ldp d12, d13, [x0, #128]\n"
    "  ldp d14, d15, [x0, #144]\n"
    "  ldr x2, [x0, #160]\n"
    "  mov sp, x2\n"
    "  mov w0, #1\n"
    "  ret\n"
    ".size tfaot_native_return, .-tfaot_native_return\n");
extern "C" {
int tfaot_native_mark(void* place) __attribute__((returns_twice, visibility("hidden")));
[[noreturn]] void tfaot_native_return(void* place) __attribute__((visibility("hidden")));
}
#define TFAOT_PLACE std::uint64_t[21]
#define TFAOT_MARK(place) tfaot_native_mark(place)
#define TFAOT_RETURN(place) tfaot_native_return(place)
#else
// The compiler's built-in form saves three registers, and its caller the others: a call costs a nanosecond.
#define TFAOT_PLACE void* [5]
#define TFAOT_MARK(place) __builtin_setjmp(place)
#define TFAOT_RETURN(place) __builtin_longjmp(place, 1)
#endif

namespace tfaot_native {
namespace {

// The header of allocated memory. It is in a list until the guarded call that allocated it ends.
struct alignas(std::max_align_t) Block {
  Block* next;
  Block** link;  // what points here; null outside of lists
};

// The guard of a static variable of a function (Itanium C++ ABI, 3.3.3): the first byte says that it is initialized, the
// second that a thread is initializing it.
struct Guard {
  unsigned char done;
  unsigned char busy;
};

using Place = TFAOT_PLACE;

constexpr std::size_t kMostGuards = 8;  // static variables whose initializers initialize others

// A variable that is being initialized, and what the call had allocated before that.
struct Initialization {
  Guard* guard;
  Block* before;
};

struct Slot;

struct Call {
  Place place;
  Slot* slot;
  Call* outer;  // what the slot held before: see enter
  Block* blocks;
  Initialization initializing[kMostGuards];
  std::size_t guards;
  Outcome outcome;
  int lasting;
};

// The calls of all threads.
struct alignas(64) Slot {
  std::uintptr_t thread;  // 0: free
  Call* call;
};

Slot slots[kPlaces];

// A slot may have this thread's number already: from an outer call, which a signal interrupted; from a call that never
// left, because a signal handler jumped out of it; or from a fork, which copied the slot of a thread but not the thread,
// whose number this one got. The slot then keeps the outer call, so that current_call, which searches in the same order,
// finds the innermost one.
void enter(Call& call) {
  const std::uintptr_t thread = this_thread();
  for (std::size_t i = first_place(thread), tries = 1;; i = (i + 1) % kPlaces, ++tries) {
    std::uintptr_t holder = 0;
    const bool taken = __atomic_compare_exchange_n(&slots[i].thread, &holder, thread, false, __ATOMIC_ACQUIRE,
                                                   __ATOMIC_RELAXED);
    if (taken || holder == thread) {
      call.slot = &slots[i];
      call.outer = taken ? nullptr : slots[i].call;
      slots[i].call = &call;
      return;
    }
    if (tries % kPlaces == 0) sched_yield();  // more threads than places: each waits for one
  }
}

void leave(Call& call) {
  call.slot->call = call.outer;
  if (call.outer == nullptr) __atomic_store_n(&call.slot->thread, 0, __ATOMIC_RELEASE);
}

Call* current_call() {
  const std::uintptr_t thread = this_thread();
  std::size_t i = first_place(thread);
  for (std::size_t tries = 0; tries < kPlaces; ++tries, i = (i + 1) % kPlaces) {
    if (__atomic_load_n(&slots[i].thread, __ATOMIC_RELAXED) == thread) return slots[i].call;
  }
  return nullptr;
}

void unlink(Block* block) {
  if (block->link == nullptr) return;
  *block->link = block->next;
  if (block->next != nullptr) block->next->link = block->link;
  block->link = nullptr;
}

void* allocate(std::size_t size) noexcept {
  if (size > SIZE_MAX - sizeof(Block)) return nullptr;
  auto* const block = static_cast<Block*>(std::malloc(sizeof(Block) + size));
  if (block == nullptr) return nullptr;
  block->next = nullptr;
  block->link = nullptr;
  if (Call* const call = current_call(); call != nullptr && call->lasting == 0) {
    block->next = call->blocks;
    block->link = &call->blocks;
    if (block->next != nullptr) block->next->link = &block->next;
    call->blocks = block;
  }
  return block + 1;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  Block* const block = static_cast<Block*>(memory) - 1;
  unlink(block);
  std::free(block);
}

[[noreturn]] void end_call(Outcome outcome) {
  Call* const call = current_call();
  if (call == nullptr) std::abort();  // no call of ours: cannot happen
  call->outcome = outcome;
  TFAOT_RETURN(call->place);
}

void* allocate_or_end(std::size_t size) {
  void* const memory = allocate(size);
  if (memory == nullptr) end_call(Outcome::kOutOfMemory);
  return memory;
}

// Moves a list, whose first block knows where the list begins.
void move_list(Block*& from, Block*& to) {
  to = from;
  if (to != nullptr) to->link = &to;
  from = nullptr;
}

void begin(Call& call, Guard* guard) {
  if (call.guards == kMostGuards) return;
  Initialization& last = call.initializing[call.guards++];
  last.guard = guard;
  move_list(call.blocks, last.before);
}

void keep(Call& call) {
  while (call.blocks != nullptr) unlink(call.blocks);
}

// Memory that an initializer allocated belongs to the variable, which outlives the call however that ends.
void finish(Call& call, const Guard* guard) {
  if (call.guards == 0 || call.initializing[call.guards - 1].guard != guard) return;
  keep(call);
  move_list(call.initializing[--call.guards].before, call.blocks);
}

void give_back(Call& call) {
  for (;;) {
    while (call.blocks != nullptr) release(call.blocks + 1);
    if (call.guards == 0) return;
    Initialization& last = call.initializing[--call.guards];
    move_list(last.before, call.blocks);
    __atomic_store_n(&last.guard->busy, 0, __ATOMIC_RELEASE);
  }
}

}  // namespace

std::uintptr_t this_thread() {
  std::uintptr_t address;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(address));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(address));
#endif
  return address;
}

__attribute__((noinline)) Outcome run_guarded(void (*work)(void*), void* argument) {
  Call call;
  call.blocks = nullptr;
  call.guards = 0;
  call.outcome = Outcome::kDone;
  call.lasting = 0;
  enter(call);
  if (TFAOT_MARK(call.place) == 0) {
    work(argument);
    keep(call);
  } else {
    give_back(call);
  }
  leave(call);
  return call.outcome;
}

void fail_call() { end_call(Outcome::kFailed); }

Lasting::Lasting() {
  if (Call* const call = current_call(); call != nullptr) ++call->lasting;
}

Lasting::~Lasting() {
  if (Call* const call = current_call(); call != nullptr) --call->lasting;
}

}  // namespace tfaot_native

using tfaot_native::allocate;
using tfaot_native::allocate_or_end;
using tfaot_native::end_call;
using tfaot_native::Guard;
using tfaot_native::Outcome;
using tfaot_native::release;

// Memory. Eigen's matrix products call malloc and free, which native/build.py renames to tfaot_allocate and tfaot_release.

void* operator new(std::size_t size) { return allocate_or_end(size); }
void* operator new[](std::size_t size) { return allocate_or_end(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory); }

namespace std {

const nothrow_t nothrow{};

// The functions that the standard library's headers call to throw.
__attribute__((noreturn)) void __throw_bad_alloc() { end_call(Outcome::kOutOfMemory); }
__attribute__((noreturn)) void __throw_bad_array_new_length() { end_call(Outcome::kOutOfMemory); }
__attribute__((noreturn)) void __throw_length_error(const char*) { end_call(Outcome::kOutOfMemory); }
__attribute__((noreturn)) void __throw_logic_error(const char*) { end_call(Outcome::kFailed); }
__attribute__((noreturn)) void __throw_out_of_range(const char*) { end_call(Outcome::kFailed); }
__attribute__((noreturn)) void __throw_out_of_range_fmt(const char*, ...) { end_call(Outcome::kFailed); }
__attribute__((noreturn)) void __throw_invalid_argument(const char*) { end_call(Outcome::kFailed); }
__attribute__((noreturn)) void __throw_bad_function_call() { end_call(Outcome::kFailed); }

// Members of strings that the headers leave to the library. Generated code uses strings for the names of its kernels.
template string::pointer string::_M_create(string::size_type&, string::size_type);
template void string::_M_dispose();
template void string::_M_mutate(string::size_type, string::size_type, const char*, string::size_type);
template string& string::_M_append(const char*, string::size_type);
template void string::_M_assign(const string&);

}  // namespace std

extern "C" {

void* tfaot_allocate(std::size_t size) { return allocate(size); }
void tfaot_release(void* memory) { release(memory); }

void __cxa_throw_bad_array_new_length() { end_call(Outcome::kOutOfMemory); }
void __cxa_pure_virtual() { std::abort(); }

int __cxa_guard_acquire(Guard* guard) {
  for (;;) {
    if (__atomic_load_n(&guard->done, __ATOMIC_ACQUIRE) != 0) return 0;
    if (__atomic_exchange_n(&guard->busy, 1, __ATOMIC_ACQUIRE) == 0) break;
    sched_yield();
  }
  if (__atomic_load_n(&guard->done, __ATOMIC_ACQUIRE) != 0) {
    __atomic_store_n(&guard->busy, 0, __ATOMIC_RELEASE);
    return 0;
  }
  if (tfaot_native::Call* const call = tfaot_native::current_call(); call != nullptr) begin(*call, guard);
  return 1;
}

void __cxa_guard_release(Guard* guard) {
  if (tfaot_native::Call* const call = tfaot_native::current_call(); call != nullptr) finish(*call, guard);
  __atomic_store_n(&guard->done, 1, __ATOMIC_RELEASE);
  __atomic_store_n(&guard->busy, 0, __ATOMIC_RELEASE);
}

void __cxa_guard_abort(Guard* guard) { __atomic_store_n(&guard->busy, 0, __ATOMIC_RELEASE); }

// Destructors of a thread's variables: the C library runs them, and keeps the library loaded until then.
void* __dso_handle = &__dso_handle;
int __cxa_thread_atexit_impl(void (*)(void*), void*, void*);
int __cxa_thread_atexit(void (*destructor)(void*), void* object, void*) {
  return __cxa_thread_atexit_impl(destructor, object, &__dso_handle);
}

}  // extern "C"

// The standard library's headers give these default visibility; here they must stay inside of the library.
#define TFAOT_HIDE(name) __asm__(".hidden " name)
TFAOT_HIDE("_Znwm");
TFAOT_HIDE("_Znam");
TFAOT_HIDE("_ZnwmRKSt9nothrow_t");
TFAOT_HIDE("_ZnamRKSt9nothrow_t");
TFAOT_HIDE("_ZdlPv");
TFAOT_HIDE("_ZdaPv");
TFAOT_HIDE("_ZdlPvm");
TFAOT_HIDE("_ZdaPvm");
TFAOT_HIDE("_ZdlPvRKSt9nothrow_t");
TFAOT_HIDE("_ZdaPvRKSt9nothrow_t");
TFAOT_HIDE("_ZSt17__throw_bad_allocv");
TFAOT_HIDE("_ZSt28__throw_bad_array_new_lengthv");
TFAOT_HIDE("_ZSt20__throw_length_errorPKc");
TFAOT_HIDE("_ZSt19__throw_logic_errorPKc");
TFAOT_HIDE("_ZSt20__throw_out_of_rangePKc");
TFAOT_HIDE("_ZSt24__throw_out_of_range_fmtPKcz");
TFAOT_HIDE("_ZSt24__throw_invalid_argumentPKc");
TFAOT_HIDE("_ZSt25__throw_bad_function_callv");
TFAOT_HIDE("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm");
TFAOT_HIDE("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE10_M_disposeEv");
TFAOT_HIDE("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_mutateEmmPKcm");
TFAOT_HIDE("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm");
TFAOT_HIDE("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_assignERKS4_");
TFAOT_HIDE("_ZSt7nothrow");
