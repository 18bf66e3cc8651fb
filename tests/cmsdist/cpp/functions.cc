// Code as users of the headers of one batch size write it, and as cms-tfaot's wrapper uses their classes.
#ifdef CMSSW
#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#endif
#include "tfaot-model-dense/dense_bs1.h"
#include "tfaot-model-dense/dense_bs2.h"
#include "tfaot-model-dense/model.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

// A pool with the functions of Eigen's, of which tasks are counted.
struct Pool {
  int NumThreads() const { return 3; }
  int CurrentThreadId() const { return -1; }
  void Schedule(std::function<void()> task) {
    ++scheduled;
    std::thread(std::move(task)).join();
  }
  int scheduled = 0;
};
struct Device {
  Pool* getPool() const { return pool; }
  Pool* pool;
};

namespace other {
enum class AllocMode { ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS, RESULTS_PROFILES_AND_TEMPS_ONLY };
}

void expect(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "not so: %s\n", what);
    std::exit(1);
  }
}

template <class Function>
void print(Function& function, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::printf("%.9g %.9g %.9g\n", function.result0(row, 0), function.result_fetch_y(row, 1), function.result0(row, 2));
  }
}

int main() {
  std::vector<float> input(20);
  for (float& value : input) expect(std::scanf("%f", &value) == 1, "20 numbers");
  std::printf("dense\n");

  tfaot_model::dense_bs2 two(other::AllocMode::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS);
  static_assert(tfaot_model::dense_bs2::kNumArgs == 1 && tfaot_model::dense_bs2::kNumResults == 1, "one of each");
  expect(two.num_args() == 1 && two.num_results() == 1 && two.num_variables() == 0, "counts");
  expect(two.arg0_count() == 8 && two.arg0_size() == 32 && two.arg_size(0) == 32, "sizes of the argument");
  expect(two.result0_count() == 6 && two.result0_size() == 24 && two.result_fetch_y_count() == 6, "of the result");
  expect(two.LookupArgIndex("x") == 0 && two.LookupResultIndex("y") == 0 && two.LookupArgIndex("z") == -1, "names");
  std::copy_n(input.data(), 8, two.arg0_data());
  expect(two.arg0(1, 3) == input[7] && two.arg_feed_x(1, 0) == input[4], "elements");
  expect(two.Run() && two.error_msg().empty(), "Run");
  print(two, 2);

  // As the wrapper does: by index, from `void*`.
  std::copy_n(input.data() + 8, 8, static_cast<float*>(two.arg_data(0)));
  Pool pool;
  const Device device{&pool};
  two.set_thread_pool(&device);
  expect(two.Run() && two.error_msg().empty(), "on a pool");
  two.set_thread_pool(&pool);
  two.set_thread_pool(nullptr);
  two.set_thread_pool(static_cast<const Device*>(nullptr));
  expect(two.Run() && static_cast<const float*>(two.result_data(0)) == two.result0_data(), "by index");
  print(two, 2);

  // Arguments in memory of the caller's, of any alignment.
  tfaot_model::dense_bs1 one(other::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  expect(!one.Run() && one.error_msg().find("set_arg_data") != std::string::npos, "no data");
  std::vector<float> shifted(5);
  std::copy_n(input.data() + 16, 4, shifted.data() + 1);
  one.set_arg0_data(shifted.data() + 1);
  expect(one.Run() && one.error_msg().empty(), "data of the caller's");
  print(one, 1);
  const tfaot_model::dense_bs1& constant = one;
  expect(constant.arg0_data() == shifted.data() + 1 && constant.result0(0, 0) == one.result0(0, 0), "const");

  tfaot_model::dense_bs1 own;
  expect(own.arg0_data() != nullptr && own.arg0(0, 0) == 0, "zeros at first");
  try {
    own.arg_data(1);
    expect(false, "an index that is not there");
  } catch (const std::out_of_range&) {
  }
  return 0;
}
