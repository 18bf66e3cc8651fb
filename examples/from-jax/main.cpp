// Scores of five points, by the network that export.py trained.
#include <cstddef>
#include <cstdio>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-ring/model.h>

using tfaot_model::ring;

int main() {
  const std::vector<float> points{0.0F, 0.0F, 1.0F, 0.0F, 0.0F, -1.2F, 2.0F, 2.0F, -0.7F, 0.7F};
  const std::size_t rows = points.size() / ring::InputInfo::points.row_size;

  const tfaot::Shared<ring> model;
  const auto results = model.run(rows, {points});

  for (std::size_t row = 0; row < rows; ++row) {
    std::printf("(%.1f, %.1f): %.3f\n", double{points[2 * row]}, double{points[2 * row + 1]}, double{results.score[row]});
  }
  return 0;
}
