// Scores of five points, by the network that export.py trained.
#include <cstddef>
#include <cstdio>
#include <vector>

#include <tfaot-model-ring/model.h>

using tfaot_model::ring;

int main() {
  const std::vector<float> points{0.0F, 0.0F, 1.0F, 0.0F, 0.0F, -1.2F, 2.0F, 2.0F, -0.7F, 0.7F};
  const std::size_t rows = points.size() / ring::InputInfo::points.row_size;
  std::vector<float> score(rows);

  ring model;
  ring::Inputs inputs;
  inputs.points = points;
  ring::Outputs outputs;
  outputs.score = score;
  model.run(rows, inputs, outputs);

  for (std::size_t row = 0; row < rows; ++row) {
    std::printf("(%.1f, %.1f): %.3f\n", double{points[2 * row]}, double{points[2 * row + 1]}, double{score[row]});
  }
  return 0;
}
