// Trains a network for handwritten digits, without TensorFlow, and prints its accuracy on images that it has not seen.
//
// usage: train DATA.csv
//
// Each line of the file is one image: 64 pixels from 0 to 16, row by row, then the digit that it shows. The last 72 images
// are held out.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <tfaot-model-digits-predict/model.h>
#include <tfaot-model-digits-step/model.h>
#include <tfaot/state.h>

namespace {

constexpr std::size_t kPixels = 64, kBatch = 32, kEpochs = 40, kHeldOut = 72;

struct Images {
  std::vector<float> pixels;
  std::vector<std::int32_t> digits;
};

bool read(const char* path, Images& images) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    float value;
    for (std::size_t i = 0; i < kPixels && words >> value; ++i) images.pixels.push_back(value);
    if (!(words >> value)) return false;
    images.digits.push_back(static_cast<std::int32_t>(value));
  }
  return images.digits.size() >= kBatch + kHeldOut;
}

void copy(tfaot::span<const float> from, tfaot::span<float> to) { std::copy(from.begin(), from.end(), to.begin()); }

}  // namespace

int main(int argc, char** argv) try {
  Images images;
  if (argc != 2 || !read(argv[1], images)) {
    std::cerr << "usage: train DATA.csv, with 64 pixels and a digit in each line, and at least 104 lines\n";
    return 2;
  }
  const std::size_t rows = images.digits.size() - kHeldOut;

  const tfaot::Shared<tfaot_model::digits_step> step;
  tfaot::State<tfaot_model::digits_step> training(step);
  for (std::size_t epoch = 0; epoch < kEpochs; ++epoch) {
    float loss = 0;
    for (std::size_t at = 0; at + kBatch <= rows; at += kBatch) {
      // By name, because members are sorted by name.
      tfaot_model::digits_step::StepInputs batch;
      batch.pixels = {images.pixels.data() + at * kPixels, kBatch * kPixels};
      batch.digits = {images.digits.data() + at, kBatch};
      loss = training.step(batch).loss[0];
    }
    if (epoch % 10 == 9) std::printf("epoch %zu: loss %.4f\n", epoch + 1, static_cast<double>(loss));
  }

  const tfaot::Shared<tfaot_model::digits_predict> predict;
  tfaot::State<tfaot_model::digits_predict> trained(predict);
  const auto from = training.tensors();
  const auto to = trained.tensors();
  copy(from.first_kernel, to.first_kernel);
  copy(from.second_kernel, to.second_kernel);
  copy(from.second_bias, to.second_bias);
  copy(from.norm_gamma, to.norm_gamma);
  copy(from.norm_beta, to.norm_beta);
  copy(from.norm_moving_mean, to.norm_moving_mean);
  copy(from.norm_moving_variance, to.norm_moving_variance);
  std::vector<std::int32_t> found(kHeldOut);
  trained.step(kHeldOut, {{images.pixels.data() + rows * kPixels, kHeldOut * kPixels}}, {found});
  std::size_t right = 0;
  for (std::size_t i = 0; i < kHeldOut; ++i) right += found[i] == images.digits[rows + i] ? 1 : 0;
  std::printf("accuracy on %zu held-out images: %.1f %%\n", kHeldOut, 100.0 * static_cast<double>(right) / kHeldOut);
  return 0;
} catch (const tfaot::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
