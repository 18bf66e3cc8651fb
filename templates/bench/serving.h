// How the programs of `tfaot-pkg bench` that run an engine from C++ are asked: one request a line on standard input, one
// line of JSON for each on the descriptor for answers:
//
//     start B          load the engine and run batch size B once: {"nanoseconds": the time that took}
//     time B S D       chunks (chunks.h) of at least S nanoseconds for D nanoseconds: {"times": [nanoseconds, ...]}
//     cold B N         N runs, each by another of eight copies of the model, after 8 MB were read: as `time`
//     overhead S D     as `time`, for a model that gives its input back
//     answers B FILE   run once, write all outputs to FILE one after the other: {}
//     memory           {"empty": before the engine was loaded, "peak": now}, kB of VmHWM (proc_pid_status(5))
//
// or {"error": "..."}. Iostreams and strings are not used, because they would count as measured memory.
#ifndef TFAOT_BENCH_SERVING_H_
#define TFAOT_BENCH_SERVING_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "chunks.h"

namespace tfaot_bench {

constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kIdentity = 0;  // stands for the batch size of the model that gives its input back
constexpr int kCopies = 8;
constexpr std::size_t kOtherWork = 8 << 20;  // more than the second cache of a core

inline long peakMemory() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  long kilobytes = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return kilobytes;
}

inline std::size_t roundedUp(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

inline char* aligned(std::size_t size) {
  void* memory = nullptr;
  return posix_memalign(&memory, kAlignment, std::max<std::size_t>(size, 1)) == 0 ? static_cast<char*>(memory) : nullptr;
}

// The whole file, or nullptr.
inline char* contentOf(const char* path) {
  struct stat status;
  const int file = open(path, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) return nullptr;
  const auto size = static_cast<std::size_t>(status.st_size);
  char* content = aligned(size);
  std::size_t had = 0;
  while (content != nullptr && had < size) {
    const ssize_t got = read(file, content + had, size - had);
    if (got <= 0) return nullptr;
    had += static_cast<std::size_t>(got);
  }
  close(file);
  return content;
}

struct Part {
  const void* data;
  std::size_t size;
};

inline bool write(const std::vector<Part>& parts, const char* path) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) return false;
  for (const Part& part : parts) std::fwrite(part.data, 1, part.size, file);
  return std::fclose(file) == 0;
}

struct Runs {
  std::int64_t batchSize;
  std::int64_t runs;
};

// The number of runs in a chunk, by batch size.
inline std::int64_t* runsOf(std::vector<Runs>* known, std::int64_t batchSize) {
  for (Runs& each : *known) {
    if (each.batchSize == batchSize) return &each.runs;
  }
  known->push_back({batchSize, 1});
  return &known->back().runs;
}

inline void sayError(int answers, const char* text) {
  char safe[256];
  std::size_t size = 0;
  for (; *text != 0 && size + 1 < sizeof safe; ++text) {
    safe[size++] = *text == '"' || *text == '\\' || static_cast<unsigned char>(*text) < ' ' ? ' ' : *text;
  }
  safe[size] = 0;
  dprintf(answers, "{\"error\": \"%s\"}\n", safe);
}

inline void sayTimes(int answers, const std::vector<double>& times) {
  dprintf(answers, "{\"times\": [");
  for (std::size_t i = 0; i < times.size(); ++i) dprintf(answers, i == 0 ? "%.1f" : ", %.1f", times[i]);
  dprintf(answers, "]}\n");
}

inline volatile char sink;

// As the caches are after other work of a program: reads memory, line by line.
inline void readOtherMemory() {
  static const char* memory = aligned(kOtherWork);
  char sum = 0;
  for (std::size_t i = 0; memory != nullptr && i < kOtherWork; i += 64) sum = static_cast<char>(sum + memory[i]);
  sink = sum;
}

// `count` runs of batch size B by copies in turn, each alone and after other work. False if one fails.
template <class Engine>
bool coldTimes(Engine& engine, std::int64_t batchSize, std::int64_t count, std::vector<double>* times) {
  times->clear();
  for (std::int64_t i = -kCopies; i < count; ++i) {  // each copy has run once before
    readOtherMemory();
    auto run = engine.run(batchSize, static_cast<int>((i + kCopies) % kCopies));
    const std::int64_t start = now();
    if (!run()) return false;
    if (i >= 0) times->push_back(static_cast<double>(now() - start));
  }
  return true;
}

// Serves an engine, which has
//     const char* load(B, C)   loads copy C of what batch size B needs, if it is not there: an error message, empty on success
//     run(B, C)                a function that runs it and says whether it worked, after load(B, C)
//     runNext(B)               the same of the first copy, with other rows for each run if that was asked for
//     const char* message()    why it did not
//     parts(B)                 the outputs of the last run
template <class Engine>
int serve(int answers, Engine& engine) {
  std::vector<Runs> runs;
  std::vector<double> times;
  long empty = 0;
  for (char line[4200]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    char file[4096];
    long long size = kIdentity, shortest = 0, duration = 0;
    const bool starts = std::sscanf(line, "start %lld", &size) == 1;
    const bool measures = std::sscanf(line, "time %lld %lld %lld", &size, &shortest, &duration) == 3 ||
                          std::sscanf(line, "overhead %lld %lld", &shortest, &duration) == 2;
    const bool isCold = std::sscanf(line, "cold %lld %lld", &size, &duration) == 2;
    const bool gives = std::sscanf(line, "answers %lld %4095[^\n]", &size, file) == 2;
    if (std::strncmp(line, "memory", 6) == 0) {
      dprintf(answers, "{\"empty\": %ld, \"peak\": %ld}\n", empty, peakMemory());
      continue;
    }
    if (!starts && !measures && !isCold && !gives) {
      sayError(answers, "no such request");
      continue;
    }
    if (starts) empty = peakMemory();
    const std::int64_t began = now();
    const char* wrong = "";
    for (int copy = 0; copy < (isCold ? kCopies : 1) && *wrong == 0; ++copy) wrong = engine.load(size, copy);
    if (*wrong != 0) {
      sayError(answers, wrong);
    } else if (isCold && !coldTimes(engine, size, duration, &times)) {
      sayError(answers, engine.message());
    } else if (measures && !chunks(engine.runNext(size), shortest, duration, runsOf(&runs, size), &times)) {
      sayError(answers, engine.message());
    } else if (measures || isCold) {
      sayTimes(answers, times);
    } else if (!engine.run(size, 0)()) {
      sayError(answers, engine.message());
    } else if (starts) {
      dprintf(answers, "{\"nanoseconds\": %lld}\n", static_cast<long long>(now() - began));
    } else if (write(engine.parts(size), file)) {
      dprintf(answers, "{}\n");
    } else {
      sayError(answers, "cannot write the answers");
    }
  }
  return 0;
}

}  // namespace tfaot_bench

#endif
