// tfaot/threads.h: a few threads that wait for work, for teams (tfaot/team.h).
#ifndef TFAOT_THREADS_H_
#define TFAOT_THREADS_H_

#include <tfaot/version.h>

#include <tfaot/macros_off.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tfaot/macros_on.h>

namespace tfaot {
inline namespace TFAOT_NAMESPACE {

/// An executor: runs tasks on threads that are started once. Link with the platform's thread library (CMake:
/// Threads::Threads).
///
/// `threads(n, task)` calls `task(0)` to `task(n - 1)`, `size()` of them at a time, one of these in the calling thread,
/// and returns when all have ended; then it throws the first exception. It waits for no thread that has not begun a task: the
/// calling thread takes what others leave. It serves one caller at a time, others wait; a task must not call it. A waiting
/// thread spins for at most 100 microseconds before it sleeps: calls often follow one another, and waking a thread takes as
/// long as a small network.
class Threads {
 public:
  /// `size` threads at a time, including the caller's; 0 stands for as many as the machine can run.
  explicit Threads(std::size_t size = 0) {
    if (size == 0) size = available();
    StopUnlessDone begun{this};
    for (std::size_t i = 1; i < size; ++i) workers_.emplace_back([this] { work(); });
    begun.threads = nullptr;
  }

  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { stop(); }

  /// Threads that the machine can run at a time, at least 1.
  static std::size_t available() noexcept {
    static const std::size_t number = std::thread::hardware_concurrency();
    return number == 0 ? 1 : number;
  }

  /// Tasks that run at a time.
  std::size_t size() const noexcept { return workers_.size() + 1; }

  /// Run `task(0)` to `task(tasks - 1)`, and return when all have ended.
  template <class Task>
  void operator()(std::size_t tasks, Task&& task) {
    if (tasks == 0) return;
    const std::lock_guard<std::mutex> turn(callers_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      call_ = [](void* context, std::size_t i) { (*static_cast<std::remove_reference_t<Task>*>(context))(i); };
      context_ = const_cast<void*>(static_cast<const void*>(&task));
      tasks_ = tasks;
      next_.store(0, std::memory_order_relaxed);
      error_ = nullptr;
      const std::size_t round = round_.load(std::memory_order_relaxed) + 1;
      open_.store(round);
      round_.store(round);
    }
    wake_.notify_all();
    take_tasks();
    // A worker enters before it looks whether the round is open, so it sees that it is closed, or is seen here.
    open_.store(0);
    const auto all_done = [this] { return inside_.load() == 0; };
    if (!spin(all_done)) {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, all_done);
    }
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  // Ends the threads that run if another one cannot be started.
  struct StopUnlessDone {
    Threads* threads;
    ~StopUnlessDone() {
      if (threads != nullptr) threads->stop();
    }
  };

  static constexpr std::chrono::microseconds kLongestSpin{100};
  static constexpr int kSpinsPerLook = 64;  // between readings of the clock

  /// Waits busily for a condition that usually holds soon. False if it does not within kLongestSpin.
  template <class Condition>
  static bool spin(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kLongestSpin;
    do {
      for (int i = 0; i < kSpinsPerLook; ++i) {
        if (condition()) return true;
        relax();
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  /// Tells the processor that this is a busy loop.
  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  void work() {
    for (std::size_t seen = 0;;) {
      const auto is_new = [&] { return round_.load(std::memory_order_acquire) != seen; };
      if (!spin(is_new)) {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, is_new);
      }
      seen = round_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      inside_.fetch_add(1);
      if (open_.load() == seen) take_tasks();
      if (inside_.fetch_sub(1) == 1) {
        const std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_one();
      }
    }
  }

  void take_tasks() {
    for (;;) {
      const std::size_t i = next_.fetch_add(1, std::memory_order_relaxed);
      if (i >= tasks_) return;
#if TFAOT_EXCEPTIONS
      try {
        call_(context_, i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (error_ == nullptr) error_ = std::current_exception();
      }
#else
      call_(context_, i);
#endif
    }
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_.store(true, std::memory_order_relaxed);
      round_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  std::vector<std::thread> workers_;
  std::mutex callers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<std::size_t> round_{0};
  std::atomic<std::size_t> open_{0};    // the round whose tasks may be taken; 0: none
  std::atomic<std::size_t> inside_{0};  // workers that look for tasks
  std::atomic<std::size_t> next_{0};
  // Written before a round opens, and constant while it is open or workers are inside.
  void (*call_)(void*, std::size_t) = nullptr;
  void* context_ = nullptr;
  std::size_t tasks_ = 0;
  std::exception_ptr error_;  // guarded by the mutex while workers are inside
  std::atomic<bool> stopping_{false};
};

}  // namespace TFAOT_NAMESPACE
}  // namespace tfaot

#endif  // TFAOT_THREADS_H_
