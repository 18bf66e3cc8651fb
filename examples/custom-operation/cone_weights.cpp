// The weights of the tracks of a jet: their momenta, decreasing towards the edge of a cone around its axis.
#include <cmath>

#include "tfaot/operation.h"

using namespace tfaot::operation;

// tracks: momentum, eta and phi of each; axis: eta and phi of the jet; weights: one for each track.
void ConeWeights(Input<float> tracks, Input<float> axis, Output<float> weights, const Attributes& attributes) {
  constexpr float pi = 3.14159265358979f;
  const auto cone = static_cast<float>(attributes.number("cone", 0.4));
  for (std::int64_t track = 0; track < weights.size(); ++track) {
    const float eta = tracks(track, 1) - axis[0];
    float phi = std::fabs(tracks(track, 2) - axis[1]);
    phi = phi - 2 * pi * std::floor(phi / (2 * pi));  // angles are the same a full turn further
    if (phi > pi) phi = 2 * pi - phi;
    const float part = 1 - std::sqrt(eta * eta + phi * phi) / cone;
    weights[track] = part < 0 ? 0 : tracks(track, 0) * part;
  }
}
