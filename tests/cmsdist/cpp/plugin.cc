// A plug-in that uses two models by CMSSW's interface: out = {dense(first four of x), sum and difference of x}.
#include "PhysicsTools/TensorFlowAOT/interface/Model.h"

#include "tfaot-model-dense/model.h"
#include "tfaot-model-two-inputs/model.h"

extern "C" void evaluate(const float* x, float* out) {
  auto dense = tfaot::Model<tfaot_model::dense>();
  auto two = tfaot::Model<tfaot_model::two_inputs>();
  tfaot::FloatArrays y, difference, sum;
  std::tie(y) = dense.run<tfaot::FloatArrays>(1, tfaot::FloatArrays{{x[0], x[1], x[2], x[3]}});
  const tfaot::FloatArrays first = {{x[0], x[1], x[2]}}, second = {{x[3], x[4], x[5]}};
  std::tie(difference, sum) = two.run<tfaot::FloatArrays, tfaot::FloatArrays>(1, first, second);
  for (const auto& array : {y, difference, sum}) out = std::copy(array[0].begin(), array[0].end(), out);
}
