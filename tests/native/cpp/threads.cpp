// Four threads, each with an instance of each model of its own, compute the same rows again and again.
//
// usage: threads DIGITS_INPUTS WINE_INPUTS ANSWERS
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tfaot-model-digits/model.h>
#include <tfaot-model-wine/model.h>

namespace {

using tfaot_model::digits;
using tfaot_model::wine;

constexpr std::size_t kRows = 29;  // several batch sizes, and padding for wine
constexpr int kTimes = 20;

std::vector<float> read(const std::string& path, std::size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::vector<float> values(size);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(size * sizeof(float)));
  if (!file) throw std::runtime_error(path + " is too short or not there");
  return values;
}

int count_wrong(const std::vector<float>& ours, const std::vector<float>& theirs) {
  int wrong = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!(std::fabs(ours[i] - theirs[i]) <= 1e-5f + 1e-4f * std::fabs(theirs[i]))) ++wrong;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("usage: threads DIGITS_INPUTS WINE_INPUTS ANSWERS");
  const std::string digits_folder = argv[1], wine_folder = argv[2], answers = argv[3];
  const auto image = read(digits_folder + "/image.bin", digits::InputInfo::image.size_at(kRows));
  const auto chemistry = read(wine_folder + "/chemistry.bin", wine::InputInfo::chemistry.size_at(kRows));
  const auto colour = read(wine_folder + "/colour.bin", wine::InputInfo::colour.size_at(kRows));
  const auto digit_answers = read(answers + "/digits.bin", digits::OutputInfo::probability.size_at(kRows));
  const auto wine_answers = read(answers + "/wine.bin", wine::OutputInfo::probability.size_at(kRows));

  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      digits first;
      wine second;
      std::vector<std::int64_t> digit(digits::OutputInfo::digit.size_at(kRows));
      std::vector<float> of_digits(digit_answers.size()), of_wine(wine_answers.size());
      for (int time = 0; time < kTimes; ++time) {
        first.run(kRows, image, digit, of_digits);
        second.run(kRows, chemistry, colour, of_wine);
        wrong += count_wrong(of_digits, digit_answers) + count_wrong(of_wine, wine_answers);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("wrong: %d\n", wrong.load());
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
