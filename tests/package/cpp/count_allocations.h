// Counts what the program allocates, in any thread. For one translation unit of a program without sanitizers, on glibc.
#ifndef TFAOT_TESTS_COUNT_ALLOCATIONS_H_
#define TFAOT_TESTS_COUNT_ALLOCATIONS_H_

#include <atomic>
#include <cerrno>
#include <cstddef>

inline std::atomic<std::size_t> allocations{0};

// operator new comes here too.
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);

void* malloc(std::size_t size) noexcept {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  ++allocations;
  return __libc_realloc(memory, size);
}
void* memalign(std::size_t alignment, std::size_t size) noexcept {
  ++allocations;
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}

/// How often `call` allocates.
template <class F>
std::size_t allocations_of(F call) {
  const std::size_t before = allocations;
  call();
  return allocations - before;
}

#endif  // TFAOT_TESTS_COUNT_ALLOCATIONS_H_
