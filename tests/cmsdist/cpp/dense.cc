// Code as users of PhysicsTools/TensorFlowAOT write it. With CMSSW defined it includes that package's header.
#ifdef CMSSW
#include "PhysicsTools/TensorFlowAOT/interface/Model.h"
#endif
#include "tfaot-model-dense/model.h"
#include "tfaot-model-dense/dense.h"

#include <cstdio>

int main() {
  auto model = tfaot::Model<tfaot_model::dense>();
  tfaot::FloatArrays input(5, std::vector<float>(4));
  for (auto& row : input) {
    for (float& value : row) {
      if (std::scanf("%f", &value) != 1) return 1;
    }
  }
  tfaot::FloatArrays output;
  std::tie(output) = model.run<tfaot::FloatArrays>(input.size(), input);
  std::printf("%s\n", model.name().c_str());
  for (const auto& row : output) std::printf("%.9g %.9g %.9g\n", row[0], row[1], row[2]);
  return 0;
}
