#include "classify.h"

using tfaot_model::digits;
using tfaot_model::wine;

std::vector<float> classify_wines(const std::vector<float>& samples) {
  constexpr std::size_t kChemistry = wine::InputInfo::chemistry.row_size;
  constexpr std::size_t kColour = wine::InputInfo::colour.row_size;
  const std::size_t rows = samples.size() / (kChemistry + kColour);
  std::vector<float> chemistry, colour;
  for (auto row = samples.begin(); row != samples.end(); row += kChemistry + kColour) {
    chemistry.insert(chemistry.end(), row, row + kChemistry);
    colour.insert(colour.end(), row + kChemistry, row + kChemistry + kColour);
  }
  std::vector<float> probability(wine::OutputInfo::probability.size_at(rows));
  wine model;
  model.run(rows, chemistry, colour, probability);
  return probability;
}
