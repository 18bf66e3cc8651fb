// Runs a model through the class that tfcompile generates.
#include "tfaot_b1.h"

int main() {
  tfaot_b1::Unit model;
  const float x[] = {1, 2, 3, 4};
  for (int i = 0; i < 4; ++i) model.arg0(0, i) = x[i];
  if (!model.Run()) return 2;
  return model.result0(0, 0) < 0.5f;
}
