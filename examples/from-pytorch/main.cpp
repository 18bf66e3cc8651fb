// Scores that a model from PyTorch gives for two made-up jets, of 3 and of 7 particles.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-constituents/model.h>

int main() {
  const tfaot::Shared<tfaot_model::constituents> model;
  for (std::size_t n : {3, 7}) {
    std::vector<float> mask(n, 1.0f), particles(n * 4);
    for (std::size_t i = 0; i < particles.size(); ++i) particles[i] = std::sin(0.1f * static_cast<float>(i));
    // The lengths of the inputs determine the number of particles.
    const auto results = model.run(1, {mask, particles});
    std::printf("%.6f\n", results.score[0]);
  }
}
