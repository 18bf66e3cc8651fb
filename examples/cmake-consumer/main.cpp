// Accuracy of the model `digits` on images that it has not seen in training.
//
// usage: digits-accuracy FILE.csv
//
// Each line of the file is one image: 64 pixels from 0 to 16, row by row, then the digit that it shows.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <tfaot/shared.h>

#include <tfaot-model-digits/model.h>

using tfaot_model::digits;

// Images one after another, as the model takes them, and their digits.
struct Images {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;

  std::size_t size() const { return labels.size(); }
};

Images read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  Images images;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::vector<double> values;
    for (std::string cell; std::getline(cells, cell, ',');) values.push_back(std::stod(cell));
    if (values.size() != digits::InputInfo::image.row_size + 1) {
      throw std::runtime_error(path + ": line " + std::to_string(images.size() + 1) + " is not an image and its label");
    }
    images.labels.push_back(static_cast<std::int64_t>(values.back()));
    values.pop_back();
    for (double pixel : values) images.pixels.push_back(static_cast<float>(pixel));
  }
  return images;
}

double accuracy(const Images& images) {
  const tfaot::Shared<digits> model;
  const auto results = model.run(images.size(), {images.pixels});

  std::size_t right = 0;
  for (std::size_t i = 0; i < images.size(); ++i) right += results.digit[i] == images.labels[i];
  return static_cast<double>(right) / static_cast<double>(images.size());
}

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: digits-accuracy FILE.csv");
  const Images images = read_csv(argv[1]);
  if (images.size() == 0) throw std::runtime_error(std::string(argv[1]) + " holds no images");
  std::printf("accuracy on %zu held-out images: %.1f %%\n", images.size(), 100 * accuracy(images));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
