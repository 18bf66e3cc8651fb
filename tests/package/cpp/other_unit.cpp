// A second translation unit with the same header.
#include <tfaot-model-affine/model.h>
#include <tfaot-model-affine/model.h>

float run_in_other_unit();

float run_in_other_unit() {
  tfaot_model::affine model;
  const float bias[] = {0.5f, 0.0f, 0.0f};
  const float x[] = {1, 0, 0};
  float y[3];
  std::int64_t label[1];
  model.run(1, bias, x, label, y);
  return y[0];
}
