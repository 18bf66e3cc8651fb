// Measures the latency of one run of a model per target and batch size, in one thread, with buffers that are used in place.

#include <algorithm>
#include <cstdio>

#include "model.h"
#include "runs.h"

namespace {

constexpr std::int64_t kShortest = 20'000;  // nanoseconds of a measurement at least, so that the clock's resolution is negligible
constexpr std::size_t kFewest = 5;
constexpr std::size_t kMost = 10'000;
constexpr double kSeconds = 0.5;
constexpr double kMostSeconds = 3600;
constexpr std::int64_t kMostRows = 1'000'000;  // of a model for any batch size

const char* const kHelp =
    "usage: %s [--target TARGET]... [--batch-size N]... [--seconds S] [--json]\n"
    "\n"
    "Time the model %s: one thread, pseudo-random inputs (floats in [-1, 1), integers 0 and 1), buffers used in place.\n"
    "\n"
    "  --target TARGET   for this kind of CPU: %s. Repeatable.\n"
    "                    [default: the best that this CPU can run]\n"
    "  --batch-size N    only this batch size. Repeatable. [default: all that the library lists]\n"
    "  --seconds S       how long to measure each, at least %zu times. [default: %g]\n"
    "  --json            print JSON; times in nanoseconds.\n"
    "\n"
    "A measurement is the mean of as many runs as take %lld us; median, p95 (95 of 100 measurements are not slower) and\n"
    "minimum are over measurements. Exit codes: 0 done; 2 wrong usage, or this CPU cannot run that target.\n";

struct Options {
  std::vector<std::string> targets;
  std::vector<std::int64_t> batch_sizes;
  double seconds = kSeconds;
  bool json = false;
};

// Nanoseconds of one run.
struct Timing {
  std::string target;
  std::int64_t batch_size;
  std::size_t measurements;
  double median, p95, minimum;
};

template <typename T>
void fill_as(void* memory, std::size_t bytes, std::uint32_t* state) {
  T* values = static_cast<T*>(memory);
  for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
    *state = *state * 1664525u + 1013904223u;  // Numerical Recipes, "quick and dirty generators"
    values[i] = static_cast<T>(*state >> 8) / static_cast<T>(1 << 23) - T{1};
  }
}

// Numbers from 1 to almost 2 for float16, and from 1/128 on for bfloat16: no subnormal numbers, which may take longer.
void fill_with_bits(void* memory, std::size_t bytes, std::uint32_t* state) {
  auto* const values = static_cast<std::uint16_t*>(memory);
  for (std::size_t i = 0; i < bytes / sizeof *values; ++i) {
    *state = *state * 1664525u + 1013904223u;
    values[i] = static_cast<std::uint16_t>(0x3c00u | (*state >> 22));
  }
}

// The same values in every process.
void fill(void* memory, std::size_t bytes, const tfaot_tensor& tensor) {
  std::uint32_t state = 1;
  if (tensor.dtype == TFAOT_FLOAT32) return fill_as<float>(memory, bytes, &state);
  if (tensor.dtype == TFAOT_FLOAT64) return fill_as<double>(memory, bytes, &state);
  if (tensor.dtype == TFAOT_COMPLEX64) return fill_as<float>(memory, bytes, &state);
  if (tensor.dtype == TFAOT_COMPLEX128) return fill_as<double>(memory, bytes, &state);
  if (tensor.dtype == TFAOT_FLOAT16 || tensor.dtype == TFAOT_BFLOAT16) return fill_with_bits(memory, bytes, &state);
  const auto step = static_cast<std::size_t>(tensor.element_size);
  for (std::size_t i = 0; i < bytes; i += 2 * step) static_cast<char*>(memory)[i] = 1;  // 1, 0, 1, 0: little-endian
}

// The value that `share` of the sorted `times` do not exceed.
double quantile(const std::vector<double>& times, double share) {
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(times.size()));
  return times[std::min(rank, times.size() - 1)];
}

// False if a run fails.
bool measure(tfaot_instance* instance, std::int64_t batch_size, double seconds, Timing* timing) {
  const tfaot_model_table& model = tools::model();
  const tfaot_info& info = *model.info;
  tools::Runs runs(model, instance, batch_size);
  for (std::size_t i = 0; i < info.num_inputs; ++i) {
    fill(runs.input(i), tools::bytes_of(info.inputs[i], batch_size), info.inputs[i]);
  }
  if (!runs.prepare(kShortest)) return false;
  const std::int64_t end = tools::now() + static_cast<std::int64_t>(seconds * 1e9);
  while (runs.times().size() < kFewest || (runs.times().size() < kMost && tools::now() < end)) {
    if (!runs.measure()) return false;
  }
  std::vector<double> times = runs.times();
  std::sort(times.begin(), times.end());
  *timing = {model.target(instance), batch_size, times.size(), quantile(times, 0.5), quantile(times, 0.95), times[0]};
  return true;
}

// `text` as a JSON string. It must be UTF-8 without control characters, as names and versions are.
std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') made += '\\';
    made += letter;
  }
  return made + '"';
}

void print_json(const std::vector<Timing>& timings) {
  const tfaot_info& info = *tools::model().info;
  std::printf("{\n  \"model\": %s,\n  \"version\": %s,\n  \"uid\": %s,\n  \"toolchain\": %s,\n", quoted(info.name).c_str(),
              quoted(info.version).c_str(), quoted(info.uid).c_str(), quoted(info.toolchain).c_str());
  std::printf("  \"unit\": \"nanoseconds\",\n  \"measurements\": [");
  const char* separator = "\n";
  for (const Timing& each : timings) {
    std::printf("%s    {\"target\": %s, \"batch_size\": %lld, \"count\": %zu, \"median\": %.1f, \"p95\": %.1f, \"minimum\": %.1f}",
                separator, quoted(each.target).c_str(), static_cast<long long>(each.batch_size), each.measurements,
                each.median, each.p95, each.minimum);
    separator = ",\n";
  }
  std::printf("\n  ]\n}\n");
}

void print_table(const std::vector<Timing>& timings) {
  std::printf("%s: microseconds of one run, one thread\n", tools::title().c_str());
  std::printf("%-12s %10s %12s %12s %12s %14s\n", "target", "batch size", "median", "p95", "minimum", "median per row");
  for (const Timing& each : timings) {
    std::printf("%-12s %10lld %12.3f %12.3f %12.3f %14.3f\n", each.target.c_str(),
                static_cast<long long>(each.batch_size), each.median / 1e3, each.p95 / 1e3, each.minimum / 1e3,
                each.median / 1e3 / static_cast<double>(each.batch_size));
  }
}

// Ends the program: its arguments are wrong, or it cannot measure here.
[[noreturn]] void fail(const std::string& reason) { tools::end("benchmark", reason, 2); }

double number(const std::string& option, const char* text, double most) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0 && value <= most)) {
    fail(option + " " + text + ": write a number from 0 on; see --help");
  }
  return value;
}

std::int64_t batch_size(const char* text) {
  const tfaot_info& info = *tools::model().info;
  std::string known;
  for (std::size_t i = 0; i < info.num_batch_sizes; ++i) {
    const std::string size = std::to_string(info.batch_sizes[i]);
    if (size == text) return info.batch_sizes[i];
    known += (i != 0 ? ", " : "") + size;
  }
  if (info.any_batch_size != 0) {
    char* end = nullptr;
    const long long rows = std::strtoll(text, &end, 10);
    if (end != text && *end == '\0' && rows > 0 && rows <= kMostRows) return rows;
    fail(std::string("--batch-size ") + text + ": write a number of rows from 1 to " + std::to_string(kMostRows));
  }
  fail(std::string("batch size ") + text + " was not compiled: there are " + known);
}

void take(Options* options, const std::string& option, const char* value) {
  if (option == "--target") {
    if (!tools::has_target(value)) {
      fail(std::string("there is no target ") + value + " in this model: there are " + tools::targets_text());
    }
    options->targets.emplace_back(value);
  } else if (option == "--batch-size") {
    options->batch_sizes.push_back(batch_size(value));
  } else {
    options->seconds = number(option, value, kMostSeconds);
  }
}

void benchmark(const Options& options) {
  const tfaot_info& info = *tools::model().info;
  std::vector<const char*> targets;
  for (const std::string& target : options.targets) targets.push_back(target.c_str());
  if (targets.empty()) targets.push_back(nullptr);
  std::vector<std::int64_t> sizes = options.batch_sizes;
  if (sizes.empty()) sizes.assign(info.batch_sizes, info.batch_sizes + info.num_batch_sizes);
  std::vector<Timing> timings;
  for (const char* target : targets) {
    std::string message;
    tfaot_status status = TFAOT_OK;
    const tools::Instance instance = tools::create(target, &message, &status);
    if (instance == nullptr) fail(message);
    for (const std::int64_t size : sizes) {
      timings.emplace_back();
      if (!measure(instance.get(), size, options.seconds, &timings.back())) {
        fail(tools::model().message(instance.get()));
      }
    }
  }
  options.json ? print_json(timings) : print_table(timings);
}

}  // namespace

int main(int argc, char** argv) {
  const char* const name = tools::model().info->name;
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help" || option == "-h") {
      std::printf(kHelp, argv[0], name, tools::targets_text().c_str(), kFewest, kSeconds,
                  static_cast<long long>(kShortest / 1000));
      return 0;
    }
    if (option == "--json") {
      options.json = true;
      continue;
    }
    if (option != "--target" && option != "--batch-size" && option != "--seconds") {
      fail("unknown argument " + option + "; see --help");
    }
    if (++i == argc) fail(option + " needs a value; see --help");
    take(&options, option, argv[i]);
  }
  benchmark(options);
  return 0;
}
