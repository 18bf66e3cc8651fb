// Probabilities that a model from an ONNX file gives for two made-up jets.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-tagger/model.h>

int main() {
  constexpr std::size_t jets = 2;
  std::vector<float> tracks(jets * 12 * 6), jet(jets * 4);
  for (std::size_t i = 0; i < tracks.size(); ++i) tracks[i] = std::sin(0.1f * static_cast<float>(i));
  for (std::size_t i = 0; i < jet.size(); ++i) jet[i] = std::cos(0.1f * static_cast<float>(i));

  const tfaot::Shared<tfaot_model::tagger> model;
  const auto results = model.run(jets, {jet, tracks});
  for (std::size_t i = 0; i < jets; ++i) {
    std::printf("%.6f %.6f %.6f\n", results.p[3 * i], results.p[3 * i + 1], results.p[3 * i + 2]);
  }
}
