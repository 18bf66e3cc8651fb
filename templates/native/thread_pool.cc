// Threads of the caller's that wait for the tasks of teams (tfaot_thread_pool of tfaot/c_api.h).
//
// The library starts none: threads give themselves by a call of serve_thread_pool. A pool is plain memory of the caller's.

#include <pthread.h>
#include <sched.h>

#include "model.h"

namespace tfaot_native {
namespace {

constexpr int kSpins = 4000;  // some 100 microseconds: the layers of a call follow one another

// The content of a tfaot_thread_pool. Zeros are the initial state of mutexes and conditions, too.
struct Pool {
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  std::size_t round;     // tasks that were given; changes under the mutex, is read atomically
  std::size_t sleeping;  // threads that wait for `wake`; under the mutex
  bool stopped;          // likewise, read atomically
  bool busy;             // a call uses the pool; atomic
  std::size_t open;      // the round whose task may begin; 0: none; atomic
  std::size_t inside;    // threads that look for a task, or run it; atomic
  std::size_t left;      // calls of the task that others may begin; atomic
  void (*task)(void*);   // constant while a round is open
  void* argument;
};
static_assert(sizeof(Pool) <= sizeof(tfaot_thread_pool) && alignof(Pool) <= alignof(tfaot_thread_pool));

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

class Lock {
 public:
  explicit Lock(Pool& pool) : mutex_(pool.mutex) { pthread_mutex_lock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

// Waits until a round begins after `seen`, or the pool stops; returns the round.
std::size_t next_round(Pool& pool, std::size_t seen) {
  for (int i = 0; i < kSpins; ++i) {
    const std::size_t round = __atomic_load_n(&pool.round, __ATOMIC_ACQUIRE);
    if (round != seen) return round;
    relax();
  }
  const Lock lock(pool);
  ++pool.sleeping;
  while (pool.round == seen) pthread_cond_wait(&pool.wake, &pool.mutex);
  --pool.sleeping;
  return pool.round;
}

// Begins a round, which wakes all threads.
void begin_round(Pool& pool, bool stops) {
  bool wakes;
  {
    const Lock lock(pool);
    const std::size_t round = pool.round + 1;
    if (stops) {
      __atomic_store_n(&pool.stopped, true, __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(&pool.open, round, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&pool.round, round, __ATOMIC_RELEASE);
    wakes = pool.sleeping != 0;
  }
  if (wakes) pthread_cond_broadcast(&pool.wake);
}

}  // namespace

[[gnu::cold]] void serve_thread_pool(tfaot_thread_pool* given) {
  Pool& pool = *reinterpret_cast<Pool*>(given);
  std::size_t seen = 0;
  while (!__atomic_load_n(&pool.stopped, __ATOMIC_ACQUIRE)) {
    seen = next_round(pool, seen);
    // A thread enters before it looks whether the round is open: it sees that it is closed, or is seen by the caller.
    __atomic_fetch_add(&pool.inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool.open, __ATOMIC_SEQ_CST) == seen) {
      const std::size_t left = __atomic_fetch_sub(&pool.left, 1, __ATOMIC_RELAXED);
      if (static_cast<std::ptrdiff_t>(left) > 0) pool.task(pool.argument);
    }
    __atomic_fetch_sub(&pool.inside, 1, __ATOMIC_RELEASE);
  }
}

[[gnu::cold]] void stop_thread_pool(tfaot_thread_pool* pool) { begin_round(*reinterpret_cast<Pool*>(pool), true); }

[[gnu::cold]] void run_on_thread_pool(void* given, std::size_t count, void (*task)(void* argument), void* argument) {
  Pool& pool = *static_cast<Pool*>(given);
  if (count < 2 || __atomic_exchange_n(&pool.busy, true, __ATOMIC_ACQUIRE)) return;  // the caller computes alone
  pool.task = task;
  pool.argument = argument;
  __atomic_store_n(&pool.left, count - 1, __ATOMIC_RELAXED);
  begin_round(pool, false);
  task(argument);
  __atomic_store_n(&pool.open, std::size_t{0}, __ATOMIC_SEQ_CST);
  for (int i = 0; __atomic_load_n(&pool.inside, __ATOMIC_SEQ_CST) != 0; ++i) {
    if (i < kSpins) {
      relax();
    } else {
      sched_yield();
    }
  }
  __atomic_store_n(&pool.busy, false, __ATOMIC_RELEASE);
}

}  // namespace tfaot_native
