// The probabilities of three tags for each jet.
//
// usage: tag FEATURE...      four numbers for each jet
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

#include <tfaot-model-tagger/model.h>

using tfaot_model::tagger;

int main(int argc, char** argv) try {
  std::vector<float> features;
  for (int i = 1; i < argc; ++i) features.push_back(std::strtof(argv[i], nullptr));
  constexpr std::size_t of_each = tagger::InputInfo::features.row_size;
  if (features.empty() || features.size() % of_each != 0) throw std::runtime_error("usage: tag FEATURE...");
  const std::size_t jets = features.size() / of_each;
  std::vector<float> probability(tagger::OutputInfo::probability.size_at(jets));

  tagger model;
  tagger::Inputs inputs;
  inputs.features = features;
  tagger::Outputs outputs;
  outputs.probability = probability;
  model.run(jets, inputs, outputs);

  for (std::size_t i = 0; i < probability.size(); ++i) {
    std::printf("%.6f%c", static_cast<double>(probability[i]), (i + 1) % 3 == 0 ? '\n' : ' ');
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
