// The runtime of libraries (templates/native/runtime.h) and the adapter of units, alone: guarded NAME runs one case.
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "adapter.h"
#include "runtime.h"

namespace {

using tfaot_native::Buffer;
using tfaot_native::BufferKind;
using tfaot_native::fail_call;
using tfaot_native::Outcome;
using tfaot_native::run_guarded;

void require(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  _exit(1);
}

void fail(void*) {
  require(new int[1000] != nullptr, "memory");
  fail_call();
}

void add_one(void* number) { ++*static_cast<int*>(number); }

void run_two() {
  int number = 1;
  require(run_guarded(&fail, nullptr) == Outcome::kFailed, "a call that fails");
  require(run_guarded(&add_one, &number) == Outcome::kDone && number == 2, "a call that does not");
}

// A signal handler that jumps out of a call.
jmp_buf outside;
__attribute__((noinline)) void jump_out() {
  if (setjmp(outside) == 0) run_guarded([](void*) { longjmp(outside, 1); }, nullptr);
}

void left() {
  for (int i = 0; i < 3; ++i) {
    jump_out();
    memset(alloca(4096), 0xff, 4096);  // where the frame was
    run_two();
  }
}

// A signal handler that runs a model during a call.
void nested() {
  bool returned = false;
  const auto outer = [](void* returned) {
    run_two();
    *static_cast<bool*>(returned) = true;
    fail_call();
  };
  require(run_guarded(outer, &returned) == Outcome::kFailed, "the outer call");
  require(returned, "the inner call ended the outer one");
  run_two();
}

constexpr int kThreads = 300;
pthread_barrier_t barrier;

void* in_thread(void* (*work)(void*), int count) {
  static pthread_t threads[kThreads];
  for (int i = 0; i < count; ++i) require(pthread_create(&threads[i], nullptr, work, nullptr) == 0, "a thread");
  for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
  return nullptr;
}

// More calls at a time than the largest machines have cores.
void many() {
  pthread_barrier_init(&barrier, nullptr, kThreads);
  in_thread(
      [](void*) -> void* {
        run_guarded([](void*) { pthread_barrier_wait(&barrier); }, nullptr);
        return nullptr;
      },
      kThreads);
}

// Calls of other threads last while the program forks: their threads are not there in the child, their memory is, and
// the C library gives it to new threads.
void forked() {
  constexpr int kOthers = 16;
  pthread_barrier_init(&barrier, nullptr, kOthers + 1);
  const auto in_call = [](void*) -> void* {
    const auto work = [](void*) {
      pthread_barrier_wait(&barrier);
      pthread_barrier_wait(&barrier);
    };
    run_guarded(work, nullptr);
    return nullptr;
  };
  pthread_t others[kOthers];
  for (pthread_t& other : others) require(pthread_create(&other, nullptr, in_call, nullptr) == 0, "a thread");
  pthread_barrier_wait(&barrier);
  const pid_t child = fork();
  if (child == 0) {
    in_thread(
        [](void*) -> void* {
          memset(alloca(16384), 0xff, 16384);
          run_two();
          return nullptr;
        },
        kOthers);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  pthread_barrier_wait(&barrier);
  for (pthread_t& other : others) pthread_join(other, nullptr);
  require(status == 0, "the child");
}

// If a call ends early, memory of a variable that was initialized lasts, and memory of one that was not is free again.
struct Held {
  int* numbers;
  explicit Held(int number) : numbers(new int[4]{number, number, number, number}) {}
};

bool fails;

const Held& second() {
  static const Held held = [] {
    const Held made(8);
    if (fails) fail_call();
    return made;
  }();
  return held;
}

const Held& first() {
  static const Held held(7);
  return held;
}

void both(void* sum) {
  static const int made = [] {
    int* const before = new int[4]{1, 1, 1, 1};
    const int result = first().numbers[3] + second().numbers[3];
    delete[] before;
    return result;
  }();
  *static_cast<int*>(sum) = made;
}

void variables() {
  int sum = 0;
  fails = true;
  require(run_guarded(&both, &sum) == Outcome::kFailed, "the first time");
  int* others[4];  // memory that was given back is given out again
  for (int*& other : others) {
    other = new int[4]{9, 9, 9, 9};
    __asm__ volatile("" : : "r"(other) : "memory");
  }
  fails = false;
  require(run_guarded(&both, &sum) == Outcome::kDone, "the second time");
  require(sum == 15, "memory of a variable was given back");
  for (const int* const other : others) delete[] other;
}

// A unit whose tables are read twice keeps its constants.
struct Generated {
  using Data = tensorflow::XlaCompiledCpuFunction::StaticData;
  static const Data& StaticData() {
    static const xla::cpu::EncodedBufferAllocationInfo encoded = {4 << 2, ~0u, ~0u};
    static const xla::cpu::BufferAllocationInfo info(encoded);
    static char bytes[4];
    static const Data* const data = [] {
      auto* const made = new Data;
      made->constants = {{4, bytes}};
      made->buffer_infos = &info;
      made->num_buffers = 1;
      return made;
    }();
    return *data;
  }
};

Buffer buffers[1];

void constants() {
  for (int i = 0; i < 2; ++i) {
    run_guarded([](void*) { tfaot_native::describe<Generated>(buffers); }, nullptr);
    require(buffers[0].kind == BufferKind::kConstant && buffers[0].constant != nullptr, "the constant is lost");
  }
}

struct Case {
  const char* name;
  void (*run)();
};

constexpr Case kCases[] = {{"left", &left},     {"nested", &nested},       {"many", &many},
                           {"forked", &forked}, {"variables", &variables}, {"constants", &constants}};

}  // namespace

void* tensorflow::XlaCompiledCpuFunction::StaticData::operator new(std::size_t) {
  alignas(StaticData) static unsigned char memory[sizeof(StaticData)];
  return memory;
}

int main(int, char** argv) {
  alarm(60);
  for (const Case& one : kCases) {
    if (strcmp(argv[1], one.name) == 0) return one.run(), 0;
  }
  return 2;
}
