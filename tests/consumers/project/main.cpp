// usage: consumer IMAGES.csv WINES.csv
//
// Each line of a file is one row of inputs and its class. Prints the probabilities of the classes of each row, and the
// share of rows that each model gets right.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "classify.h"

using tfaot_model::digits;

std::vector<float> classify_digits(const std::vector<float>& images) {
  const std::size_t rows = images.size() / digits::InputInfo::image.row_size;
  std::vector<float> probability(digits::OutputInfo::probability.size_at(rows));
  std::vector<std::int64_t> digit(digits::OutputInfo::digit.size_at(rows));
  digits::Inputs in;
  in.image = images;
  digits::Outputs out;
  out.probability = probability;
  out.digit = digit;
  digits model;
  model.run(rows, in, out);
  return probability;
}

namespace {

struct Table {
  std::vector<float> values;
  std::vector<int> classes;
};

Table read_csv(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot open ") + path);
  Table table;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) table.values.push_back(std::stof(cell));
    table.classes.push_back(static_cast<int>(table.values.back()));
    table.values.pop_back();
  }
  return table;
}

void report(const char* name, const std::vector<float>& probability, const std::vector<int>& classes) {
  const std::size_t width = probability.size() / classes.size();
  std::size_t right = 0;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const auto row = probability.begin() + static_cast<std::ptrdiff_t>(i * width);
    right += std::max_element(row, row + static_cast<std::ptrdiff_t>(width)) - row == classes[i];
    std::printf("%s", name);
    for (std::size_t j = 0; j < width; ++j) std::printf(" %.9g", static_cast<double>(row[static_cast<std::ptrdiff_t>(j)]));
    std::printf("\n");
  }
  std::printf("%s-right %zu\n", name, right);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::runtime_error("usage: consumer IMAGES.csv WINES.csv");
  const Table images = read_csv(argv[1]), wines = read_csv(argv[2]);
  report("digits", classify_digits(images.values), images.classes);
  report("wine", classify_wines(wines.values), wines.classes);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
