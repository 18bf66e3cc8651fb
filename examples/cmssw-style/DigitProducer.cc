// A producer in the style of CMSSW: one model per stream, batch rules from the configuration, events with any number of
// candidates. The code that uses models is the same in CMSSW.
//
// usage: digit-producer FILE.csv [BATCH-RULE ...]
//
// Each line of the file is one image: 64 pixels from 0 to 16, row by row, then the digit that it shows.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "PhysicsTools/TensorFlowAOT/interface/Model.h"

#include "tfaot-model-digits/model.h"

// The classes that the framework provides to a producer.
struct Event {
  tfaot::FloatArrays images;
  std::vector<std::int64_t> truth;
};

class DigitProducer {
public:
  explicit DigitProducer(const std::vector<std::string>& batchRules) {
    for (const std::string& rule : batchRules)
      model_.setBatchRule(rule);
  }

  // The digit that each image of the event shows.
  std::vector<std::int64_t> produce(const Event& event) {
    tfaot::Int64Arrays digits;
    tfaot::FloatArrays probabilities;
    std::tie(digits, probabilities) =
        model_.run<tfaot::Int64Arrays, tfaot::FloatArrays>(event.images.size(), event.images);
    std::vector<std::int64_t> found;
    for (const auto& digit : digits)
      found.push_back(digit[0]);
    return found;
  }

  const tfaot::BatchStrategy& batchStrategy() const { return model_.getBatchStrategy(); }

private:
  tfaot::Model<tfaot_model::digits> model_;
};

// The file's images in events of 1, 2, ... 12, 1, 2, ... images.
std::vector<Event> readEvents(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error("cannot open " + path);
  std::vector<Event> events;
  for (std::string line; std::getline(file, line);) {
    std::vector<float> image;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');)
      image.push_back(std::stof(cell));
    if (image.empty())
      throw std::runtime_error(path + ": an empty line");
    if (events.empty() || events.back().images.size() == (events.size() - 1) % 12 + 1)
      events.emplace_back();
    events.back().truth.push_back(static_cast<std::int64_t>(image.back()));
    image.pop_back();
    events.back().images.push_back(image);
  }
  return events;
}

int main(int argc, char** argv) try {
  if (argc < 2)
    throw std::runtime_error("usage: digit-producer FILE.csv [BATCH-RULE ...]");
  DigitProducer producer({argv + 2, argv + argc});
  std::size_t right = 0, total = 0;
  for (const Event& event : readEvents(argv[1])) {
    const std::vector<std::int64_t> found = producer.produce(event);
    for (std::size_t i = 0; i < found.size(); ++i)
      right += found[i] == event.truth[i];
    total += found.size();
  }
  std::printf("%zu of %zu images right\n", right, total);
  for (std::size_t size = 1; size <= 12; ++size) {
    if (producer.batchStrategy().hasRule(size) && producer.batchStrategy().getRule(size).nSizes() > 1)
      std::printf("%zu rows take %zu calls\n", size, producer.batchStrategy().getRule(size).nSizes());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
