// Runs a model on nested vectors.
#include <tfaot/model.h>
#include <tfaot-model-dense/model.h>

int main() {
  tfaot::Model<tfaot_model::dense> model;
  const tfaot::FloatArrays x = {{1, 2, 3, 4}};
  const auto [y] = model.run<tfaot::FloatArrays>(1, x);
  return y[0][0] < 0.5f;
}
