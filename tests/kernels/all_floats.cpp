// The largest error of each function over all floats of an interval, in units in the last place of a float of the size of the
// exact value, at least the smallest normal number: lines of a name, the error, and the largest step down, in units, where
// the function should not fall. The exact value is that of float64. all_floats [NAME]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "activating.h"
#include "elementwise.h"

using namespace tfaot_kernels;

namespace {

double unitOf(double exact) { return std::ldexp(1.0, std::ilogb(std::fmax(std::fabs(exact), 0x1p-126)) - 23); }

/// From `low` to `high`, which have one sign, in the order of magnitudes.
template <class Function, class Exact>
void measure(Function function, Exact exact, float low, float high, double& error, double& fall) {
  const auto sign = bitsAs<std::uint32_t>(low) & 0x80000000u;
  const std::uint32_t first = bitsAs<std::uint32_t>(low) & 0x7fffffffu, last = bitsAs<std::uint32_t>(high) & 0x7fffffffu;
  double before = function(broadcast(low))[0];
  for (std::uint32_t bits = first; bits <= last; bits += kLanes) {
    float in[kLanes], out[kLanes];
    for (std::uint32_t i = 0; i < kLanes; ++i) in[i] = bitsAs<float>(std::min(bits + i, last) | sign);
    store(out, function(load(in)));
    for (int i = 0; i < kLanes; ++i) {
      const double value = exact(static_cast<double>(in[i])), unit = unitOf(value);
      if (std::isfinite(out[i])) error = std::max(error, std::fabs(out[i] - value) / unit);
      fall = std::max(fall, (sign ? out[i] - before : before - out[i]) / unit);
      before = out[i];
    }
  }
}

const char* wanted = nullptr;

template <class Function, class Exact>
void both(const char* name, Function function, Exact exact, float least, float below, float above) {
  if (wanted && std::strcmp(wanted, name) != 0) return;
  double error = 0.0, fall = 0.0;
  measure(function, exact, -least, -below, error, fall);
  measure(function, exact, least, above, error, fall);
  std::printf("%s %.4f %.4f\n", name, error, fall);
}

double gelu(double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }
double hardSwishOf(double x) { return x * std::fmin(std::fmax(x + 3.0, 0.0), 6.0) / 6.0; }
double geluByTanh(double x) { return x / (1.0 + std::exp(-std::sqrt(8.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x))); }

}  // namespace

#define TFAOT_OF(function) [](Vector x) __attribute__((always_inline)) { return function(x); }

int main(int count, char** arguments) {
  if (count > 1) wanted = arguments[1];
  // Nearer to zero, functions are x, x / 2 or constant; beyond the limits they are x, constant, zero or infinite.
  both("elu", TFAOT_OF(elu), [](double x) { return x > 0.0 ? x : std::expm1(x); }, 0x1p-14f, 20.0f, 1.0f);
  both("erf", TFAOT_OF(errorFunction), [](double x) { return std::erf(x); }, 0x1p-14f, 5.0f, 5.0f);
  both("exp", TFAOT_OF(exponentialOf), [](double x) { return std::exp(x); }, 0x1p-14f, 104.0f, 88.7f);
  both("expm1", TFAOT_OF(exponentialMinusOne), [](double x) { return std::expm1(x); }, 0x1p-14f, 20.0f, 88.7f);
  both("gelu", TFAOT_OF(geluErf), gelu, 0x1p-14f, 15.0f, 8.0f);
  both("gelu_tanh", TFAOT_OF(geluTanh), geluByTanh, 0x1p-14f, 11.0f, 8.0f);
  both("hard_swish", TFAOT_OF(hardSwish), hardSwishOf, 0x1p-14f, 4.0f, 4.0f);
  both("sigmoid", TFAOT_OF(logistic), [](double x) { return 1.0 / (1.0 + std::exp(-x)); }, 0x1p-14f, 104.0f, 20.0f);
  both("softplus", TFAOT_OF(softplus), [](double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }, 0x1p-14f, 104.0f, 20.0f);
  both("swish", TFAOT_OF(swish), [](double x) { return x / (1.0 + std::exp(-x)); }, 0x1p-14f, 110.0f, 20.0f);
  both("tanh", TFAOT_OF(hyperbolicTangent), [](double x) { return std::tanh(x); }, 0x1p-14f, 10.0f, 10.0f);
}
