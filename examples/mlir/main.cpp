// Calls both models: distances of two pairs of points, and a line at three places.
#include <array>
#include <cstdio>

#include <tfaot/shared.h>

#include <tfaot-model-distance/model.h>
#include <tfaot-model-line/model.h>

int main() {
  const std::array<float, 6> first{0, 0, 0, 1, 2, 3}, second{3, 4, 0, 1, 2, 15};
  const tfaot::Shared<tfaot_model::distance> distance;
  const auto distances = distance.run(2, {first, second});
  std::printf("distances: %.2f %.2f\n", double{distances.metres[0]}, double{distances.metres[1]});

  const std::array<float, 6> x{1, 2, -3, 0, 0, 2};
  const tfaot::Shared<tfaot_model::line> line;
  const auto heights = line.run(3, {x});
  for (std::size_t row = 0; row < 3; ++row) {
    std::printf("height %.2f%s\n", double{heights.height[row]}, heights.positive[row] ? ", positive" : "");
  }
  return 0;
}
