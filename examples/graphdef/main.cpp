// The probabilities of three tags for each jet.
//
// usage: tag FEATURE...      four numbers for each jet
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-tagger/model.h>

using tfaot_model::tagger;

int main(int argc, char** argv) try {
  std::vector<float> features;
  for (int i = 1; i < argc; ++i) features.push_back(std::strtof(argv[i], nullptr));
  constexpr std::size_t of_each = tagger::InputInfo::features.row_size;
  if (features.empty() || features.size() % of_each != 0) throw std::runtime_error("usage: tag FEATURE...");
  const std::size_t jets = features.size() / of_each;

  const tfaot::Shared<tagger> model;
  const auto results = model.run(jets, {features});

  for (std::size_t i = 0; i < results.probability.size(); ++i) {
    std::printf("%.6f%c", static_cast<double>(results.probability[i]), (i + 1) % 3 == 0 ? '\n' : ' ');
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
