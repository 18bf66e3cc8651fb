// Steps of the model `kinds`, whose inputs come from standard input; its saved state goes to standard output.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <tfaot-model-kinds/model.h>
#include <tfaot/tfaot.h>

int main() {
  using Kinds = tfaot_model::kinds;
  const tfaot::Shared<Kinds> model;
  tfaot::State<Kinds> state(model);
  float x[3];
  while (std::fread(x, sizeof x, 1, stdin) == 1) {
    const std::vector<std::byte> before = state.save();
    state.init();
    state.restore({before.data(), before.size()});
    state.step({x});
  }
  const std::vector<std::byte> saved = state.save();
  std::fwrite(saved.data(), 1, saved.size(), stdout);
  state.tensors().v_int8[0] = 5;
  state.tensors().v_uint64[2] = 6;
  state.tensors().v_bool[1] = true;
  state.tensors().v_complex64[0] = {1.0F, 2.0F};
  state.init();
  return state.tensors().v_int8[2] == 100 && state.tensors().v_complex128[0] == 1.5 ? 0 : 1;
}
