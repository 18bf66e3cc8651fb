// Teams of real executors: pools of Eigen (-DEIGEN), TBB (-DTBB), and algorithms of C++ that run in parallel (-DTBB, by which
// GCC's library does so). Prints what is wrong.
#include <tfaot/team.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

#ifdef EIGEN
#define EIGEN_USE_THREADS
#include <unsupported/Eigen/CXX11/Tensor>
#else
#include <algorithm>
#include <execution>

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

namespace {

void expect(bool good, const char* what) {
  if (!good) std::printf("failed: %s\n", what);
}

// As a model does: tasks take parts until none is left, and then the calling thread does.
struct Work {
  static constexpr std::size_t kParts = 64;
  std::atomic<std::size_t> next{0}, done{0};

  static void take(void* argument) {
    auto& work = *static_cast<Work*>(argument);
    while (work.next++ < kParts) ++work.done;
  }
  static bool is_done(const tfaot::Team& team) {
    Work work;
    const tfaot_team& given = *team.get();
    given.run(given.context, given.size, &take, &work);
    take(&work);
    return work.done == kParts;
  }
};

void calls_of_many_threads(const tfaot::Team& team, const char* what) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 200; ++turn) wrong += !Work::is_done(team);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(wrong == 0, what);
}

}  // namespace

int main() {
#ifdef EIGEN
  Eigen::ThreadPool pool(3);
  Eigen::ThreadPoolDevice device(&pool, 3);
  expect(tfaot::team_of(pool).size() == 3 && tfaot::team_of(device).size() == 3, "threads");
  calls_of_many_threads(tfaot::team_of(pool), "a pool");
  calls_of_many_threads(tfaot::team_of(device), "a device");
  Eigen::ThreadPoolInterface& general = pool;
  calls_of_many_threads(tfaot::team_of(general), "a pool of any kind");
  // All threads of the pool call models at the same time, as operations of TensorFlow do: none waits for the others.
  const tfaot::Team team = tfaot::team_of(device);
  Eigen::Barrier all(12);
  std::atomic<int> wrong{0};
  for (int i = 0; i < 12; ++i) {
    pool.Schedule([&] {
      wrong += !Work::is_done(team);
      all.Notify();
    });
  }
  all.Wait();
  expect(wrong == 0, "calls within the pool");
#else
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism, 3);  // also on a machine with fewer
  tbb::task_arena arena(3);
  auto in_arena = [&arena](std::size_t count, auto&& task) {
    arena.execute([&] { tbb::parallel_for(std::size_t{0}, count, task); });
  };
  const tfaot::Team team = tfaot::team_of(in_arena, static_cast<std::size_t>(arena.max_concurrency()));
  calls_of_many_threads(team, "an arena");
  std::atomic<int> wrong{0};
  tbb::parallel_for(0, 50, [&](int) { wrong += !Work::is_done(team); });
  expect(wrong == 0, "calls within TBB");
  auto standard = [](std::size_t count, auto&& task) {
    std::vector<std::size_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    std::for_each(std::execution::par, numbers.begin(), numbers.end(), task);
  };
  calls_of_many_threads(tfaot::team_of(standard, 3), "parallel algorithms of C++");
#endif
}
