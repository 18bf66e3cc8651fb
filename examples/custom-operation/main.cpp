// Probabilities of two made-up jets, by a model that begins with an operation of its author.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-cone/model.h>

int main() {
  constexpr std::size_t jets = 2;
  std::vector<float> tracks(jets * 12 * 3), axis(jets * 2);
  for (std::size_t i = 0; i < tracks.size(); ++i) tracks[i] = 0.3f * std::sin(0.7f * static_cast<float>(i));
  for (std::size_t i = 0; i < axis.size(); ++i) axis[i] = 0.1f * std::cos(static_cast<float>(i));

  const tfaot::Shared<tfaot_model::cone> model;
  const auto results = model.run(jets, {axis, tracks});
  for (std::size_t i = 0; i < jets; ++i) {
    std::printf("%.6f %.6f %.6f\n", results.p[3 * i], results.p[3 * i + 1], results.p[3 * i + 2]);
  }
}
