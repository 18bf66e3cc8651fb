// sealed [open]: prints for each way to make a system call what it gives a program that has given up starting others, or
// with `open` one that has not: a number, or "refused".

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "sealed.h"

namespace {

void tell(const char* way, long result) {
  std::printf("%s: %s\n", way, result == -EPERM ? "refused" : "allowed");
  std::fflush(stdout);
}

long raw(long number, const void* path, const void* words) {
  errno = 0;
  const long result = syscall(number, path, words, nullptr);
  return result < 0 ? -errno : result;
}

}  // namespace

int main(int argc, char**) {
  if (argc == 1) tools::start_no_programs();
  const char* const words[] = {"none", nullptr};
  tell("getpid", raw(SYS_getpid, nullptr, nullptr));
  tell("execve", raw(SYS_execve, "/nowhere", words));
  tell("execveat", raw(SYS_execveat, nullptr, "/nowhere"));
#if defined(__x86_64__)
  tell("x32", raw(0x40000000 | SYS_getpid, nullptr, nullptr));
  long result = 20;  // getpid of 32-bit programs
  asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
  tell("int 0x80", result);
#endif
}
