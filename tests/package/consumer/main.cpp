// Two models in one program: prints y of one row by each.
#include <cstdio>

#include <tfaot-model-affine/model.h>

float steep(float value);

int main() {
  tfaot_model::affine model;
  const float bias[] = {1, 1, 1};
  const float x[] = {10, 20, 30};
  float y[3];
  std::int64_t label[1];
  model.run(1, bias, x, label, y);
  std::printf("affine %g, steep %g\n", static_cast<double>(y[0]), static_cast<double>(steep(x[0])));
}
