// Runs a model: what a program that uses a package compiles.
#include <tfaot/model.h>
#include <tfaot-model-dense/model.h>

#include <vector>

int main() {
  tfaot::Model<tfaot_model::dense> model;
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(2);
  model.run(1, {x}, {y});
  return y[0] < 0.5f;
}
