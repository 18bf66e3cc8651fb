// What the class for PhysicsTools/TensorFlowAOT says of itself, and what it refuses.
#include "tfaot-model-two-inputs/model.h"

#include <cstdint>
#include <cstdio>
#include <exception>

template <class F>
static void refused(F&& f) {
  try {
    f();
    std::puts("not refused");
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}

int main() {
  tfaot_model::two_inputs model;
  std::printf("%zu %d %d %zu %d\n", model.nBatchSizes(), model.hasBatchSize(2), model.hasBatchSize(3),
              model.argCounts().at(4)[1], model.resultCount(2, 0));
  refused([&] { model.argData<float>(3, 0); });
  refused([&] { model.argData<float>(2, 2); });
  refused([&] { model.resultData<double>(2, 1); });
  refused([&] { model.run(8); });
  return 0;
}
