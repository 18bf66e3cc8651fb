// Steps of the model `gathered`, each of as many rows as standard input says before them.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <tfaot-model-gathered/model.h>
#include <tfaot/tfaot.h>

int main() {
  using Gathered = tfaot_model::gathered;
  const tfaot::Shared<Gathered> model;
  tfaot::State<Gathered> state(model);
  std::uint64_t rows = 0;
  while (std::fread(&rows, sizeof rows, 1, stdin) == 1) {
    std::vector<float> x(3 * static_cast<std::size_t>(rows));
    if (std::fread(x.data(), sizeof(float), x.size(), stdin) != x.size()) return 1;
    const auto out = state.step({x});
    if (out.rows.size() != x.size()) return 2;
    for (const float each : out.mean) std::printf("%.9g ", static_cast<double>(each));
    for (const float each : out.rows) std::printf("%.9g ", static_cast<double>(each));
    std::puts("");
  }
  const std::vector<float> x(3 * 17);
  try {
    state.step({x});
    return 3;
  } catch (const tfaot::Error&) {
    return 0;
  }
}
