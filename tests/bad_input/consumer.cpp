// Prints the names of a model's input and output and what it makes of 1, 2, 3, 4.
#include <array>
#include <cstdio>
#include <string_view>

#include <tfaot-model-odd-names/model.h>

int main() {
  using Model = tfaot_model::odd_names;
  const std::array<float, 4> in{1, 2, 3, 4};
  std::array<float, 4> out{};
  Model model;
  model.run(1, in, out);
  const std::string_view input = Model::inputs[0].name, output = Model::outputs[0].name;
  std::printf("%s|%s|%g %g %g %g\n", input.data(), output.data(), out[0], out[1], out[2], out[3]);
}
