// Threads, Pool, Shared and Team over fake models.
#include <tfaot/compiled_function.h>
#include <tfaot/pool.h>
#include <tfaot/shared.h>
#include <tfaot/team.h>
#include <tfaot/threads.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tfaot-model-affine/model.h>
#include <tfaot-model-centred/model.h>

#include "check.h"

using tfaot_model::affine;

extern "C" std::size_t tfaot_model_affine_0123456789ab_runs(std::int64_t batch_size);
extern "C" std::size_t tfaot_model_affine_0123456789ab_tasks();
extern "C" void tfaot_model_affine_0123456789ab_during(void (*called)());

namespace {

const std::vector<float> kBias = {0.5f, 0.0f, -0.5f};

std::vector<float> rows(std::size_t count) {
  std::vector<float> x(3 * count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 7) % 11) - 4.0f;
  return x;
}

// Rows with buffers for their outputs, and whether these are right.
struct Batch {
  explicit Batch(std::size_t count) : x(rows(count)), y(3 * count, -99), label(count, -99) {}
  affine::Inputs inputs() const { return {kBias, x}; }
  affine::Outputs outputs() { return {label, y}; }
  bool right() const {
    bool good = true;
    for (std::size_t i = 0; i < y.size(); ++i) good = good && y[i] == 2.0f * x[i] + kBias[i % 3];
    for (const std::int64_t one : label) good = good && one >= 0 && one < 3;
    return good;
  }

  std::vector<float> x, y;
  std::vector<std::int64_t> label;
};

// Calls all tasks one after the other, the last one first.
struct Backwards {
  std::size_t tasks = 0;
  template <class Task>
  void operator()(std::size_t count, Task&& task) {
    tasks = count;
    for (std::size_t i = count; i-- > 0;) task(i);
  }
};

std::pair<std::size_t, std::size_t> runs_of(const tfaot::Shared<affine>& model, std::size_t count, const tfaot::Team& team) {
  const std::size_t twos = tfaot_model_affine_0123456789ab_runs(2), fours = tfaot_model_affine_0123456789ab_runs(4);
  Batch batch(count);
  model.run(count, batch.inputs(), batch.outputs(), team);
  expect(batch.right(), std::to_string(count) + " rows on " + std::to_string(team.size()) + " threads");
  return {tfaot_model_affine_0123456789ab_runs(2) - twos, tfaot_model_affine_0123456789ab_runs(4) - fours};
}

// So that answers have the same bits.
void a_batch_is_composed_of_the_same_sizes_by_any_number_of_threads() {
  for (const char* const target : {"x86-64-v2", "x86-64-v3"}) {
    const tfaot::Shared<affine> model(target);
    for (const std::size_t size : {2u, 3u, 5u}) {
      tfaot::Threads threads(size);
      for (const std::size_t count : {0u, 1u, 2u, 3u, 7u, 40u, 1001u}) {
        expect(runs_of(model, count, tfaot::team_of(threads)) == runs_of(model, count, {}), "the same runs");
      }
    }
  }
}

// The first run waits until another thread has begun one.
void parts_of_a_batch_run_at_the_same_time() {
  static std::atomic<std::size_t> before{0};
  static std::atomic<bool> is_beside{false};
  const tfaot::Shared<affine> model("x86-64-v3");
  tfaot::Threads threads(2);
  Batch batch(64);
  before = tfaot_model_affine_0123456789ab_runs(4);
  tfaot_model_affine_0123456789ab_during([] {
    for (int i = 0; i < 10'000 && !is_beside; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      is_beside = tfaot_model_affine_0123456789ab_runs(4) > before + 1;
    }
  });
  model.run(64, batch.inputs(), batch.outputs(), tfaot::team_of(threads));
  expect(is_beside && batch.right(), "two threads");
}

void wrong_sizes_and_failures_of_parts_come_back_to_the_caller() {
  const tfaot::Shared<affine> model("x86-64-v3");
  tfaot::Threads threads(3);
  const tfaot::Team team = tfaot::team_of(threads);
  Batch batch(11), shorter(7);
  expect_error("affine: input \"x\": expected 24 elements (8 rows of 3), got 21",
               [&] { model.run(8, shorter.inputs(), batch.outputs(), team); });
  for (const auto& [element, size] : {std::pair(0u, "4"), std::pair(12u, "4"), std::pair(32u, "4")}) {
    batch.x[element] = -1000.0f;
    expect_error("affine: batch size " + std::string(size) + ": x is -1000",
                 [&] { model.run(11, batch.inputs(), batch.outputs(), team); });
    batch.x[element] = 0.0f;
  }
  model.run(11, batch.inputs(), batch.outputs(), team);
  expect(batch.right(), "it computes after failures");
}

// A team may run fewer tasks than it was asked for, and none at all.
void parts_are_computed_whatever_a_team_does() {
  const tfaot::Shared<affine> model("x86-64-v3");
  for (std::size_t asked = 0; asked < 9; ++asked) {
    auto some = [asked](std::size_t, auto&& task) {
      for (std::size_t i = 0; i < asked; ++i) task(i);
    };
    runs_of(model, 23, tfaot::team_of(some, 4));
  }
}

void threads_run_every_task_once_and_throw_the_first_exception() {
  tfaot::Threads threads(3);
  expect(threads.size() == 3 && tfaot::Threads().size() == tfaot::Threads::available(), "sizes");
  for (const std::size_t tasks : {0u, 1u, 2u, 3u, 100u}) {
    std::vector<std::atomic<int>> runs(tasks);
    threads(tasks, [&](std::size_t i) { ++runs[i]; });
    for (const auto& count : runs) expect(count == 1, "once");
  }
  std::atomic<int> ran{0};
  try {
    threads(20, [&](std::size_t i) {
      ++ran;
      if (i % 2 == 0) throw std::runtime_error("even");
    });
    expect(false, "an exception was expected");
  } catch (const std::runtime_error& error) {
    expect(std::string(error.what()) == "even" && ran == 20, "thrown when all tasks have ended");
  }
  threads(1, [&](std::size_t) { ++ran; });
  expect(ran == 21, "they go on");
}

void callers_of_the_same_threads_wait_for_each_other() {
  tfaot::Threads threads(2);
  std::atomic<int> inside{0}, sum{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        threads(3, [&](std::size_t) {
          expect(++inside <= 2, "two tasks at a time");
          ++sum;
          --inside;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  expect(sum == 4 * 50 * 3, "all tasks of all callers");
}

void a_pool_gives_each_borrower_an_instance_of_its_own() {
  tfaot::BatchStrategy rules;
  rules.setRule(tfaot::BatchRule("3:4"));
  std::string target = "x86-64-v3";
  tfaot::Pool<affine> pool(target.c_str(), rules);
  target = "overwritten";
  {
    const auto first = pool.borrow(), second = pool.borrow();
    expect(first.get() != second.get() && pool.size() == 2, "two at a time");
    expect(first->getBatchStrategy().hasRule(3) && std::string(second->target()) == "x86-64-v3", "rules and target");
  }
  for (int i = 0; i < 10; ++i) pool.borrow()->setBatchRule("5:4,2");
  expect(pool.size() == 2 && pool.borrow()->getBatchStrategy().hasRule(5), "instances are used again");

  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (std::size_t count = 1; count < 60; ++count) {
        Batch batch(count);
        const auto model = pool.borrow();
        model->run(count, batch.inputs(), batch.outputs());
        expect(batch.right(), "from a pool");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(pool.size() >= 2 && pool.size() <= 8, "no more instances than borrowers");
  tfaot::Pool<affine> wrong("z80");
  expect_error("affine: the library has no code for target z80", [&] { wrong.borrow(); });
  expect(wrong.size() == 0, "no instance was made");
}

void one_object_serves_all_threads() {
  const tfaot::Shared<affine> model("x86-64-v3");
  expect(std::string(model.target()) == "x86-64-v3", "the target");
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&, i] {
      std::vector<std::max_align_t> memory(model.scratch_bytes(39) / sizeof(std::max_align_t) + 64);
      void* first = memory.data();
      std::size_t size = memory.size() * sizeof(std::max_align_t);
      const tfaot::span<std::byte> scratch(
          static_cast<std::byte*>(std::align(TFAOT_SCRATCH_ALIGNMENT, model.scratch_bytes(39), first, size)), size);
      for (std::size_t count = 1; count < 40; ++count) {
        Batch batch(count);
        if (i % 2 == 0) {
          model.run(count, batch.inputs(), batch.outputs());
        } else {
          model.run(count, batch.inputs(), batch.outputs(), scratch);
        }
        if (!batch.right()) ++failed;
      }
      Batch wrong(3);
      try {
        model.run(4, wrong.inputs(), wrong.outputs());
        ++failed;
      } catch (const tfaot::Error&) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect(failed == 0, "right answers in all threads, and errors of wrong sizes");
  Batch batch(5);
  model.run(5, batch.inputs(), batch.outputs());
  expect(batch.right(), "calls work after calls that failed");
  expect_error("affine: the library has no code for target z80", [] { tfaot::Shared<affine> wrong("z80"); });
}

void results_own_their_memory() {
  const tfaot::Shared<affine> model;
  static_assert(!std::is_copy_constructible<tfaot::Shared<affine>::Results>::value, "");
  std::vector<tfaot::Shared<affine>::Results> kept;
  for (const std::size_t count : {0u, 1u, 4u, 39u, 1001u}) {
    const Batch batch(count);
    kept.push_back(model.run(count, batch.inputs()));  // and moved, when the vector grows
  }
  for (const auto& results : kept) {
    Batch batch(results.label.size());
    std::copy(results.y.begin(), results.y.end(), batch.y.begin());
    std::copy(results.get<0>().begin(), results.get<0>().end(), batch.label.begin());
    const bool aligned = reinterpret_cast<std::uintptr_t>(results.y.data()) % 64 == 0;
    expect(batch.right() && results.y.size() == 3 * batch.label.size() && aligned, "later calls leave results alone");
  }
  const Batch wrong(3);
  expect_error("affine: input \"x\": expected 12 elements (4 rows of 3), got 9", [&] { model.run(4, wrong.inputs()); });
}

void a_call_is_made_while_another_one_runs() {
  static const tfaot::Shared<affine> model;
  static Batch own(5), other(5);  // composed of compiled sizes, for which an instance serves one call at a time
  tfaot_model_affine_0123456789ab_during([] {
    model.run(5, own.inputs(), own.outputs());  // the scratch memory of this thread is in use
    std::thread([] { model.run(5, other.inputs(), other.outputs()); }).join();
  });
  Batch outer(5);
  model.run(5, outer.inputs(), outer.outputs());
  expect(outer.right() && own.right() && other.right(), "none waits for the other");
}

void scratch_memory_is_checked() {
  const tfaot::Shared<affine> model;
  expect(model.scratch_bytes(2) == 128 && model.scratch_bytes(4) == 256, "that of the library");
  expect(model.scratch_bytes(3) > 256 && model.scratch_bytes(3) == model.scratch_bytes(1000), "of composed batches");
  alignas(64) static std::byte memory[4096];
  for (const std::size_t count : {2u, 3u, 4u, 5u, 39u}) {
    const std::size_t needed = model.scratch_bytes(count);
    Batch batch(count);
    memory[needed] = std::byte{7};
    model.run(count, batch.inputs(), batch.outputs(), {memory, needed});
    expect(batch.right() && memory[needed] == std::byte{7}, "it takes so many bytes and no more");
    const auto run = [&](tfaot::span<std::byte> scratch) {
      return [&, scratch] { model.run(count, batch.inputs(), batch.outputs(), scratch); };
    };
    const std::string size = std::to_string(needed);
    if (count == 2 || count == 4) {
      const std::string wrong = "affine: batch size " + std::to_string(count) + ": not " + size + " aligned bytes of scratch memory";
      expect_error(wrong, run({memory, needed - 1}));
      expect_error(wrong, run({memory + 1, needed}));
    } else {
      const std::string wrong = "affine: scratch memory: expected ";
      expect_error(wrong + "at least " + size + " bytes, got " + std::to_string(needed - 1), run({memory, needed - 1}));
      expect_error(wrong + "an address that is a multiple of 64, got another one", run({memory + 1, needed}));
    }
    expect_error("affine: scratch memory: expected at least " + size + " bytes, got 0", run({}));
  }
}

void a_library_of_a_former_version_says_so() {
  expect_error("centred: its library is of a version without one object for all threads: build it again, or use "
               "tfaot::Model, one per thread",
               [] { tfaot::Shared<tfaot_model::centred> model; });
  std::vector<float> x = {1, 3, 5, 7}, y(4);
  tfaot::Model<tfaot_model::centred>().run(4, {x}, {y});
  expect(y == std::vector<float>({-3, -1, 1, 3}), "its instances work");
}

// A table with the functions, for a model whose rows depend on one another.
void only_compiled_sizes_of_rows_that_depend_on_one_another() {
  static tfaot_info info = *tfaot_model::centred::table().info;
  static tfaot::Table table = affine::table();
  info.inputs = affine::table().info->inputs;
  info.outputs = affine::table().info->outputs;
  info.batch_sizes = affine::table().info->batch_sizes;
  table.info = &info;
  const tfaot::Code code(table);
  expect(code.scratch_bytes(4) == 256, "a compiled size");
  expect_error("centred: batch size: expected a compiled one (2, 4) because rows of this model depend on one another, got 3",
               [&] { code.scratch_bytes(3); });
  expect_error("centred: batch size: expected a compiled one (2, 4) because rows of this model depend on one another, got 5",
               [&] { code.run(5, nullptr, nullptr); });
}

// A thread pool with the functions of Eigen's, and one thread. It throws at the `fails_at`-th task.
struct Pool {
  explicit Pool(int threads) : size(threads) {}
  int NumThreads() const { return size; }
  int CurrentThreadId() const { return within; }
  void Schedule(std::function<void()> task) {
    if (fails_at != 0 && --fails_at == 0) throw std::bad_alloc();
    running.emplace_back([this, own = std::move(task)] {
      ++ran;
      own();
    });
  }
  ~Pool() {
    for (std::thread& thread : running) thread.join();
  }
  int size, within = -1, fails_at = 0;
  std::atomic<int> ran{0};
  std::vector<std::thread> running;
};
// As Eigen::ThreadPoolDevice.
struct Device {
  Pool* getPool() const { return pool; }
  Pool* pool;
};

// Tasks that a team runs if it is asked for so many.
std::size_t tasks_of(const tfaot::Team& team, std::size_t count) {
  std::atomic<std::size_t> tasks{0};
  const tfaot_team& given = *team.get();
  given.run(given.context, count, [](void* counted) { ++*static_cast<std::atomic<std::size_t>*>(counted); }, &tasks);
  return tasks;
}

void teams_are_made_of_every_kind_of_executor() {
  expect(tfaot::Team().size() == 1 && tfaot::Team().get() == nullptr, "no team");
  tfaot::Threads threads(3), single(1);
  const tfaot::Team team = tfaot::team_of(threads);
  expect(team.size() == 3 && tasks_of(team, 3) == 3 && tasks_of(team, 2) == 2, "tfaot::Threads");
  expect(tfaot::team_of(single).get() == nullptr, "one thread is no team");
  Backwards backwards;
  expect(tasks_of(tfaot::team_of(backwards, 4), 4) == 4 && backwards.tasks == 4, "an executor without a size");
  expect(tfaot::team_of(backwards, 0).size() == 1, "at least the calling thread");
  const auto throws = [](std::size_t count, const std::function<void(std::size_t)>& task) {
    for (std::size_t i = 0; i + 1 < count; ++i) task(i);
    throw std::runtime_error("the last one is missing");
  };
  auto thrower = throws;
  expect(tasks_of(tfaot::team_of(thrower, 3), 3) == 2, "exceptions are dropped");
  Pool pool(4);
  Device device{&pool};
  expect(tfaot::team_of(pool).size() == 4 && tasks_of(tfaot::team_of(pool), 4) == 4 && pool.ran == 3, "a pool");
  expect(tfaot::team_of(device).size() == 4 && tasks_of(tfaot::team_of(device), 3) == 3 && pool.ran == 5, "a device");
  pool.fails_at = 2;
  expect(tasks_of(tfaot::team_of(pool), 4) == 2, "tasks that could be scheduled, and that of the calling thread");
  pool.within = 2;
  expect(tasks_of(tfaot::team_of(pool), 4) <= 1, "threads of the pool wait for no others");
  Pool small(0);
  expect(tfaot::team_of(small).get() == nullptr, "a pool without threads");
}

void calls_take_a_team() {
  const tfaot::Shared<affine> model;
  tfaot::Threads threads(3);
  const tfaot::Team team = tfaot::team_of(threads);
  expect(model.scratch_bytes(4, team) == 3 * model.scratch_bytes(4), "scratch memory for all threads");
  const std::size_t before = tfaot_model_affine_0123456789ab_tasks();
  Batch batch(4), scratched(4), composed(7);
  model.run(4, batch.inputs(), batch.outputs(), team);
  expect(batch.right() && tfaot_model_affine_0123456789ab_tasks() == before + 3, "its threads");
  alignas(64) static std::byte memory[4096];
  model.run(4, scratched.inputs(), scratched.outputs(), {memory, model.scratch_bytes(4, team)}, team);
  expect(scratched.right() && tfaot_model_affine_0123456789ab_tasks() == before + 6, "in memory of the caller");
  const tfaot::Outcome outcome =
      model.try_run(4, scratched.inputs(), scratched.outputs(), {memory, model.scratch_bytes(4)}, team);
  expect(!outcome.ok(), "too little memory for a team");
  model.run(4, batch.inputs(), batch.outputs(), tfaot::Team());
  expect(model.scratch_bytes(7, team) == 2 * model.scratch_bytes(7), "that of the calls of a composed batch");
  model.run(7, composed.inputs(), composed.outputs(), {memory, model.scratch_bytes(7, team)}, team);
  expect(batch.right() && composed.right() && tfaot_model_affine_0123456789ab_tasks() == before + 6, "without others");
}

// A library whose table ends before teams computes on the calling thread.
void a_library_without_teams_computes_alone() {
  static tfaot::Table table = affine::table();
  table.struct_size = offsetof(tfaot::Table, team_scratch_bytes);
  const tfaot::Code code(table);
  tfaot::Threads threads(2);
  const std::size_t before = tfaot_model_affine_0123456789ab_tasks();
  Batch batch(4);
  const void* const inputs[] = {kBias.data(), batch.x.data()};
  void* const outputs[] = {batch.label.data(), batch.y.data()};
  code.run(4, inputs, outputs, tfaot::team_of(threads));
  expect(code.scratch_bytes(4, tfaot::team_of(threads)) == 256, "memory of a thread");
  expect(batch.right() && tfaot_model_affine_0123456789ab_tasks() == before, "the calling thread");
}

// As the classes of one batch size in CMSSW, which TensorFlow's users give a pool.
class Two : public tfaot_cmssw::CompiledFunction {
 public:
  Two() : CompiledFunction(affine::table(), 2, AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS) {}
};

void a_function_of_one_batch_size_takes_a_pool() {
  Two two;
  Pool pool(3);
  const Device device{&pool};
  const auto run = [&] {
    const Batch batch(2);
    std::copy(kBias.begin(), kBias.end(), static_cast<float*>(two.arg_data(0)));
    std::copy(batch.x.begin(), batch.x.end(), static_cast<float*>(two.arg_data(1)));
    const std::size_t before = tfaot_model_affine_0123456789ab_tasks();
    expect(two.Run() && two.error_msg().empty(), "Run");
    Batch results(2);
    std::copy_n(static_cast<const std::int64_t*>(two.result_data(0)), 2, results.label.begin());
    std::copy_n(static_cast<const float*>(two.result_data(1)), 6, results.y.begin());
    expect(results.right(), "right");
    return tfaot_model_affine_0123456789ab_tasks() - before;
  };
  expect(run() == 0, "the calling thread");
  two.set_thread_pool(&device);
  expect(run() == 3 && pool.ran == 2, "the threads of a device");
  two.set_thread_pool(&pool);
  expect(run() == 3 && pool.ran == 4, "those of a pool");
  static_cast<float*>(two.arg_data(1))[0] = -1000.0f;
  expect(!two.Run() && two.error_msg().find("x is -1000") != std::string::npos, "failures");
  two.set_thread_pool(nullptr);
  expect(run() == 0, "the calling thread again");
  two.set_thread_pool(static_cast<const Device*>(nullptr));
  expect(run() == 0, "and again");
}

}  // namespace

void test_threads() {
  a_function_of_one_batch_size_takes_a_pool();
  teams_are_made_of_every_kind_of_executor();
  calls_take_a_team();
  a_library_without_teams_computes_alone();
  a_batch_is_composed_of_the_same_sizes_by_any_number_of_threads();
  parts_of_a_batch_run_at_the_same_time();
  wrong_sizes_and_failures_of_parts_come_back_to_the_caller();
  parts_are_computed_whatever_a_team_does();
  threads_run_every_task_once_and_throw_the_first_exception();
  callers_of_the_same_threads_wait_for_each_other();
  a_pool_gives_each_borrower_an_instance_of_its_own();
  one_object_serves_all_threads();
  results_own_their_memory();
  a_call_is_made_while_another_one_runs();
  scratch_memory_is_checked();
  a_library_of_a_former_version_says_so();
  only_compiled_sizes_of_rows_that_depend_on_one_another();
}
