// Threads that share one instance by mistake: each call gives right results or is refused. Prints how many were wrong,
// and whether any were refused, by the C ABI and by tfaot::Model.
//
// usage: busy DIGITS_INPUTS
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <tfaot-model-digits/model.h>
#include <tfaot/model.h>

namespace {

using tfaot_model::digits;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kCalls = 20000;  // at least, of each thread
constexpr auto kLongest = std::chrono::seconds(120);  // until threads meet, on a machine of one core

std::atomic<long> wrong{0}, refused{0};
std::atomic<bool> unexpected{false};

// Calls `call(row)`, which says whether the result of that row was right, until calls were refused.
template <class Call>
void repeat(std::size_t first, Call call) {
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < kCalls || (refused == 0 && Clock::now() - begin < kLongest); ++i) {
    if (!call((first + i) % 8)) ++wrong;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: busy DIGITS_INPUTS");
  std::vector<float> image(8 * 64);
  std::ifstream file(std::string(argv[1]) + "/image.bin", std::ios::binary);
  file.read(reinterpret_cast<char*>(image.data()), static_cast<std::streamsize>(image.size() * sizeof(float)));
  if (!file) throw std::runtime_error("image.bin is too short or not there");

  std::vector<float> answers(8 * 10), batch(3 * 10);
  std::vector<std::int64_t> labels(8);
  digits single;
  for (std::size_t row = 0; row < 8; ++row) {
    single.run(1, {&image[64 * row], 64}, {&labels[row], 1}, {&answers[10 * row], 10});
  }
  tfaot::Model<digits> other;
  other.setBatchRule("3:1,1,1");  // the bits of single rows
  const auto same = [&](const float* ours, std::size_t row, std::size_t rows) {
    return std::memcmp(ours, &answers[10 * row], rows * 10 * sizeof(float)) == 0;
  };

  const tfaot_model_table& table = digits::table();
  tfaot_instance* shared = nullptr;
  if (table.create(nullptr, &shared, nullptr, 0) != TFAOT_OK) throw std::runtime_error("create");
  const auto in_c = [&](std::size_t row) {
    float probability[10];
    std::int64_t label;
    const void* const in[] = {&image[64 * row]};
    void* const out[] = {&label, probability};
    const tfaot_status status = table.run(shared, 1, in, out);
    if (status == TFAOT_BUSY) ++refused;
    if (status != TFAOT_OK && status != TFAOT_BUSY) unexpected = true;
    return status != TFAOT_OK || (label == labels[row] && same(probability, row, 1));
  };
  tfaot::Model<digits> model;
  model.setBatchRule("3:1,1,1");
  const auto in_cpp = [&](std::size_t row) {
    row = std::min<std::size_t>(row, 5);
    float probability[30];
    std::int64_t label[3];
    try {
      model.run(3, {{&image[64 * row], 192}}, {{label, 3}, {probability, 30}});
    } catch (const tfaot::Error& error) {
      ++refused;
      if (std::string(error.what()).find("in use by another thread") == std::string::npos) unexpected = true;
      return true;
    }
    return same(probability, row, 3);
  };
  for (const bool cpp : {false, true}) {
    refused = 0;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] { cpp ? repeat(4 * i, in_cpp) : repeat(4 * i, in_c); });
    }
    for (std::thread& thread : threads) thread.join();
    std::printf("%s: %ld wrong, %s refused%s\n", cpp ? "C++" : "C", wrong.load(), refused > 0 ? "some" : "none",
                unexpected ? ", an unexpected error" : "");
  }
  table.destroy(shared);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "busy: %s\n", error.what());
  return 2;
}
