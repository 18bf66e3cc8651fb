// The entry point of a package's programs, in place of the compiler's start files.
//
// Those need a C library as new as the one that they were built with. This one needs only what every C library has, and runs
// no constructors: none are linked in. Like the library, a program contains runtime.cc and no other C++ runtime.

#include <cstdint>
#include <cstdio>
#include <string>

#include "runtime.h"

// The entry point of ELF files: the C library's loader jumps to it with the number of arguments on top of the stack, and
// its own function for the end of the program in a register (System V ABI, chapters on processes of each architecture).
__asm__(
    ".text\n"
    ".globl _start\n"
    ".type _start, %function\n"
    "_start:\n"
#if defined(__x86_64__)
    "  xorl %ebp, %ebp\n"
    "  movq %rsp, %rdi\n"
    "  movq %rdx, %rsi\n"
    "  andq $-16, %rsp\n"
    "  call tfaot_start\n"
    "  hlt\n"
#elif defined(__aarch64__)
    "  mov x29, xzr\n"
    "  mov x30, xzr\n"
    "  mov x1, x0\n"
    "  mov x0, sp\n"
    "  bl tfaot_start\n"
    "  brk #0\n"
#else
#error "no entry point for this architecture"
#endif
    ".size _start, . - _start\n");

// Headers declare this instance as part of the standard library, which is not linked.
template class std::basic_string<char>;

int program(int argc, char** argv) __asm__("main");  // C++ forbids calling main by its name

namespace {

struct Arguments {
  int argc;
  char** argv;
  int status;
};

void run_program(void* argument) {
  auto* const arguments = static_cast<Arguments*>(argument);
  arguments->status = program(arguments->argc, arguments->argv);
}

int guarded(int argc, char** argv, char**) {
  Arguments arguments = {argc, argv, 0};
  if (tfaot_native::run_guarded(&run_program, &arguments) == tfaot_native::Outcome::kDone) return arguments.status;
  std::fprintf(stderr, "%s: out of memory\n", argv[0]);
  return 2;
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*begin)(), void (*end)(),
                      void (*loader_end)(), void* stack_end);

__attribute__((noreturn, visibility("hidden"), used)) void tfaot_start(void** stack, void (*loader_end)()) {
  const int argc = static_cast<int>(reinterpret_cast<std::intptr_t>(stack[0]));
  __libc_start_main(&guarded, argc, reinterpret_cast<char**>(stack + 1), nullptr, nullptr, loader_end, stack);
  __builtin_trap();
}

}  // extern "C"
