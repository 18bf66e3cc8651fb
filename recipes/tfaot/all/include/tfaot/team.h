// tfaot/team.h: threads that compute one call of a model together. They come from an executor of the program: tfaot::Threads
// (tfaot/threads.h), a thread pool of Eigen, or any function that runs tasks, such as one of TBB.
//
//     tfaot::Threads threads(4);
//     const tfaot::Team team = tfaot::team_of(threads);
//     model.run(batch_size, {pixels}, {digit, probability}, team);    // model: tfaot::Shared
#ifndef TFAOT_TEAM_H_
#define TFAOT_TEAM_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <type_traits>
#include <utility>

#include <tfaot/macros_on.h>

#include <tfaot/c_api.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// Threads that calls may use; by default the calling thread alone. A team refers to its executor, which must live longer,
/// and can be copied. Answers have the same bits with every team.
class Team {
 public:
  Team() = default;

  /// A team of the C interface.
  Team(const tfaot_team& given) noexcept : team_(given) {}

  /// Threads that compute at a time.
  std::size_t size() const noexcept { return team_.size; }

  /// The team of the C interface; null if the calling thread computes alone.
  const tfaot_team* get() const noexcept { return team_.size > 1 ? &team_ : nullptr; }

 private:
  tfaot_team team_{nullptr, 1, nullptr};
};

namespace detail {

using TeamTask = void (*)(void* argument);

/// Calls `call`, and drops exceptions: threads of the caller compute what a team leaves undone.
template <class Call>
void without_exceptions(Call&& call) noexcept {
#if TFAOT_EXCEPTIONS
  try {
    call();
  } catch (...) {
  }
#else
  call();
#endif
}

template <class Executor>
void run_on_executor(void* executor, std::size_t count, TeamTask task, void* argument) {
  without_exceptions([&] { (*static_cast<Executor*>(executor))(count, [=](std::size_t) { task(argument); }); });
}

/// A task on several threads, and the wait for their ends. It allocates nothing.
class TaskOfTeam {
 public:
  TaskOfTeam(TeamTask task, void* argument) noexcept : task_(task), argument_(argument) {}

  /// Before a thread is asked to call `run`.
  void expect_one() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++left_;
  }
  /// If it was not asked after all.
  void ended() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--left_ == 0) done_.notify_one();
  }
  void run() {
    task_(argument_);
    ended();
  }
  void wait() {
    constexpr int kSpins = 4000;  // some 100 microseconds: the parts of a layer end at nearly the same time
    for (int i = 0; i < kSpins && left_.load(std::memory_order_relaxed) != 0; ++i) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return left_.load(std::memory_order_relaxed) == 0; });
  }

 private:
  TeamTask task_;
  void* argument_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::atomic<std::size_t> left_{0};  // changed under the mutex
};

/// On a thread pool with the functions of Eigen::ThreadPoolInterface. A thread of the pool computes alone: if it waited for
/// others of its pool, which may do the same, all could wait for ever.
template <class Pool>
void run_on_pool(void* pool, std::size_t count, TeamTask task, void* argument) {
  Pool& threads = *static_cast<Pool*>(pool);
  if (threads.CurrentThreadId() < 0) {
    TaskOfTeam all(task, argument);
    without_exceptions([&] {
      for (std::size_t i = 1; i < count; ++i) {
        all.expect_one();
        struct Asked {
          TaskOfTeam* task;
          ~Asked() {
            if (task != nullptr) task->ended();
          }
        } asked{&all};
        threads.Schedule([&all] { all.run(); });
        asked.task = nullptr;
      }
    });
    task(argument);
    all.wait();
  }
}

template <class Pool, class = void>
inline constexpr bool is_pool = false;
template <class Pool>
inline constexpr bool is_pool<Pool, std::void_t<decltype(std::declval<Pool&>().Schedule(std::declval<void (*)()>())),
                                                     decltype(std::declval<Pool&>().CurrentThreadId()),
                                                     decltype(std::declval<Pool&>().NumThreads())>> = true;

template <class Device, class = void>
inline constexpr bool is_device = false;
template <class Device>
inline constexpr bool is_device<Device, std::void_t<decltype(std::declval<Device&>().getPool()->NumThreads())>> = true;

template <class Executor, class = void>
inline constexpr bool is_executor = false;
template <class Executor>
inline constexpr bool
    is_executor<Executor, std::void_t<decltype(std::declval<Executor&>()(std::size_t{}, std::declval<void (*)(std::size_t)>()))>> =
        true;

template <class Executor, class = void>
inline constexpr bool tells_size = false;
template <class Executor>
inline constexpr bool tells_size<Executor, std::void_t<decltype(std::size_t{std::declval<Executor&>().size()})>> = true;

template <class Pool>
std::size_t threads_of_pool(Pool& pool) {
  const auto number = pool.NumThreads();
  return number < 1 ? std::size_t{1} : static_cast<std::size_t>(number);
}

}  // namespace detail

/// The threads of an executor: `executor(n, task)` calls `task(i)` for all i below n, on `size` threads at a time or fewer,
/// and returns when all have ended. A lambda around `tbb::parallel_for` or `std::for_each(std::execution::par, ...)` is one. If it throws, all calls
/// must have ended as well; the exception is dropped, and the calling thread computes the rest.
template <class Executor>
Team team_of(Executor& executor, std::size_t size) noexcept {
  static_assert(detail::is_executor<Executor>, "tfaot: an executor is called with a number and a function of numbers");
  void* const context = const_cast<void*>(static_cast<const void*>(&executor));
  return tfaot_team{context, size < 1 ? 1 : size, &detail::run_on_executor<Executor>};
}

/// The threads of tfaot::Threads or another executor with a `size()`, of a pool with the functions of
/// Eigen::ThreadPoolInterface, or of an Eigen::ThreadPoolDevice.
template <class Executor>
Team team_of(Executor& executor) noexcept {
  if constexpr (detail::is_pool<Executor>) {
    return tfaot_team{&executor, detail::threads_of_pool(executor), &detail::run_on_pool<Executor>};
  } else if constexpr (detail::is_device<Executor>) {
    return team_of(*executor.getPool());
  } else {
    static_assert(detail::tells_size<Executor>,
                  "tfaot: no executor that says how many threads it has: add their number");
    if constexpr (detail::tells_size<Executor>) return team_of(executor, executor.size());
  }
}

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_TEAM_H_
