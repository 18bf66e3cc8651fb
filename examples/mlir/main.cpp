// Calls both models: distances of two pairs of points, and a line at three places.
#include <array>
#include <cstdio>

#include <tfaot-model-distance/model.h>
#include <tfaot-model-line/model.h>

int main() {
  const std::array<float, 6> first{0, 0, 0, 1, 2, 3}, second{3, 4, 0, 1, 2, 15};
  std::array<float, 2> metres{};
  tfaot_model::distance distance;
  tfaot_model::distance::Inputs pairs;
  pairs.first = first;
  pairs.second = second;
  tfaot_model::distance::Outputs distances;
  distances.metres = metres;
  distance.run(metres.size(), pairs, distances);
  std::printf("distances: %.2f %.2f\n", double{metres[0]}, double{metres[1]});

  const std::array<float, 6> x{1, 2, -3, 0, 0, 2};
  std::array<float, 3> height{};
  std::array<bool, 3> positive{};
  tfaot_model::line line;
  tfaot_model::line::Inputs places;
  places.x = x;
  tfaot_model::line::Outputs heights;
  heights.height = height;
  heights.positive = positive;
  line.run(height.size(), places, heights);
  for (std::size_t row = 0; row < height.size(); ++row) {
    std::printf("height %.2f%s\n", double{height[row]}, positive[row] ? ", positive" : "");
  }
  return 0;
}
