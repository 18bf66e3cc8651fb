// What an FPGA's network says of two made-up jets, as the firmware does: multiples of 1/4096.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-fpga_tagger/model.h>

int main() {
  constexpr std::size_t jets = 2;
  std::vector<float> jet(jets * 16);
  for (std::size_t i = 0; i < jet.size(); ++i) jet[i] = 3.0f * std::sin(0.7f * static_cast<float>(i));

  const tfaot::Shared<tfaot_model::fpga_tagger> model;
  const auto results = model.run(jets, {jet});
  for (std::size_t i = 0; i < jets; ++i) {
    for (std::size_t j = 0; j < 5; ++j) std::printf("%.0f%c", 4096 * results.probabilities[5 * i + j], j < 4 ? ' ' : '\n');
  }
}
