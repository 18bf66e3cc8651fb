// Times one thread and two on the same rows, in turn. argv: rounds, then batch sizes. Each line of the output is
// a batch size, then pairs of microseconds, one per round: `run`, and `run_parallel` on two threads.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <tfaot/model.h>
#include <tfaot/threads.h>

#include MODEL_HEADER

namespace {

using Model = tfaot::Model<tfaot_model::MODEL>;
using Clock = std::chrono::steady_clock;

constexpr double kRoundMicroseconds = 20'000;

double microseconds(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// The median of calls that follow one another for a while.
template <class Call>
double timed(Call call) {
  std::vector<double> times;
  for (double sum = 0; sum < kRoundMicroseconds || times.size() < 5; sum += times.back()) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(microseconds(Clock::now() - start));
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Model model;
  const int rounds = std::atoi(argv[1]);
  for (int i = 2; i < argc; ++i) {
    const auto rows = static_cast<std::size_t>(std::atoi(argv[i]));
    std::vector<float> in(rows * INPUTS), out(rows * OUTPUTS);
    for (std::size_t k = 0; k < in.size(); ++k) in[k] = static_cast<float>(k % 17) / 16.0f - 0.5f;
    const Model::Inputs inputs{in};
    const Model::Outputs outputs{out};
    std::printf("%zu", rows);
    for (int round = 0; round <= rounds; ++round) {
      const double one = timed([&] { model.run(rows, inputs, outputs); });
      const double two = timed([&] { model.run_parallel(rows, inputs, outputs, 2); });
      if (round > 0) std::printf(" %.2f %.2f", one, two);
    }
    std::printf("\n");
  }
}
