// Answers of a model that XGBoost trained, for three rows, one of them with missing numbers.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-signal/model.h>

int main() {
  constexpr std::size_t rows = 3;
  // Columns in the order of training: pt, eta, d0, isolation.
  const std::vector<float> x{
      0.5f,  1.2f,  0.3f, -0.1f,  //
      -0.7f, 0.9f,  0.8f, 0.4f,   //
      NAN,   -0.3f, NAN,  1.5f,
  };
  const tfaot::Shared<tfaot_model::signal> model;
  const auto results = model.run(rows, {x});
  for (std::size_t i = 0; i < rows; ++i) std::printf("%.9g\n", static_cast<double>(results.probabilities[i]));
}
