// Runs a model library for `tfaot-pkg bench`: library ANSWERS LIBRARY TARGET INPUTS ROWS [turning]
//
// INPUTS holds the values of all inputs, each from the next multiple of 64 bytes on, ROWS rows of each that has a batch
// axis. They are read first, so that the memory of the process before it loads the library includes them. With `turning`
// each measured run gets the next rows (chunks.h). Requests come on standard input, one per line; answers go to the file
// descriptor ANSWERS, one line of JSON each:
//
//     start B          load the library and run batch size B once: {"nanoseconds": the time that took}
//     time B S D       chunks (chunks.h) of at least S nanoseconds for D nanoseconds: {"times": [nanoseconds, ...]}
//     answers B FILE   run once, write all outputs to FILE one after the other: {}
//     memory           {"empty": before the library was loaded, "peak": now}, kB of VmHWM (proc_pid_status(5))
//
// or {"error": "..."}. Iostreams and strings are not used, because they would count as measured memory.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../tools/sealed.h"
#include "chunks.h"
#include "tfaot/c_api.h"

namespace {

constexpr std::size_t kAlignment = 64;

long peakMemory() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  char line[256];
  long kilobytes = 0;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return kilobytes;
}

std::size_t bytesOf(const tfaot_tensor& tensor, std::int64_t rows) {
  const std::int64_t count = (tensor.has_batch_axis != 0 ? rows : 1) * tensor.row_elements;
  return static_cast<std::size_t>(count * tensor.element_size);
}

char* aligned(std::size_t size) {
  void* memory = nullptr;
  return posix_memalign(&memory, kAlignment, std::max<std::size_t>(size, 1)) == 0 ? static_cast<char*>(memory) : nullptr;
}

// The whole file, or nullptr.
char* contentOf(const char* path) {
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

// A model library, with buffers for `rows` rows.
class Library {
 public:
  // Returns an error message, empty on success.
  const char* load(const char* path, const char* target, const char* inputs, std::int64_t rows) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    void* entry = dlsym(library, TFAOT_ENTRY_POINT);
    if (entry == nullptr) return dlerror();
    rows_ = rows;
    model_ = reinterpret_cast<const tfaot_model_table* (*)()>(entry)();
    static char message[TFAOT_MESSAGE_SIZE];
    if (model_->create(target, &instance_, message, sizeof message) != TFAOT_OK) return message;
    for (std::size_t i = 0, offset = 0; i < model_->info->num_inputs; ++i) {
      inputs_.push_back(inputs + offset);
      offset += (bytesOf(model_->info->inputs[i], rows) + kAlignment - 1) / kAlignment * kAlignment;
    }
    for (std::size_t i = 0; i < model_->info->num_outputs; ++i) {
      outputs_.push_back(aligned(bytesOf(model_->info->outputs[i], rows)));
      if (outputs_.back() == nullptr) return "out of memory";
    }
    return "";
  }

  bool run(std::int64_t batchSize) {
    return model_->run(instance_, batchSize, inputs_.data(), outputs_.data()) == TFAOT_OK;
  }

  // The buffers of the first rows, and the sources of the next ones.
  std::vector<tfaot_bench::Turning> turning(std::int64_t batchSize) {
    std::vector<tfaot_bench::Turning> found;
    turned_ = inputs_;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const tfaot_tensor& tensor = model_->info->inputs[i];
      const std::size_t size = bytesOf(tensor, batchSize);
      if (tensor.has_batch_axis == 0) continue;
      if (copies_.size() <= i) copies_.resize(i + 1, nullptr);
      if (copies_[i] == nullptr) copies_[i] = aligned(bytesOf(tensor, rows_));
      if (copies_[i] == nullptr) continue;
      turned_[i] = copies_[i];
      found.push_back({copies_[i], static_cast<const char*>(inputs_[i]), size, bytesOf(tensor, rows_)});
    }
    return found;
  }

  bool runTurned(std::int64_t batchSize) {
    return model_->run(instance_, batchSize, turned_.data(), outputs_.data()) == TFAOT_OK;
  }

  const char* message() const { return model_->message(instance_); }

  bool write(std::int64_t rows, const char* path) const {
    std::FILE* file = std::fopen(path, "wb");
    if (file == nullptr) return false;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      std::fwrite(outputs_[i], 1, bytesOf(model_->info->outputs[i], rows), file);
    }
    return std::fclose(file) == 0;
  }

 private:
  const tfaot_model_table* model_ = nullptr;
  tfaot_instance* instance_ = nullptr;
  std::int64_t rows_ = 0;
  std::vector<const void*> inputs_, turned_;
  std::vector<char*> copies_;
  std::vector<void*> outputs_;
};

struct Runs {
  std::int64_t batchSize;
  std::int64_t runs;
};

// The number of runs in a chunk, by batch size.
std::int64_t* runsOf(std::vector<Runs>* known, std::int64_t batchSize) {
  for (Runs& each : *known) {
    if (each.batchSize == batchSize) return &each.runs;
  }
  known->push_back({batchSize, 1});
  return &known->back().runs;
}

void sayError(int answers, const char* text) {
  char safe[256];
  std::size_t size = 0;
  for (; *text != 0 && size + 1 < sizeof safe; ++text) {
    safe[size++] = *text == '"' || *text == '\\' || static_cast<unsigned char>(*text) < ' ' ? ' ' : *text;
  }
  safe[size] = 0;
  dprintf(answers, "{\"error\": \"%s\"}\n", safe);
}

void sayTimes(int answers, const std::vector<double>& times) {
  dprintf(answers, "{\"times\": [");
  for (std::size_t i = 0; i < times.size(); ++i) dprintf(answers, i == 0 ? "%.1f" : ", %.1f", times[i]);
  dprintf(answers, "]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) return 2;
  tools::start_no_programs();
  const int answers = std::atoi(argv[1]);
  const char* inputs = contentOf(argv[4]);
  if (inputs == nullptr) return 3;
  Library library;
  std::vector<Runs> runs;
  std::vector<double> times;
  long empty = 0;
  for (char line[4200]; std::fgets(line, sizeof line, stdin) != nullptr;) {
    char file[4096];
    long long size = 0, shortest = 0, duration = 0;
    if (std::sscanf(line, "start %lld", &size) == 1) {
      empty = peakMemory();
      const std::int64_t began = tfaot_bench::now();
      const char* wrong = library.load(argv[2], argv[3], inputs, std::atoll(argv[5]));
      if (*wrong != 0) {
        sayError(answers, wrong);
      } else if (!library.run(size)) {
        sayError(answers, library.message());
      } else {
        dprintf(answers, "{\"nanoseconds\": %lld}\n", static_cast<long long>(tfaot_bench::now() - began));
      }
    } else if (std::sscanf(line, "time %lld %lld %lld", &size, &shortest, &duration) == 3) {
      std::vector<tfaot_bench::Turning> rows;
      if (argc == 7) rows = library.turning(size);
      const auto run = [&] {
        for (tfaot_bench::Turning& each : rows) each.next();
        return rows.empty() ? library.run(size) : library.runTurned(size);
      };
      if (tfaot_bench::chunks(run, shortest, duration, runsOf(&runs, size), &times)) {
        sayTimes(answers, times);
      } else {
        sayError(answers, library.message());
      }
    } else if (std::sscanf(line, "answers %lld %4095[^\n]", &size, file) == 2) {
      if (!library.run(size)) {
        sayError(answers, library.message());
      } else if (!library.write(size, file)) {
        sayError(answers, "cannot write the answers");
      } else {
        dprintf(answers, "{}\n");
      }
    } else if (std::strncmp(line, "memory", 6) == 0) {
      dprintf(answers, "{\"empty\": %ld, \"peak\": %ld}\n", empty, peakMemory());
    } else {
      sayError(answers, "no such request");
    }
  }
  return 0;
}
