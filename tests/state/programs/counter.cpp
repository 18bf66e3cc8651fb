// Steps of the model `counter`, whose inputs come from standard input; then its state, saved and restored.

#include <cstddef>
#include <cstdio>
#include <vector>

#include <tfaot-model-counter/model.h>
#include <tfaot/tfaot.h>

int main() {
  using Counter = tfaot_model::counter;
  const tfaot::Shared<Counter> model;
  tfaot::State<Counter> state(model);
  float x[2];
  while (std::fread(x, sizeof x, 1, stdin) == 1) {
    const auto out = state.step({x});
    std::printf("%.9g %.9g %lld\n", out.total[0], out.total[1], static_cast<long long>(out.steps[0]));
  }
  const std::vector<std::byte> saved = state.save();
  const auto tensors = state.tensors();
  const float total = tensors.total[0];
  state.init();
  if (tensors.total[0] != 1 || tensors.steps[0] != 0) return 1;
  tfaot::State<Counter> moved(std::move(state));
  moved.restore({saved.data(), saved.size()});
  if (tensors.total[0] != total || moved.tensors().steps[0] == 0) return 2;
  std::vector<std::byte> foreign = saved;
  foreign[41] ^= std::byte{1};
  try {
    moved.restore({foreign.data(), foreign.size()});
    return 3;
  } catch (const tfaot::Error& error) {
    std::puts("restored; foreign bytes refused");
  }
  return moved.tensors().total[0] == total ? 0 : 4;
}
