// How many wines come from each of three cultivars.
//
// usage: cultivars FILE.csv
//
// Each line of the file is one wine: 11 numbers for its chemistry, 2 for its colour; the rest of the line is ignored.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-cultivar/model.h>

using tfaot_model::cultivar;

struct Wines {
  std::vector<float> chemistry, colour;
  std::size_t count = 0;
};

Wines read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  Wines wines;
  for (std::string line; std::getline(file, line); ++wines.count) {
    std::istringstream cells(line);
    for (std::size_t i = 0; i < cultivar::InputInfo::chemistry.row_size + cultivar::InputInfo::colour.row_size; ++i) {
      std::string cell;
      if (!std::getline(cells, cell, ',')) throw std::runtime_error(path + ": a line is too short");
      (i < cultivar::InputInfo::chemistry.row_size ? wines.chemistry : wines.colour).push_back(std::stof(cell));
    }
  }
  return wines;
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: cultivars FILE.csv");
  const Wines wines = read_csv(argv[1]);

  const tfaot::Shared<cultivar> model;
  const auto results = model.run(wines.count, {wines.chemistry, wines.colour});

  std::array<int, 3> counts{};
  for (auto row = results.probability.begin(); row != results.probability.end(); row += counts.size()) {
    ++counts[static_cast<std::size_t>(std::max_element(row, row + counts.size()) - row)];
  }
  std::printf("%zu wines: %d, %d and %d of the three cultivars\n", wines.count, counts[0], counts[1], counts[2]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
